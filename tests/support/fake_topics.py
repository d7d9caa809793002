"""The topics of a `FakeBroker`: all of them led by it, with what was produced to them.

Topics come into being when they are named, and partitions are lists of batches.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from kafka_wire.api_keys import ApiKey
from kafka_wire.messages import (
    create_topics,
    delete_topics,
    fetch,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from kafka_wire.records import assign_offsets, iter_batches, validate_produced_batch
from kafka_wire.schema import Response
from kafka_wire.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from tests.support.fake_broker import FakeBroker, Handler, Received

TopicPartition: TypeAlias = tuple[str, int]

CLUSTER_ID = "fake-cluster"
LEADER_EPOCH = LeaderEpoch(3)
_EARLIEST_TIMESTAMP = -2


class FakeTopics:
    """Lives in the broker's event loop; a test may read `partitions` and `batches`."""

    def __init__(self, broker: "FakeBroker", partitions: Mapping[str, int]) -> None:
        self.partitions = dict(partitions)
        """How many partitions each topic has."""
        self.batches: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
        """What was produced, with its offsets assigned."""
        self._broker = broker
        self._log_end_offsets: defaultdict[TopicPartition, Offset] = defaultdict(lambda: Offset(0))
        self._appended: asyncio.Event | None = None

    def handlers(self) -> "dict[int, Handler]":
        return {
            ApiKey.METADATA: self.handle_metadata,
            ApiKey.PRODUCE: self.handle_produce,
            ApiKey.FETCH: self.handle_fetch,
            ApiKey.LIST_OFFSETS: self.handle_list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self.handle_offset_for_leader_epoch,
            ApiKey.CREATE_TOPICS: self.handle_create_topics,
            ApiKey.DELETE_TOPICS: self.handle_delete_topics,
        }

    def handle_metadata(self, request: "Received") -> Response:
        wanted = request.expect(metadata.MetadataRequest).topics
        everything = wanted is None or (request.api_version == 0 and not wanted)
        names = (
            sorted(self.partitions)
            if everything
            else [topic.name or self.name_of(topic.topic_id) for topic in wanted or []]
        )
        node = self._broker.node_id
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(
                    node_id=node, host=self._broker.host, port=self._broker.port
                )
            ],
            cluster_id=CLUSTER_ID,
            controller_id=node,
            topics=[
                metadata.MetadataResponseTopic(
                    name=name,
                    topic_id=topic_id(name),
                    partitions=[
                        metadata.MetadataResponsePartition(
                            partition_index=partition,
                            leader_id=node,
                            leader_epoch=LEADER_EPOCH,
                            replica_nodes=[node],
                            isr_nodes=[node],
                        )
                        for partition in range(self.partitions.setdefault(name, 1))
                    ],
                )
                for name in names
            ],
        )

    def handle_produce(self, request: "Received") -> Response | None:
        body = request.expect(produce.ProduceRequest)
        response = produce.ProduceResponse(
            responses=[
                produce.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        produce.PartitionProduceResponse(
                            index=partition.index,
                            base_offset=self.append(
                                (topic.name or self.name_of(topic.topic_id), partition.index),
                                bytearray(partition.records or b""),
                            ),
                            log_start_offset=0,
                        )
                        for partition in topic.partition_data
                    ],
                )
                for topic in body.topic_data
            ]
        )
        return None if body.acks == 0 else response

    async def handle_fetch(self, request: "Received") -> Response:
        """Waits for records as long as the request says, where there are none."""
        body = request.expect(fetch.FetchRequest)
        try:
            async with asyncio.timeout(body.max_wait_ms / 1000):
                while not self._has_records(body):
                    self._appended = self._appended or asyncio.Event()
                    await self._appended.wait()
        except TimeoutError:
            pass
        return fetch.FetchResponse(
            responses=[
                fetch.FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        self._fetched(topic.topic or self.name_of(topic.topic_id), partition)
                        for partition in topic.partitions
                    ],
                )
                for topic in body.topics
            ]
        )

    def handle_list_offsets(self, request: "Received") -> Response:
        def offset_of(
            topic: str, asked: list_offsets.ListOffsetsPartition
        ) -> list_offsets.ListOffsetsPartitionResponse:
            log_end_offset = self._log_end_offsets[topic, asked.partition_index]
            return list_offsets.ListOffsetsPartitionResponse(
                partition_index=asked.partition_index,
                offset=0 if asked.timestamp == _EARLIEST_TIMESTAMP else log_end_offset,
                leader_epoch=LEADER_EPOCH if request.api_version >= 4 else -1,
            )

        return list_offsets.ListOffsetsResponse(
            topics=[
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[offset_of(topic.name, asked) for asked in topic.partitions],
                )
                for topic in request.expect(list_offsets.ListOffsetsRequest).topics
            ]
        )

    def handle_offset_for_leader_epoch(self, request: "Received") -> Response:
        body = request.expect(offset_for_leader_epoch.OffsetForLeaderEpochRequest)
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        offset_for_leader_epoch.EpochEndOffset(
                            partition=asked.partition,
                            leader_epoch=asked.leader_epoch,
                            end_offset=self._log_end_offsets[topic.topic, asked.partition],
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in body.topics
            ]
        )

    def handle_create_topics(self, request: "Received") -> Response:
        body = request.expect(create_topics.CreateTopicsRequest)
        for topic in body.topics:
            self.partitions[topic.name] = max(topic.num_partitions, 1)
        return create_topics.CreateTopicsResponse(
            topics=[
                create_topics.CreatableTopicResult(
                    name=topic.name,
                    topic_id=topic_id(topic.name),
                    num_partitions=self.partitions[topic.name],
                    replication_factor=1,
                )
                for topic in body.topics
            ]
        )

    def handle_delete_topics(self, request: "Received") -> Response:
        body = request.expect(delete_topics.DeleteTopicsRequest)
        names = body.topic_names or [
            topic.name or self.name_of(topic.topic_id) for topic in body.topics
        ]
        for name in names:
            self.partitions.pop(name, None)
        return delete_topics.DeleteTopicsResponse(
            responses=[
                delete_topics.DeletableTopicResult(name=name, topic_id=topic_id(name))
                for name in names
            ]
        )

    def append(self, partition: TopicPartition, records: bytearray) -> Offset:
        """Append batches; a test may do so before the broker starts. Returns their base offset."""
        base_offset = self._log_end_offsets[partition]
        for _, batch in iter_batches(records):
            header = validate_produced_batch(batch)
            offset = self._log_end_offsets[partition]
            assign_offsets(batch, base_offset=offset, leader_epoch=LEADER_EPOCH)
            self.batches[partition].append(bytes(batch))
            self._log_end_offsets[partition] = Offset(offset + header.records_count)
        if self._appended is not None:
            self._appended.set()
            self._appended = None
        return base_offset

    def name_of(self, wanted: bytes) -> str:
        return next(name for name in self.partitions if topic_id(name) == wanted)

    def _has_records(self, body: fetch.FetchRequest) -> bool:
        return any(
            self._log_end_offsets[topic.topic or self.name_of(topic.topic_id), asked.partition]
            > asked.fetch_offset
            for topic in body.topics
            for asked in topic.partitions
        )

    def _fetched(self, topic: str, asked: fetch.FetchPartition) -> fetch.PartitionData:
        partition = topic, asked.partition
        log_end_offset = self._log_end_offsets[partition]
        wanted = (
            batch
            for batch in self.batches[partition]
            for header, _ in iter_batches(batch)
            if header.next_offset > asked.fetch_offset
        )
        return fetch.PartitionData(
            partition_index=asked.partition,
            high_watermark=log_end_offset,
            last_stable_offset=log_end_offset,
            log_start_offset=0,
            aborted_transactions=None,
            records=b"".join(wanted),
        )


def topic_id(name: str) -> bytes:
    """A name always has the same id."""
    return hashlib.sha256(name.encode()).digest()[:16]
