"""What a follower promises, rule by rule."""

from broker.replica.effects import Effect, FetchFromLeader, Truncated
from broker.replica.events import (
    DivergingEpoch,
    FetchAnswered,
    FetchFailed,
    FetchId,
    Read,
    RequestId,
    Tick,
)
from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch, Offset
from tests.broker.replica.replicas import Replica, read_answer
from tests.log.logs import append, new_files, open_at


def fetches(effects: list[Effect]) -> list[tuple[int, int, int | None]]:
    return [
        (e.leader_epoch, e.fetch_offset, e.last_fetched_epoch)
        for e in effects
        if isinstance(e, FetchFromLeader)
    ]


def answer(
    replica: Replica, *, fetch_id: int = 1, epoch: int = 1, **fields: object
) -> list[Effect]:
    return replica.step(
        FetchAnswered(
            leader_epoch=LeaderEpoch(epoch),
            fetch_id=FetchId(fetch_id),
            **fields,  # type: ignore[arg-type]
        )
    )


def leaders_records(*epochs: int, start: int = 0) -> memoryview:
    """A batch for each epoch, at the offsets from `start` on, as a leader has them."""
    log = open_at(new_files())
    if start:
        log.truncate_fully_and_start_at(Offset(start))
    for epoch in epochs:
        append(log, epoch=epoch)
    found = log.read(Offset(start), max_bytes=100_000, end_offset=log.log_end_offset)
    assert found is not None
    return memoryview(found.read())


def follower_with(*epochs: int) -> Replica:
    """A replica whose log holds one record of each of these epochs."""
    replica = Replica()
    for epoch in epochs:
        append(replica.log, epoch=epoch)
    replica.log.flush()
    return replica


def test_follower_asks_from_its_end_with_its_last_epoch() -> None:
    replica = follower_with(1, 2)
    assert fetches(replica.learn(leader=2, epoch=5)) == [(5, 2, 2)]


def test_follower_asks_only_for_what_follows_its_flushed_records() -> None:
    replica = Replica(flushes=False)
    replica.learn(leader=2)
    assert fetches(answer(replica, records=leaders_records(1, 1))) == []
    assert replica.log.log_end_offset == 2
    assert fetches(replica.flush()) == [(1, 2, 1)]


def test_recovered_records_are_flushed_before_they_are_acknowledged() -> None:
    replica = Replica(flushes=False)
    append(replica.log, epoch=1)
    assert fetches(replica.learn(leader=2, epoch=2)) == []
    assert fetches(replica.flush()) == [(2, 1, 1)]


def test_follower_truncates_to_the_diverging_epoch() -> None:
    replica = follower_with(1, 2, 2)
    replica.learn(leader=2, epoch=4)
    diverging = DivergingEpoch(epoch=LeaderEpoch(1), end_offset=Offset(3))
    effects = answer(replica, epoch=4, diverging=diverging)
    assert Truncated(end_offset=Offset(1), diverging=diverging) in effects
    assert fetches(effects) == [(4, 1, 1)]


def test_new_epoch_alone_truncates_nothing() -> None:
    replica = follower_with(1, 1)
    replica.learn(leader=2, epoch=2)
    replica.learn(leader=3, epoch=3)
    assert (replica.log.log_end_offset, replica.log.high_watermark) == (2, 0)


def test_empty_leader_log_truncates_everything() -> None:
    replica = follower_with(1)
    replica.learn(leader=2, epoch=2)
    answer(replica, epoch=2, diverging=DivergingEpoch(epoch=None, end_offset=Offset(0)))
    assert replica.log.log_end_offset == 0


def test_high_watermark_is_raised_after_the_append_and_never_by_a_diverging_answer() -> None:
    replica = follower_with(1, 2)
    replica.learn(leader=2, epoch=3)
    diverging = DivergingEpoch(epoch=LeaderEpoch(1), end_offset=Offset(1))
    answer(replica, epoch=3, diverging=diverging, high_watermark=Offset(2))
    assert replica.log.high_watermark == 0
    records = leaders_records(3, start=1)
    answer(replica, epoch=3, fetch_id=2, records=records, high_watermark=Offset(9))
    assert replica.log.high_watermark == 2


def test_answers_of_another_fetch_or_epoch_are_ignored() -> None:
    replica = Replica()
    replica.learn(leader=2, epoch=2)
    records = leaders_records(1)
    assert answer(replica, epoch=1, records=records) == []
    assert answer(replica, epoch=2, fetch_id=7, records=records) == []
    assert replica.log.log_end_offset == 0


def test_failed_fetch_is_repeated_after_the_backoff() -> None:
    replica = Replica()
    replica.learn(leader=2)
    failed = FetchFailed(leader_epoch=LeaderEpoch(1), fetch_id=FetchId(1))
    assert replica.step(failed) == []
    assert replica.partition.deadline_ms() == 1000
    replica.now_ms = 1000
    assert fetches(replica.step(Tick())) == [(1, 0, None)]


def test_damaged_records_are_not_taken_and_asked_for_again() -> None:
    replica = Replica()
    replica.learn(leader=2)
    damaged = bytearray(leaders_records(1))
    damaged[-1] ^= 1
    assert fetches(answer(replica, records=memoryview(damaged))) == []
    assert replica.log.log_end_offset == 0
    assert replica.partition.deadline_ms() == 1000


def test_follower_begins_anew_where_the_leader_has_deleted_what_comes_next() -> None:
    replica = follower_with(1)
    replica.learn(leader=2, epoch=2)
    error = ErrorCode.OFFSET_OUT_OF_RANGE
    effects = answer(replica, epoch=2, error=error, log_start_offset=Offset(5))
    assert fetches(effects) == [(2, 5, None)]


def test_former_leader_that_wrote_nothing_does_not_diverge() -> None:
    replica = follower_with(1)
    replica.learn(epoch=2)
    assert fetches(replica.learn(leader=2, epoch=3)) == [(3, 1, 1)]


def test_partition_without_a_leader_is_not_fetched() -> None:
    replica = Replica()
    assert fetches(replica.learn(leader=None)) == []


def test_follower_shows_a_committed_prefix_to_whoever_asks_for_that_and_to_nobody_else() -> None:
    replica = Replica()
    replica.learn(leader=2)
    answer(replica, records=leaders_records(1, 1), high_watermark=Offset(1))
    assert read_answer(replica.read()).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    prefix = Read(
        request_id=RequestId(9), fetch_offset=Offset(0), max_bytes=10_000, from_follower=True
    )
    shown = read_answer(replica.step(prefix))
    assert shown.records is not None
    assert (shown.high_watermark, shown.records.size_bytes) == (1, len(leaders_records(1)))
