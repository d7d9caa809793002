"""Fetch: batches from the leaders of their partitions, and what a reader may see of them."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from kafka_wire.client.cluster import Cluster
from kafka_wire.client.errors import ProtocolError
from kafka_wire.client.routing import Outcome, by_topic, call_leaders
from kafka_wire.client.steps import Call, Step, expect
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import FetchRequest, FetchResponse
from kafka_wire.messages.fetch import FetchPartition, FetchTopic, PartitionData
from kafka_wire.records import (
    BatchHeader,
    Record,
    iter_fetched_batches,
    iter_records,
    parse_control_record,
)
from kafka_wire.schema import LATEST, Response
from kafka_wire.types import LeaderEpoch, Offset, ProducerId, TopicPartition

LAST_VERSION_WITH_NAMES: Final = 12
NO_EPOCH: Final = -1


class IsolationLevel(IntEnum):
    """Whether a reader sees records of transactions that are not, or never, committed (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a broker waits for how many bytes, and how many it returns at most."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024


class AbortedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A producer whose records from an offset on were aborted."""

    producer_id: ProducerId
    first_offset: Offset


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """What a leader returned for one partition."""

    fetch_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset | None
    log_start_offset: Offset | None
    leader_epoch: LeaderEpoch | None
    """The epoch that the request named, and in which the leader therefore answered."""
    preferred_read_replica: int | None
    aborted_transactions: tuple[AbortedTransaction, ...]
    data: memoryview
    """Record batches; the last one may be cut short."""

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The whole batches, each with its header."""
        return iter_fetched_batches(self.data)

    @property
    def next_offset(self) -> Offset:
        """Where to fetch next: after the last whole batch."""
        last = self.fetch_offset
        for header, _ in self.batches():
            last = max(last, header.next_offset)
        return last

    def records(self) -> Iterator[Record]:
        """What a consumer sees: from the offset asked for, without markers and aborted records.

        With READ_UNCOMMITTED the broker names no aborted transactions, so all records are seen.
        """
        pending = sorted(self.aborted_transactions, key=lambda t: t.first_offset, reverse=True)
        aborted: set[ProducerId] = set()
        for header, batch in self.batches():
            while pending and pending[-1].first_offset <= header.last_offset:
                aborted.add(pending.pop().producer_id)
            if header.is_control:
                if header.producer_id in aborted and _is_abort(batch):
                    aborted.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in aborted:
                continue
            for record in iter_records(batch):
                if record.offset >= self.fetch_offset:
                    yield record


def fetch(
    cluster: Cluster,
    positions: Mapping[TopicPartition, Offset],
    *,
    limits: FetchLimits,
    isolation_level: IsolationLevel,
    timeout_ms: int,
    rack_id: str = "",
) -> Step[dict[TopicPartition, Outcome[Fetched]]]:
    """Fetches from each position, a request per leader, without a fetch session."""
    epochs: dict[TopicPartition, LeaderEpoch | None] = {}
    names: dict[bytes, str] = {}

    def build(share: list[TopicPartition]) -> Call:
        epochs.update({target: cluster.leader(target)[1] for target in share})
        topics = [
            FetchTopic(
                topic=topic,
                topic_id=cluster.topic_id(topic),
                partitions=[
                    FetchPartition(
                        partition=target.partition,
                        current_leader_epoch=_or_none(epochs[target]),
                        fetch_offset=positions[target],
                        partition_max_bytes=limits.partition_max_bytes,
                    )
                    for target in targets
                ],
            )
            for topic, targets in by_topic(share).items()
        ]
        names.update((topic.topic_id, topic.topic) for topic in topics)
        request = FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=isolation_level,
            topics=topics,
            rack_id=rack_id,
        )
        by_id = cluster.has_topic_ids(topic.topic for topic in topics)
        return Call(
            node_id=None,
            request=request,
            # The broker may hold the request back so long before it begins to answer.
            timeout_ms=timeout_ms + limits.max_wait_ms,
            last_version=LATEST if by_id else LAST_VERSION_WITH_NAMES,
        )

    def parse(
        response: Response | None, share: list[TopicPartition]
    ) -> dict[TopicPartition, Outcome[Fetched]]:
        answer = expect(response, FetchResponse)
        if answer.error_code:
            error = KafkaError(ErrorCode.of(answer.error_code), "the fetch was refused")
            return dict.fromkeys(share, error)
        unanswered = ProtocolError("the Fetch response leaves this partition out")
        outcomes: dict[TopicPartition, Outcome[Fetched]] = dict.fromkeys(share, unanswered)
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for item in topic.partitions:
                target = TopicPartition(name, item.partition_index)
                if target in outcomes:
                    outcomes[target] = _outcome(item, positions[target], epochs[target])
        return outcomes

    return (yield from call_leaders(cluster, list(positions), build, parse, timeout_ms=timeout_ms))


def _outcome(
    item: PartitionData, fetch_offset: Offset, leader_epoch: LeaderEpoch | None
) -> Fetched | KafkaError:
    if item.error_code:
        return KafkaError(ErrorCode.of(item.error_code))
    return Fetched(
        fetch_offset=fetch_offset,
        high_watermark=Offset(item.high_watermark),
        last_stable_offset=_offset(item.last_stable_offset),
        log_start_offset=_offset(item.log_start_offset),
        leader_epoch=leader_epoch,
        preferred_read_replica=(
            item.preferred_read_replica if item.preferred_read_replica >= 0 else None
        ),
        aborted_transactions=tuple(
            AbortedTransaction(
                producer_id=ProducerId(aborted.producer_id),
                first_offset=Offset(aborted.first_offset),
            )
            for aborted in item.aborted_transactions or ()
        ),
        data=memoryview(item.records or b""),
    )


def _offset(value: int) -> Offset | None:
    return Offset(value) if value >= 0 else None


def _or_none(epoch: LeaderEpoch | None) -> int:
    return NO_EPOCH if epoch is None else epoch


def _is_abort(batch: memoryview) -> bool:
    # Compaction may leave a control batch empty.
    record = next(iter_records(batch), None)
    marker = parse_control_record(record) if record is not None else None
    return marker is not None and not marker.is_commit
