"""Produce: batches to the leaders of their partitions."""

from collections.abc import Mapping
from typing import Final

import msgspec

from kafka_wire.client.cluster import Cluster
from kafka_wire.client.errors import ClientError, ProtocolError, maybe_applied
from kafka_wire.client.routing import Outcome, by_topic, call_leaders
from kafka_wire.client.steps import ONCE, Call, Retry, Step, expect, retrying
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import ProduceRequest, ProduceResponse
from kafka_wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
)
from kafka_wire.schema import LATEST, Response
from kafka_wire.types import Buffer, Offset, TopicPartition

ACKS_ALL: Final = -1
LAST_VERSION_WITH_NAMES: Final = 12
"""From the next version on topics are named by their ids alone (KIP-516)."""


class Produced(msgspec.Struct, frozen=True, kw_only=True):
    """Where a batch went: all unknown for acks=0, and for a duplicate too old to be looked up."""

    base_offset: Offset | None
    log_append_time_ms: int | None
    log_start_offset: Offset | None


UNKNOWN_POSITION: Final = Produced(base_offset=None, log_append_time_ms=None, log_start_offset=None)


def produce_all(
    cluster: Cluster,
    batches: Mapping[TopicPartition, Buffer],
    *,
    acks: int,
    ack_timeout_ms: int,
    timeout_ms: int,
    transactional_id: str | None = None,
    last_version: int = LATEST,
) -> Step[dict[TopicPartition, Outcome[Produced]]]:
    """Sends one batch per partition, a request per leader; returns what became of each."""
    names: dict[bytes, str] = {}

    def build(share: list[TopicPartition]) -> Call:
        topics = [
            TopicProduceData(
                name=topic,
                topic_id=cluster.topic_id(topic),
                partition_data=[
                    PartitionProduceData(index=p.partition, records=batches[p]) for p in partitions
                ],
            )
            for topic, partitions in by_topic(share).items()
        ]
        names.update((topic.topic_id, topic.name) for topic in topics)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=ack_timeout_ms,
            topic_data=topics,
        )
        by_id = cluster.has_topic_ids(topic.name for topic in topics)
        last = last_version if by_id else min(last_version, LAST_VERSION_WITH_NAMES)
        return Call(node_id=None, request=request, timeout_ms=timeout_ms, last_version=last)

    def parse(
        response: Response | None, share: list[TopicPartition]
    ) -> dict[TopicPartition, Outcome[Produced]]:
        if response is None:
            return dict.fromkeys(share, UNKNOWN_POSITION)
        return _outcomes(expect(response, ProduceResponse), share, names)

    return (
        yield from call_leaders(
            cluster,
            list(batches),
            build,
            parse,
            timeout_ms=timeout_ms,
            allow_auto_topic_creation=True,
        )
    )


def produce(
    cluster: Cluster,
    target: TopicPartition,
    batch: Buffer,
    *,
    acks: int = ACKS_ALL,
    ack_timeout_ms: int,
    timeout_ms: int,
    retry: Retry = ONCE,
    repeatable: bool = False,
    transactional_id: str | None = None,
    last_version: int = LATEST,
) -> Step[Produced]:
    """Sends one batch. It is `repeatable` if a producer id protects it from duplicates."""
    doubtful = False

    def once() -> Step[Produced]:
        nonlocal doubtful
        outcomes = yield from produce_all(
            cluster,
            {target: batch},
            acks=acks,
            ack_timeout_ms=ack_timeout_ms,
            timeout_ms=timeout_ms,
            transactional_id=transactional_id,
            last_version=last_version,
        )
        outcome = outcomes[target]
        if doubtful and _is_duplicate(outcome):
            return UNKNOWN_POSITION
        if isinstance(outcome, KafkaError | ClientError):
            doubtful = doubtful or maybe_applied(outcome)
            raise outcome
        return outcome

    return (yield from retrying(once, retry, repeatable=repeatable, is_write=True))


def _is_duplicate(outcome: Outcome[Produced]) -> bool:
    """Whether the broker had the batch before: from an earlier attempt, if there was one."""
    return isinstance(outcome, KafkaError) and outcome.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def _outcomes(
    response: ProduceResponse, share: list[TopicPartition], names: Mapping[bytes, str]
) -> dict[TopicPartition, Outcome[Produced]]:
    unanswered = ProtocolError("the Produce response leaves this partition out")
    outcomes: dict[TopicPartition, Outcome[Produced]] = dict.fromkeys(share, unanswered)
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for item in topic.partition_responses:
            target = TopicPartition(name, item.index)
            if target in outcomes:
                outcomes[target] = _outcome(item)
    return outcomes


def _outcome(item: PartitionProduceResponse) -> Produced | KafkaError:
    if item.error_code:
        return KafkaError(ErrorCode.of(item.error_code), item.error_message)
    return Produced(
        base_offset=Offset(item.base_offset) if item.base_offset >= 0 else None,
        log_append_time_ms=item.log_append_time_ms if item.log_append_time_ms >= 0 else None,
        log_start_offset=Offset(item.log_start_offset) if item.log_start_offset >= 0 else None,
    )
