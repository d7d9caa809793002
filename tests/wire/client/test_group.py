"""A KIP-848 member's core, against a coordinator that answers as Kafka's does.

Kafka sends an assignment only where it has changed since the member's last heartbeat, or where
the heartbeat says everything: a member that loses an answer has to say everything to learn it.
"""

import asyncio
from collections.abc import Callable

import pytest

from kafka_wire.client import (
    ClientError,
    ClientStateError,
    ConnectError,
    ConnectionLostError,
    RequestTimedOutError,
    Retry,
    Subscription,
    TopicPartition,
)
from kafka_wire.client.group import GroupMemberCore, Rebalance, State
from kafka_wire.client.steps import Call, Step
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    MetadataRequest,
)
from kafka_wire.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from kafka_wire.schema import Response
from tests.wire.client.script import EVENTS_0, EVENTS_1, TOPIC, TOPIC_ID, Script, metadata

INTERVAL_MS = 3000
NEW_TOPIC_ID = b"events, made new"
RETRY = Retry(timeout_ms=5000, backoff_ms=10)
BOTH = frozenset({EVENTS_0, EVENTS_1})


class FakeGroup:
    """One member's side of the coordinator; `assign` decides what it is to have."""

    def __init__(self) -> None:
        self.script = Script()
        self.epoch = 0
        self.owned: dict[bytes, list[int]] | None = None
        """What the member last said that it owns."""
        self._assigned: dict[bytes, list[int]] = {}
        self._changed = False
        self.script.always(ConsumerGroupHeartbeatRequest, self.answer)

    @property
    def requests(self) -> list[ConsumerGroupHeartbeatRequest]:
        return self.script.sent(ConsumerGroupHeartbeatRequest)

    def member(
        self, subscription: Subscription | None = None, retry: Retry = RETRY
    ) -> GroupMemberCore:
        return self.script.core.group_member(
            "group",
            subscription or Subscription(topics=(TOPIC,)),
            member_id="member",
            retry=retry,
        )

    def assign(self, partitions: list[int], *, topic_id: bytes = TOPIC_ID) -> None:
        self._assigned = {topic_id: partitions} if partitions else {}
        self._changed = True
        self.epoch += 1

    def answer(self, call: Call) -> Response:
        request = call.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        if request.topic_partitions is not None:
            self.owned = {item.topic_id: item.partitions for item in request.topic_partitions}
        is_full = request.subscribed_topic_names is not None
        tell = is_full or self._changed
        self._changed = False
        assigned = [
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in self._assigned.items()
        ]
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=Assignment(topic_partitions=assigned) if tell else None,
        )

    def lose_answer(self, error: BaseException) -> None:
        """The next heartbeat arrives, its answer does not."""

        def lost(call: Call) -> Response:
            self.answer(call)
            raise error

        self.script.reply(ConsumerGroupHeartbeatRequest, lost)

    def refuse(self, code: ErrorCode) -> None:
        refusal = ConsumerGroupHeartbeatResponse(
            error_code=code, member_epoch=0, heartbeat_interval_ms=0
        )
        self.script.reply(ConsumerGroupHeartbeatRequest, refusal)


def test_a_member_joins_with_everything_and_then_says_only_what_is_new() -> None:
    group, member = _joined([0])
    assert member.owned == {EVENTS_0}
    assert member.state is State.IN
    join = group.requests[0]
    assert (join.member_epoch, join.topic_partitions) == (0, [])
    assert join.subscribed_topic_names == [TOPIC]
    assert join.rebalance_timeout_ms > 0
    group.script.run(member.heartbeat())
    group.script.run(member.heartbeat(force=True))
    confirm, idle = group.requests[1:]
    assert confirm.topic_partitions == [TopicPartitions(topic_id=TOPIC_ID, partitions=[0])]
    for request in (confirm, idle):
        assert request.member_epoch == 1
        assert request.subscribed_topic_names is None
        assert request.rebalance_timeout_ms == -1
    assert idle.topic_partitions is None


def test_a_heartbeat_is_sent_when_it_is_due_and_not_before() -> None:
    group, member = _joined([0])
    assert group.script.run(member.heartbeat()) is None  # the change is confirmed at once
    group.script.now_ms += INTERVAL_MS - 1
    group.script.run(member.heartbeat())
    assert len(group.requests) == 2
    group.script.now_ms += 1
    group.script.run(member.heartbeat())
    assert len(group.requests) == 3


