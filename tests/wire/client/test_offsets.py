"""Offsets of logs and of groups, from new brokers and from old ones."""

import pytest

from kafka_wire.client import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    MAX_TIMESTAMP_OFFSET,
    Committed,
    ConnectError,
    CoordinatorType,
    IsolationLevel,
    Membership,
    NoCommonVersionError,
    OffsetAt,
    ProtocolError,
    Retry,
)
from kafka_wire.client.routing import at_coordinator
from kafka_wire.client.steps import Call, Step, call
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)
from kafka_wire.messages.offset_commit import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_wire.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafka_wire.schema import Response
from kafka_wire.types import LeaderEpoch, Offset
from tests.wire.client.script import EVENTS_0, EVENTS_1, TOPIC, Script, coordinator_response

COMMITTED = Committed(offset=Offset(5), leader_epoch=LeaderEpoch(2), metadata="note")
RETRY = Retry(timeout_ms=1000, backoff_ms=10)
OLD = NoCommonVersionError("the broker is old")


def test_committed_offsets_come_from_the_request_for_many_groups() -> None:
    script = Script()
    script.reply(OffsetFetchRequest, _batched())
    found = script.run(script.core.committed_offsets("group", [EVENTS_0, EVENTS_1]))
    assert found == {EVENTS_0: COMMITTED, EVENTS_1: None}
    (asked,) = script.sent(OffsetFetchRequest)
    assert [group.group_id for group in asked.groups] == ["group"]
    assert asked.require_stable
    (sent,) = script.calls_of(OffsetFetchRequest)
    assert (sent.first_version, sent.last_version) == (8, 9)


def test_committed_offsets_come_from_the_request_for_one_group_where_the_broker_is_old() -> None:
    script = Script()
    script.reply(OffsetFetchRequest, OLD, _single())
    found = script.run(script.core.committed_offsets("group", [EVENTS_0, EVENTS_1]))
    assert found == {EVENTS_0: COMMITTED, EVENTS_1: None}
    sent = script.calls_of(OffsetFetchRequest)[-1]
    assert (sent.first_version, sent.last_version) == (7, 7)
    assert script.sent(OffsetFetchRequest)[-1].group_id == "group"


@pytest.mark.parametrize(
    "answers",
    [
        (OffsetFetchResponse(groups=[]),),
        (OLD, OffsetFetchResponse(topics=[])),
    ],
    ids=["no group", "no partition"],
)
def test_committed_offsets_that_the_answer_leaves_out_are_a_protocol_error(
    answers: tuple[OffsetFetchResponse | NoCommonVersionError, ...],
) -> None:
    script = Script()
    script.reply(OffsetFetchRequest, *answers)
    with pytest.raises(ProtocolError):
        script.run(script.core.committed_offsets("group", [EVENTS_0]))


def test_offsets_of_an_open_transaction_are_waited_for() -> None:
    script = Script()
    script.reply(OffsetFetchRequest, _batched(ErrorCode.UNSTABLE_OFFSET_COMMIT), _batched())
    found = script.run(script.core.committed_offsets("group", [EVENTS_0], retry=RETRY))
    assert found[EVENTS_0] == COMMITTED


@pytest.mark.parametrize("old", [False, True])
def test_an_error_of_the_group_is_raised(old: bool) -> None:
    script = Script()
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    refused = OffsetFetchResponseGroup(group_id="group", topics=[], error_code=code)
    replies = (
        (OLD, OffsetFetchResponse(topics=[], error_code=code))
        if old
        else (OffsetFetchResponse(groups=[refused]),)
    )
    script.reply(OffsetFetchRequest, *replies)
    with pytest.raises(KafkaError) as caught:
        script.run(script.core.committed_offsets("group", [EVENTS_0]))
    assert caught.value.code == code


def test_a_commit_names_its_member_and_its_topics() -> None:
    script = Script()
    answer = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=TOPIC, partitions=[OffsetCommitResponsePartition(partition_index=0)]
            )
        ]
    )
    script.reply(OffsetCommitRequest, answer)
    member = Membership(member_id="member", epoch=4, instance_id="instance")
    script.run(script.core.commit_offsets("group", {EVENTS_0: COMMITTED}, member=member))
    (request,) = script.sent(OffsetCommitRequest)
    assert (request.member_id, request.generation_id_or_member_epoch) == ("member", 4)
    assert request.group_instance_id == "instance"
    (partition,) = request.topics[0].partitions
    assert (partition.committed_offset, partition.committed_leader_epoch) == (5, 2)
    assert script.calls_of(OffsetCommitRequest)[0].last_version == 9


