"""Offsets: where a log begins and ends, and where a group stands in it."""

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

import msgspec

from kafka_wire.client.cluster import Cluster, CoordinatorType
from kafka_wire.client.errors import OutcomeUnknownError, ProtocolError, maybe_applied
from kafka_wire.client.fetching import IsolationLevel
from kafka_wire.client.routing import Outcome, at_coordinator, by_topic, call_leaders
from kafka_wire.client.steps import ONCE, Call, Retry, Step, call, expect, expect_all, only
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import UnsupportedVersionError
from kafka_wire.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsTopic,
)
from kafka_wire.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from kafka_wire.schema import Response
from kafka_wire.types import LeaderEpoch, Offset, TopicPartition

LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2
MAX_TIMESTAMP_OFFSET: Final = -3
"""What to ask for instead of a timestamp; the last one is the record with the largest (KIP-734)."""

CONSUMER: Final = -1
"""The replica id of a request that comes from no replica."""
LAST_COMMIT_VERSION_WITH_NAMES: Final = 9


class OffsetAt(msgspec.Struct, frozen=True, kw_only=True):
    """The first record at or after a timestamp; no offset where there is none."""

    offset: Offset | None
    timestamp_ms: int | None
    leader_epoch: LeaderEpoch | None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """A position that a group has committed."""

    offset: Offset
    leader_epoch: LeaderEpoch | None = None
    metadata: str = ""


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """Who commits: a member of the group in its current epoch, or nobody in particular."""

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


ANYBODY: Final = Membership()

_Fetched: TypeAlias = OffsetFetchResponsePartition | OffsetFetchResponsePartitions


def list_offsets(
    cluster: Cluster,
    timestamps_ms: Mapping[TopicPartition, int],
    *,
    isolation_level: IsolationLevel,
    timeout_ms: int,
) -> Step[dict[TopicPartition, Outcome[OffsetAt]]]:
    """Asks the leaders for the offsets at timestamps, or at the special values above."""

    def build(share: list[TopicPartition]) -> Call:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=target.partition,
                        current_leader_epoch=_number(cluster.leader(target)[1]),
                        timestamp=timestamps_ms[target],
                    )
                    for target in targets
                ],
            )
            for topic, targets in by_topic(share).items()
        ]
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=isolation_level,
            topics=topics,
            timeout_ms=timeout_ms,
        )
        first = 7 if MAX_TIMESTAMP_OFFSET in timestamps_ms.values() else 1
        return Call(node_id=None, request=request, timeout_ms=timeout_ms, first_version=first)

    def parse(
        response: Response | None, share: list[TopicPartition]
    ) -> dict[TopicPartition, Outcome[OffsetAt]]:
        unanswered = ProtocolError("the ListOffsets response leaves this partition out")
        outcomes: dict[TopicPartition, Outcome[OffsetAt]] = dict.fromkeys(share, unanswered)
        for topic in expect(response, ListOffsetsResponse).topics:
            for item in topic.partitions:
                target = TopicPartition(topic.name, item.partition_index)
                if target in outcomes:
                    outcomes[target] = _offset_at(item)
        return outcomes

    return (
        yield from call_leaders(cluster, list(timestamps_ms), build, parse, timeout_ms=timeout_ms)
    )


def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, Committed],
    *,
    member: Membership = ANYBODY,
    timeout_ms: int,
    retry: Retry = ONCE,
) -> Step[None]:
    """Commits a group's positions. A broker may refuse one and take another (a topic that does
    not exist, metadata that is too large): then the outcome of the whole is unknown.
    """
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=target.partition,
                        committed_offset=offsets[target].offset,
                        committed_leader_epoch=_number(offsets[target].leader_epoch),
                        committed_metadata=offsets[target].metadata,
                    )
                    for target in targets
                ],
            )
            for topic, targets in by_topic(offsets).items()
        ],
    )

    def attempt(node_id: int) -> Step[None]:
        response = yield from call(
            request,
            OffsetCommitResponse,
            node_id=node_id,
            timeout_ms=timeout_ms,
            last_version=LAST_COMMIT_VERSION_WITH_NAMES,
        )
        codes = {
            TopicPartition(topic.name, item.partition_index): item.error_code
            for topic in response.topics
            for item in topic.partitions
        }
        expect_all(offsets, codes)
        _raise_refusal(codes)

    yield from at_coordinator(
        cluster,
        CoordinatorType.GROUP,
        group_id,
        attempt,
        retry,
        timeout_ms=timeout_ms,
        repeatable=True,
        is_write=True,
    )