def test_a_partition_is_free_only_when_the_member_has_let_go_of_it() -> None:
    group, member = _joined([0, 1])
    group.script.run(member.heartbeat(force=True))
    group.assign([1])
    change = group.script.run(member.heartbeat(force=True))
    assert change == Rebalance(revoked=frozenset({EVENTS_0}))
    assert group.owned == {TOPIC_ID: [0, 1]}, "the coordinator must not hear of it yet"
    group.script.run(member.heartbeat())
    assert group.owned == {TOPIC_ID: [1]}


@pytest.mark.parametrize("retry", [RETRY, Retry()], ids=["retried", "repeated by the caller"])
@pytest.mark.parametrize("error", [ConnectionLostError("lost"), RequestTimedOutError("late")])
def test_an_assignment_whose_answer_was_lost_is_learned_all_the_same(
    retry: Retry, error: ClientError
) -> None:
    group, member = _joined([], retry=retry)
    group.assign([0, 1])
    group.lose_answer(error)
    try:
        group.script.run(member.heartbeat(force=True))
    except ClientError:
        group.script.run(member.heartbeat(force=True))
    assert member.owned == BOTH
    assert group.requests[-1].subscribed_topic_names == [TOPIC]
    assert group.requests[-1].topic_partitions == []


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt()])
def test_an_assignment_whose_heartbeat_was_cut_off_is_learned_all_the_same(
    error: BaseException,
) -> None:
    group, member = _joined([])
    group.assign([0, 1])
    group.lose_answer(error)
    with pytest.raises(type(error)):
        group.script.run(member.heartbeat(force=True))
    group.script.run(member.heartbeat(force=True))
    assert member.owned == BOTH


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_an_expelled_member_loses_everything_and_joins_anew(code: ErrorCode) -> None:
    group, member = _joined([0])
    group.refuse(code)
    change = group.script.run(member.heartbeat(force=True))
    assert change == Rebalance(revoked=frozenset({EVENTS_0}), lost=True)
    assert member.owned == frozenset()
    assert member.state is State.OUT
    group.assign([1])
    change = group.script.run(member.heartbeat())
    assert change == Rebalance(assigned=frozenset({EVENTS_1}))
    rejoin = group.requests[-1]
    assert (rejoin.member_epoch, rejoin.member_id) == (0, "member")
    assert (rejoin.topic_partitions, rejoin.subscribed_topic_names) == ([], [TOPIC])


def test_another_error_is_the_callers_and_changes_nothing() -> None:
    group, member = _joined([0])
    group.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError):
        group.script.run(member.heartbeat(force=True))
    assert member.owned == {EVENTS_0}
    group.script.run(member.heartbeat(force=True))
    assert group.requests[-1].subscribed_topic_names == [TOPIC]


