"""What a leader promises, rule by rule."""

import pytest

from broker.replica.effects import Effect, FollowerFetchAnswered, ProduceAnswered
from broker.replica.events import Acks, IsrRefused, IsrUnknown, ReadLatest, StorageFailed, Tick
from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch
from tests.broker.replica.replicas import (
    Replica,
    fetch_answer,
    proposal,
    proposals,
    read_answer,
)


def leader(**metadata: object) -> Replica:
    replica = Replica()
    replica.learn(**metadata)  # type: ignore[arg-type]
    return replica


def produced(effects: list[Effect]) -> list[ErrorCode | None]:
    return [e.error for e in effects if isinstance(e, ProduceAnswered)]


def test_batches_are_stamped_with_the_leader_epoch() -> None:
    replica = leader(epoch=7)
    replica.append()
    assert replica.log.epochs.latest == 7


def test_old_epoch_is_fenced_and_newer_one_is_unknown() -> None:
    replica = leader(epoch=5)
    assert fetch_answer(replica.fetch(2, 0, epoch=4)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert fetch_answer(replica.fetch(2, 0, epoch=6)).error is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_high_watermark_waits_for_every_member_of_the_isr() -> None:
    replica = leader()
    assert produced(replica.append()) == []
    assert produced(replica.fetch(2, 1)) == []
    assert replica.log.high_watermark == 0
    assert produced(replica.fetch(3, 1)) == [None]
    assert replica.log.high_watermark == 1


def test_only_flushed_records_of_the_leader_count() -> None:
    replica = leader()
    replica.flushes = False
    replica.append()
    replica.append(Acks.LEADER)
    replica.fetch(2, 2)
    assert produced(replica.fetch(3, 2)) == []
    assert replica.log.high_watermark == 0
    assert sorted(map(str, produced(replica.flush()))) == ["None", "None"]
    assert replica.log.high_watermark == 2


def test_acks_0_is_answered_at_once_and_acks_1_by_the_leaders_flush() -> None:
    replica = leader()
    replica.flushes = False
    assert produced(replica.append(Acks.NONE)) == [None]
    assert produced(replica.append(Acks.LEADER)) == []
    assert produced(replica.flush()) == [None]


def test_small_isr_refuses_before_the_append() -> None:
    replica = leader(isr=(1,))
    assert produced(replica.append()) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert replica.log.log_end_offset == 0
    assert produced(replica.append(Acks.LEADER)) == [None]


def test_isr_that_shrinks_after_the_append_is_told_and_freezes_the_high_watermark() -> None:
    replica = leader()
    replica.append()
    assert produced(replica.learn(isr=(1,))) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert replica.log.high_watermark == 0
    replica.learn(isr=(1,), min_isr=1)
    assert replica.log.high_watermark == 1


def test_produce_times_out() -> None:
    replica = leader()
    replica.append(timeout_ms=300)
    assert replica.partition.deadline_ms() == 300
    replica.now_ms = 300
    assert produced(replica.step(Tick())) == [ErrorCode.REQUEST_TIMED_OUT]


def test_losing_the_epoch_fails_whoever_waits() -> None:
    replica = leader()
    replica.append()
    replica.fetch(2, 1, wait_ms=500)
    replica.fetch(2, 1, wait_ms=500)
    effects = replica.learn(leader=2, epoch=2)
    assert produced(effects) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert fetch_answer(effects).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch_answer(effects).leader == 2


# ------------------------------------------------------------------------------------ reads


def test_kip_207_latest_is_not_available_before_the_epochs_start_is_committed() -> None:
    replica = leader()
    replica.append()
    replica.learn(leader=2, epoch=2)
    replica.learn(epoch=3)
    latest = ReadLatest(request_id=replica.request_id())
    assert read_answer(replica.step(latest)).error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert read_answer(replica.read()).error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert replica.read(wait_ms=500) == []
    replica.fetch(2, 1, epoch=3)
    assert read_answer(replica.fetch(3, 1, epoch=3)).high_watermark == 1


def test_read_is_refused_without_a_lease_and_the_lease_is_checked_last() -> None:
    replica = leader()
    assert read_answer(replica.read()).error is None
    replica.append()
    replica.read(0, wait_ms=500)
    replica.fetch(2, 1)
    replica.has_lease = False
    effects = replica.fetch(3, 1)
    assert read_answer(effects).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.lease_checks[-1] == 1


def test_read_that_waited_is_not_answered_in_another_epoch() -> None:
    replica = leader()
    replica.read(0, wait_ms=500)
    assert read_answer(replica.learn(epoch=2)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_reader_does_not_see_what_only_the_leader_has() -> None:
    replica = leader()
    replica.append()
    answer = read_answer(replica.read())
    assert (answer.records, answer.high_watermark) == (None, 0)


def test_waiting_read_is_answered_empty_at_its_deadline() -> None:
    replica = leader()
    assert replica.read(wait_ms=200) == []
    replica.now_ms = 200
    answer = read_answer(replica.step(Tick()))
    assert (answer.error, answer.records) == (None, None)


# ---------------------------------------------------------------------------- followers


def test_fetch_of_an_old_incarnation_is_not_credited() -> None:
    replica = leader()
    replica.append()
    replica.fetch(2, 0, broker_epoch=25)
    answer = fetch_answer(replica.fetch(2, 1, broker_epoch=20))
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.fetch(3, 1)
    assert replica.log.high_watermark == 0


def test_diverging_fetch_is_not_credited_and_not_told_the_high_watermark() -> None:
    replica = leader(epoch=3)
    replica.append()
    replica.fetch(3, 1, epoch=3)
    answer = fetch_answer(replica.fetch(2, 1, last_epoch=2, epoch=3))
    assert answer.diverging is not None
    assert answer.diverging.end_offset == 0
    assert answer.high_watermark is None
    assert replica.log.high_watermark == 0


def test_offsets_of_an_earlier_epoch_are_forgotten() -> None:
    replica = leader()
    replica.append()
    replica.fetch(2, 1)
    replica.learn(epoch=2)
    replica.fetch(3, 1, epoch=2)
    assert replica.log.high_watermark == 0


def test_waiting_follower_learns_of_the_high_watermark() -> None:
    replica = leader()
    replica.append()
    replica.fetch(2, 1)
    assert replica.fetch(2, 1, wait_ms=500) == []
    told = [
        effect.high_watermark
        for effect in replica.fetch(3, 1, wait_ms=500)
        if isinstance(effect, FollowerFetchAnswered)
    ]
    assert told == [1, 1]


# ----------------------------------------------------------------------------------- ISR


def test_follower_joins_at_the_high_watermark_and_the_epochs_start() -> None:
    replica = leader(isr=(1, 2))
    replica.append()
    replica.learn(isr=(1, 2), epoch=2)
    assert replica.log.high_watermark == 0
    assert proposals(replica.fetch(3, 0, epoch=2)) == []
    joined = proposal(replica.fetch(3, 1, epoch=2))
    assert [(m.broker_id, m.broker_epoch) for m in joined.new_isr] == [(1, 10), (2, 20), (3, 30)]


def test_fenced_follower_is_not_proposed() -> None:
    replica = Replica(ineligible={3})
    replica.learn(isr=(1, 2))
    assert proposals(replica.fetch(3, 0)) == []


def test_proposed_member_holds_the_high_watermark_back() -> None:
    replica = leader(isr=(1, 2))
    joined = proposal(replica.fetch(3, 0))
    replica.append()
    assert produced(replica.fetch(2, 1)) == []
    assert produced(replica.altered(joined)) == []
    assert produced(replica.fetch(3, 1)) == [None]


@pytest.mark.parametrize("kind", [IsrRefused, IsrUnknown])
def test_refusal_and_unknown_outcome_roll_nothing_back(
    kind: type[IsrRefused] | type[IsrUnknown],
) -> None:
    replica = leader(isr=(1, 2))
    joined = proposal(replica.fetch(3, 0))
    if kind is IsrUnknown:
        replica.step(IsrUnknown(proposal_id=joined.proposal_id))
    else:
        error = ErrorCode.INELIGIBLE_REPLICA
        replica.step(IsrRefused(proposal_id=joined.proposal_id, error=error))
    replica.append()
    assert produced(replica.fetch(2, 1)) == []
    # A newer partition epoch does: nothing of the old one is accepted any more.
    assert produced(replica.learn(isr=(1, 2))) == [None]


def test_refused_proposal_is_made_again_after_a_while() -> None:
    replica = leader(isr=(1, 2))
    joined = proposal(replica.fetch(3, 0))
    replica.step(IsrUnknown(proposal_id=joined.proposal_id))
    due_ms = replica.partition.deadline_ms()
    assert due_ms is not None
    replica.now_ms = due_ms
    again = proposal(replica.step(Tick()))
    assert (again.new_isr, again.partition_epoch) == (joined.new_isr, joined.partition_epoch)


def test_newer_registration_of_the_proposed_broker_ends_the_proposal() -> None:
    replica = leader(isr=(1, 2))
    proposal(replica.fetch(3, 0))
    replica.append()
    assert produced(replica.fetch(2, 1)) == []
    replica.epochs[3] = 31
    assert produced(replica.learn(isr=(1, 2), partition_epoch=1)) == [None]


def test_freeze_counts_the_confirmed_isr_not_the_proposed_one() -> None:
    replica = leader(isr=(1,), min_isr=2)
    replica.append(Acks.LEADER)
    joined = proposal(replica.fetch(2, 1))
    assert replica.log.high_watermark == 0
    replica.altered(joined)
    assert replica.log.high_watermark == 1


def test_min_isr_belongs_to_the_confirmed_partition_epoch() -> None:
    replica = leader(isr=(1, 2))
    joined = proposal(replica.fetch(3, 0))
    replica.altered(joined, min_isr=3)
    # This is metadata that the answer has overtaken.
    replica.learn(isr=(1, 2), min_isr=1, partition_epoch=1)
    state = replica.partition.leader
    assert state is not None
    assert (state.isr.min_isr, state.isr.committed) == (3, (1, 2, 3))


def test_follower_that_lags_leaves_and_one_that_keeps_up_stays() -> None:
    replica = leader()
    replica.append()
    replica.now_ms = 900
    replica.fetch(2, 1)
    replica.now_ms = 1001
    left = proposal(replica.step(Tick()))
    assert [member.broker_id for member in left.new_isr] == [1, 2]


def test_follower_that_has_just_joined_has_a_full_term_to_catch_up() -> None:
    replica = leader(isr=(1,))
    replica.append(Acks.LEADER)
    replica.now_ms = 5000
    assert proposals(replica.altered(proposal(replica.fetch(2, 0)))) == []
    assert replica.partition.deadline_ms() == 6001


def test_idle_follower_that_has_everything_does_not_lag() -> None:
    replica = leader()
    replica.fetch(2, 0)
    replica.fetch(3, 0)
    replica.now_ms = 1_000_000
    assert proposals(replica.step(Tick())) == []
    assert replica.partition.deadline_ms() is None


def test_restarted_broker_does_not_lead_in_an_epoch_before_its_registration() -> None:
    replica = leader(began_at=10)
    assert replica.partition.leader is None
    assert produced(replica.append()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    replica.learn(epoch=2, began_at=11)
    assert replica.partition.leader is not None


def test_failed_disk_ends_the_leadership() -> None:
    replica = leader()
    replica.append()
    assert produced(replica.step(StorageFailed())) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert read_answer(replica.read()).error is ErrorCode.KAFKA_STORAGE_ERROR


def test_end_of_epoch_is_the_log_end_for_the_current_one() -> None:
    replica = leader(epoch=3)
    replica.append()
    replica.learn(epoch=5)
    at = replica.partition.end_of_epoch
    assert at(LeaderEpoch(5), leader_epoch=None) == (5, 1)
    assert at(LeaderEpoch(4), leader_epoch=None) == (3, 1)
    assert at(LeaderEpoch(3), leader_epoch=LeaderEpoch(4)) is ErrorCode.FENCED_LEADER_EPOCH