def test_offsets_of_logs_come_from_their_leaders() -> None:
    script = Script()
    script.always(ListOffsetsRequest, _list_offsets)
    found = script.run(
        script.core.list_offsets(
            {EVENTS_0: EARLIEST_OFFSET, EVENTS_1: LATEST_OFFSET},
            isolation_level=IsolationLevel.READ_COMMITTED,
        )
    )
    nothing = OffsetAt(offset=None, timestamp_ms=None, leader_epoch=None)
    first = OffsetAt(offset=Offset(0), timestamp_ms=9, leader_epoch=LeaderEpoch(4))
    assert found == {EVENTS_0: first, EVENTS_1: nothing}
    assert [call.node_id for call in script.calls_of(ListOffsetsRequest)] == [0, 1]
    asked = script.sent(ListOffsetsRequest)[0].topics[0].partitions[0]
    assert asked.current_leader_epoch == 5


def test_the_largest_timestamp_needs_a_broker_that_knows_the_question() -> None:
    script = Script()
    script.always(ListOffsetsRequest, _list_offsets)
    for timestamp_ms, version in ((123, 1), (MAX_TIMESTAMP_OFFSET, 7)):
        script.run(
            script.core.list_offsets(
                {EVENTS_0: timestamp_ms}, isolation_level=IsolationLevel.READ_UNCOMMITTED
            )
        )
        assert script.calls_of(ListOffsetsRequest)[-1].first_version == version


# ---------------------------------------------------------------------------- the coordinators


def test_a_coordinator_is_looked_up_once_and_again_where_it_has_moved() -> None:
    script = Script()

    def moved(_: Call) -> Response:
        script.coordinator = 1
        return ListGroupsResponse(groups=[], error_code=ErrorCode.NOT_COORDINATOR)

    script.reply(ListGroupsRequest, ListGroupsResponse(groups=[]), moved)
    script.always(ListGroupsRequest, lambda _: ListGroupsResponse(groups=[]))
    for _ in range(3):
        script.run(_at_coordinator(script))
    assert [call.node_id for call in script.calls_of(ListGroupsRequest)] == [0, 0, 1, 1]
    assert len(script.sent(FindCoordinatorRequest)) == 2


def test_a_coordinator_that_does_not_exist_yet_is_waited_for() -> None:
    script = Script()
    unavailable = coordinator_response(0, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    script.reply(FindCoordinatorRequest, unavailable, unavailable)
    script.reply(ListGroupsRequest, ListGroupsResponse(groups=[]))
    script.run(_at_coordinator(script))
    assert len(script.sent(FindCoordinatorRequest)) == 3


@pytest.mark.parametrize(
    ("kind", "first_version"), [(CoordinatorType.GROUP, 0), (CoordinatorType.TRANSACTION, 1)]
)
def test_an_old_broker_is_asked_for_one_coordinator(
    kind: CoordinatorType, first_version: int
) -> None:
    script = Script()
    script.reply(FindCoordinatorRequest, OLD)
    script.reply(ListGroupsRequest, ListGroupsResponse(groups=[]))
    script.run(_at_coordinator(script, kind))
    sent = script.calls_of(FindCoordinatorRequest)[-1]
    assert (sent.first_version, sent.last_version) == (first_version, 3)
    assert script.sent(FindCoordinatorRequest)[-1].key == "key"


def test_an_answer_without_a_coordinator_is_none() -> None:
    script = Script()
    script.always(FindCoordinatorRequest, lambda _: FindCoordinatorResponse(coordinators=[]))
    # Nothing was sent to the coordinator, so the caller need not wonder.
    with pytest.raises(ConnectError, match="expected one coordinator"):
        script.run(_at_coordinator(script, retry=Retry()))


def _at_coordinator(
    script: Script, kind: CoordinatorType = CoordinatorType.GROUP, retry: Retry = RETRY
) -> Step[ListGroupsResponse]:
    def attempt(node_id: int) -> Step[ListGroupsResponse]:
        response = yield from call(
            ListGroupsRequest(), ListGroupsResponse, node_id=node_id, timeout_ms=100
        )
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        return response

    return at_coordinator(
        script.cluster, kind, "key", attempt, retry, timeout_ms=100, repeatable=True
    )


def _batched(error_code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponse:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=0,
            committed_offset=5,
            committed_leader_epoch=2,
            metadata="note",
            error_code=error_code,
        ),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, metadata=None),
    ]
    topic = OffsetFetchResponseTopics(name=TOPIC, partitions=partitions)
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="group", topics=[topic])])


def _single() -> OffsetFetchResponse:
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=0, committed_offset=5, committed_leader_epoch=2, metadata="note"
        ),
        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=None),
    ]
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name=TOPIC, partitions=partitions)])


def _list_offsets(call: Call) -> Response:
    assert isinstance(call.request, ListOffsetsRequest)
    (asked,) = call.request.topics[0].partitions
    found = (
        ListOffsetsPartitionResponse(partition_index=1)
        if asked.partition_index
        else ListOffsetsPartitionResponse(partition_index=0, offset=0, timestamp=9, leader_epoch=4)
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[found])])