def test_a_partition_of_an_unknown_topic_is_taken_up_when_the_topic_is_known() -> None:
    group = FakeGroup()
    member = group.member()
    group.assign([0])
    unknown = metadata({}, topic=None, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    group.script.reply(MetadataRequest, unknown)
    assert group.script.run(member.heartbeat()) is None
    assert member.owned == frozenset()
    change = group.script.run(member.heartbeat(force=True))
    assert change == Rebalance(assigned=frozenset({EVENTS_0}))


def test_metadata_that_does_not_come_does_not_lose_the_assignment() -> None:
    group = FakeGroup()
    member = group.member()
    group.assign([0])
    group.script.reply(MetadataRequest, RequestTimedOutError("late"))
    with pytest.raises(RequestTimedOutError):
        group.script.run(member.heartbeat())
    change = group.script.run(member.heartbeat(force=True))
    assert change == Rebalance(assigned=frozenset({EVENTS_0}))


def test_a_partition_of_a_topic_made_anew_is_another_one() -> None:
    group, member = _joined([0])
    group.script.run(member.heartbeat())
    group.script.always(MetadataRequest, lambda _: metadata({0: 0}, topic_id=NEW_TOPIC_ID, epoch=0))
    group.assign([0], topic_id=NEW_TOPIC_ID)
    change = group.script.run(member.heartbeat(force=True))
    events_0 = frozenset({EVENTS_0})
    assert change == Rebalance(revoked=events_0, assigned=events_0)
    group.script.run(member.heartbeat())
    assert group.owned == {NEW_TOPIC_ID: [0]}


def test_a_member_knows_what_it_owns_though_the_metadata_forgets() -> None:
    group, member = _joined([0])
    group.script.cluster.update(metadata({}, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    group.script.run(member.heartbeat())
    assert group.owned == {TOPIC_ID: [0]}
    assert member.owned == {EVENTS_0}


def test_a_heartbeat_follows_the_coordinator_where_it_moves() -> None:
    group, member = _joined([0])
    group.script.coordinator = 1
    group.refuse(ErrorCode.NOT_COORDINATOR)
    group.script.run(member.heartbeat())
    nodes = [call.node_id for call in group.script.calls_of(ConsumerGroupHeartbeatRequest)]
    assert nodes == [0, 0, 1]


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("static", -2)])
def test_a_member_leaves_at_once_and_a_static_one_for_a_while(
    instance_id: str | None, epoch: int
) -> None:
    group = FakeGroup()
    member = group.member(Subscription(topics=(TOPIC,), instance_id=instance_id))
    group.script.run(member.heartbeat())
    group.script.run(member.leave())
    assert group.requests[-1].member_epoch == epoch
    assert group.requests[-1].instance_id == instance_id
    assert member.state is State.LEFT
    assert member.owned == frozenset()
    with pytest.raises(ClientStateError, match="left"):
        group.script.run(member.heartbeat())


def test_a_member_that_may_have_joined_leaves() -> None:
    """Otherwise its partitions would wait for the end of a session that nobody holds."""
    group = FakeGroup()
    member = group.member(retry=Retry())
    group.assign([0])
    group.lose_answer(RequestTimedOutError("late"))
    with pytest.raises(RequestTimedOutError):
        group.script.run(member.heartbeat())
    group.script.run(member.leave())
    assert group.requests[-1].member_epoch == -1


def test_a_member_that_never_joined_or_was_expelled_leaves_without_a_request() -> None:
    group = FakeGroup()
    group.script.run(group.member().leave())
    assert group.requests == []
    group, member = _joined([0])
    group.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    group.script.run(member.heartbeat())
    group.script.run(member.leave())
    assert len(group.requests) == 2


def test_a_member_that_the_group_does_not_know_has_left() -> None:
    group, member = _joined([0])
    group.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    group.script.run(member.leave())
    assert member.state is State.LEFT


def test_a_leave_that_failed_can_be_repeated() -> None:
    group, member = _joined([0], retry=Retry())
    group.script.reply(ConsumerGroupHeartbeatRequest, ConnectError("refused"))
    with pytest.raises(ConnectError):
        group.script.run(member.leave())
    group.script.run(member.leave())
    assert member.state is State.LEFT


def test_one_heartbeat_at_a_time() -> None:
    group, member = _joined([0])
    first = member.heartbeat(force=True)
    first.send(None)
    first.send(0)
    for step in (member.heartbeat(force=True), member.leave()):
        with pytest.raises(ClientStateError, match="under way"):
            group.script.run(step)
    first.close()
    group.script.run(member.heartbeat(force=True))


def test_offsets_are_committed_in_the_members_epoch() -> None:
    group, member = _joined([0])
    assert (member.membership.member_id, member.membership.epoch) == ("member", group.epoch)


def test_a_pattern_is_sent_with_the_join() -> None:
    group = FakeGroup()
    member = group.member(Subscription(topic_pattern="ev.*", rack_id="r", server_assignor="range"))
    group.script.run(member.heartbeat())
    join = group.requests[0]
    assert join.subscribed_topic_regex == "ev.*"
    assert (join.rack_id, join.server_assignor) == ("r", "range")


def test_mutant_a_heartbeat_repeated_as_it_was_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    send = GroupMemberCore._send

    def repeating(
        self: GroupMemberCore, build: Callable[[], ConsumerGroupHeartbeatRequest]
    ) -> Step[ConsumerGroupHeartbeatResponse]:
        request = build()
        return send(self, lambda: request)

    monkeypatch.setattr(GroupMemberCore, "_send", repeating)
    with pytest.raises(AssertionError):
        test_an_assignment_whose_answer_was_lost_is_learned_all_the_same(
            RETRY, ConnectionLostError("lost")
        )


def test_mutant_a_partition_confirmed_before_it_is_let_go_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heartbeat = GroupMemberCore.heartbeat

    def eager(self: GroupMemberCore, *, force: bool = False) -> Step[Rebalance | None]:
        change = yield from heartbeat(self, force=force)
        if change is not None:
            yield from heartbeat(self)
        return change

    monkeypatch.setattr(GroupMemberCore, "heartbeat", eager)
    with pytest.raises(AssertionError, match="must not hear of it yet"):
        test_a_partition_is_free_only_when_the_member_has_let_go_of_it()


def _joined(partitions: list[int], retry: Retry = RETRY) -> tuple[FakeGroup, GroupMemberCore]:
    group = FakeGroup()
    member = group.member(retry=retry)
    group.assign(partitions)
    change = group.script.run(member.heartbeat())
    assigned = frozenset(TopicPartition(TOPIC, partition) for partition in partitions)
    assert change == (Rebalance(assigned=assigned) if assigned else None)
    return group, member