def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Collection[TopicPartition],
    *,
    member: Membership = ANYBODY,
    require_stable: bool = True,
    timeout_ms: int,
    retry: Retry = ONCE,
) -> Step[dict[TopicPartition, Committed | None]]:
    """A group's positions; None where it has none.

    `require_stable` waits for open transactions to decide about an offset (KIP-447); until then
    the broker answers UNSTABLE_OFFSET_COMMIT, which is retriable.
    """
    topics = by_topic(partitions)

    def attempt(node_id: int) -> Step[dict[TopicPartition, Committed | None]]:
        found: list[tuple[str, _Fetched]]
        try:
            response = yield from call(
                _batched_request(group_id, topics, member, require_stable=require_stable),
                OffsetFetchResponse,
                node_id=node_id,
                timeout_ms=timeout_ms,
                first_version=8,
                last_version=LAST_COMMIT_VERSION_WITH_NAMES,
            )
            group = only(response.groups, "group")
            _raise_for(group.error_code, group_id)
            found = [(topic.name, item) for topic in group.topics for item in topic.partitions]
        except UnsupportedVersionError:
            response = yield from call(
                _single_request(group_id, topics, require_stable=require_stable),
                OffsetFetchResponse,
                node_id=node_id,
                timeout_ms=timeout_ms,
                first_version=7 if require_stable else 1,
                last_version=7,
            )
            _raise_for(response.error_code, group_id)
            found = [(topic.name, item) for topic in response.topics for item in topic.partitions]
        committed = {TopicPartition(name, i.partition_index): _committed(i) for name, i in found}
        expect_all(partitions, committed)
        return committed

    return (
        yield from at_coordinator(
            cluster,
            CoordinatorType.GROUP,
            group_id,
            attempt,
            retry,
            timeout_ms=timeout_ms,
            repeatable=True,
        )
    )


def _batched_request(
    group_id: str,
    topics: Mapping[str, list[TopicPartition]],
    member: Membership,
    *,
    require_stable: bool,
) -> OffsetFetchRequest:
    wanted = [
        OffsetFetchRequestTopics(name=topic, partition_indexes=[t.partition for t in targets])
        for topic, targets in topics.items()
    ]
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=member.member_id or None,
        member_epoch=member.epoch,
        topics=wanted,
    )
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def _single_request(
    group_id: str, topics: Mapping[str, list[TopicPartition]], *, require_stable: bool
) -> OffsetFetchRequest:
    wanted = [
        OffsetFetchRequestTopic(name=topic, partition_indexes=[t.partition for t in targets])
        for topic, targets in topics.items()
    ]
    return OffsetFetchRequest(group_id=group_id, topics=wanted, require_stable=require_stable)


def _committed(item: _Fetched) -> Committed | None:
    _raise_for(item.error_code, f"partition {item.partition_index}")
    if item.committed_offset < 0:
        return None
    return Committed(
        offset=Offset(item.committed_offset),
        leader_epoch=_epoch(item.committed_leader_epoch),
        metadata=item.metadata or "",
    )


def _offset_at(item: ListOffsetsPartitionResponse) -> OffsetAt | KafkaError:
    if item.error_code:
        return KafkaError(ErrorCode.of(item.error_code))
    return OffsetAt(
        offset=Offset(item.offset) if item.offset >= 0 else None,
        timestamp_ms=item.timestamp if item.timestamp >= 0 else None,
        leader_epoch=_epoch(item.leader_epoch),
    )


def _raise_refusal(codes: Mapping[TopicPartition, int]) -> None:
    refused = [KafkaError(ErrorCode.of(code), str(t)) for t, code in codes.items() if code]
    if not refused:
        return
    error = max(refused, key=maybe_applied)
    if len(refused) == len(codes) or maybe_applied(error):
        raise error
    raise OutcomeUnknownError(f"some of the offsets were committed, others not: {error}") from error


def _raise_for(error_code: int, what: str) -> None:
    if error_code:
        raise KafkaError(ErrorCode.of(error_code), what)


def _epoch(value: int) -> LeaderEpoch | None:
    return LeaderEpoch(value) if value >= 0 else None


def _number(epoch: LeaderEpoch | None) -> int:
    return -1 if epoch is None else epoch
