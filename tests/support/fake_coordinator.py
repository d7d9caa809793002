"""The groups and producers of a `FakeBroker`.

A group has one member, which leads it; every request of a producer succeeds.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafka_wire.api_keys import ApiKey
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import (
    add_partitions_to_txn,
    end_txn,
    find_coordinator,
    init_producer_id,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from kafka_wire.messages import consumer_group_heartbeat as group_heartbeat
from kafka_wire.schema import Response
from tests.support.fake_topics import topic_id

if TYPE_CHECKING:
    from tests.support.fake_broker import FakeBroker, Handler, Received

MEMBER_ID = "the-only-member"
HEARTBEAT_INTERVAL_MS = 100


class FakeCoordinator:
    """Lives in the broker's event loop."""

    def __init__(self, broker: "FakeBroker") -> None:
        self._broker = broker
        self._generation_id = 0
        self._next_producer_id = 1000
        self._producers: dict[str, tuple[int, int]] = {}

    def handlers(self) -> "dict[int, Handler]":
        return {
            ApiKey.FIND_COORDINATOR: self.handle_find_coordinator,
            ApiKey.JOIN_GROUP: self.handle_join_group,
            ApiKey.SYNC_GROUP: self.handle_sync_group,
            ApiKey.LEAVE_GROUP: self.handle_leave_group,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.handle_consumer_group_heartbeat,
            ApiKey.OFFSET_COMMIT: self.handle_offset_commit,
            ApiKey.OFFSET_FETCH: self.handle_offset_fetch,
            ApiKey.INIT_PRODUCER_ID: self.handle_init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.handle_add_partitions_to_txn,
            ApiKey.TXN_OFFSET_COMMIT: self.handle_txn_offset_commit,
            ApiKey.END_TXN: self.handle_end_txn,
        }

    def handle_find_coordinator(self, request: "Received") -> Response:
        body = request.expect(find_coordinator.FindCoordinatorRequest)
        node_id, host, port = self._broker.node_id, self._broker.host, self._broker.port
        if request.api_version < 4:
            return find_coordinator.FindCoordinatorResponse(node_id=node_id, host=host, port=port)
        return find_coordinator.FindCoordinatorResponse(
            coordinators=[
                find_coordinator.Coordinator(key=key, node_id=node_id, host=host, port=port)
                for key in body.coordinator_keys
            ]
        )

    def handle_join_group(self, request: "Received") -> Response:
        """The member is the leader, of the protocol that it likes best."""
        body = request.expect(join_group.JoinGroupRequest)
        if not body.member_id and request.api_version >= 4:
            return join_group.JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED,
                protocol_name="",
                leader="",
                member_id=MEMBER_ID,
                members=[],
            )
        self._generation_id += 1
        preferred = body.protocols[0]
        return join_group.JoinGroupResponse(
            generation_id=self._generation_id,
            protocol_type=body.protocol_type,
            protocol_name=preferred.name,
            leader=MEMBER_ID,
            member_id=MEMBER_ID,
            members=[
                join_group.JoinGroupResponseMember(
                    member_id=MEMBER_ID,
                    group_instance_id=body.group_instance_id,
                    metadata=preferred.metadata,
                )
            ],
        )

    def handle_sync_group(self, request: "Received") -> Response:
        body = request.expect(sync_group.SyncGroupRequest)
        return sync_group.SyncGroupResponse(
            protocol_type=body.protocol_type,
            protocol_name=body.protocol_name,
            assignment=next((item.assignment for item in body.assignments), b""),
        )

    def handle_leave_group(self, request: "Received") -> Response:
        body = request.expect(leave_group.LeaveGroupRequest)
        return leave_group.LeaveGroupResponse(
            members=[
                leave_group.MemberResponse(
                    member_id=member.member_id, group_instance_id=member.group_instance_id
                )
                for member in body.members
            ]
        )

    def handle_consumer_group_heartbeat(self, request: "Received") -> Response:
        """The member gets every partition of its topics, by name; regular expressions get none."""
        body = request.expect(group_heartbeat.ConsumerGroupHeartbeatRequest)
        topics = body.subscribed_topic_names
        return group_heartbeat.ConsumerGroupHeartbeatResponse(
            member_id=body.member_id or MEMBER_ID,
            member_epoch=max(body.member_epoch, 1) if body.member_epoch >= 0 else body.member_epoch,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            assignment=None
            if topics is None
            else group_heartbeat.Assignment(
                topic_partitions=[
                    group_heartbeat.TopicPartitions(
                        topic_id=topic_id(topic),
                        partitions=list(range(self._broker.topics.partitions.setdefault(topic, 1))),
                    )
                    for topic in topics
                ]
            ),
        )

    def handle_offset_commit(self, request: "Received") -> Response:
        body = request.expect(offset_commit.OffsetCommitRequest)
        return offset_commit.OffsetCommitResponse(
            topics=[
                offset_commit.OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        offset_commit.OffsetCommitResponsePartition(
                            partition_index=partition.partition_index
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in body.topics
            ]
        )

    def handle_offset_fetch(self, request: "Received") -> Response:
        """Nothing was ever committed."""
        body = request.expect(offset_fetch.OffsetFetchRequest)
        return offset_fetch.OffsetFetchResponse(
            topics=[
                offset_fetch.OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        offset_fetch.OffsetFetchResponsePartition(
                            partition_index=partition, committed_offset=-1, metadata=""
                        )
                        for partition in topic.partition_indexes
                    ],
                )
                for topic in body.topics or []
            ],
            groups=[
                offset_fetch.OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        offset_fetch.OffsetFetchResponseTopics(
                            name=topic.name,
                            topic_id=topic.topic_id,
                            partitions=[
                                offset_fetch.OffsetFetchResponsePartitions(
                                    partition_index=partition, committed_offset=-1, metadata=""
                                )
                                for partition in topic.partition_indexes
                            ],
                        )
                        for topic in group.topics or []
                    ],
                )
                for group in body.groups
            ],
        )

    def handle_init_producer_id(self, request: "Received") -> Response:
        """A new id without a transactional id, otherwise the next epoch of its id."""
        body = request.expect(init_producer_id.InitProducerIdRequest)
        name = body.transactional_id
        if name is None or name not in self._producers:
            self._next_producer_id += 1
            producer_id, epoch = self._next_producer_id, 0
        else:
            producer_id, epoch = self._producers[name]
            epoch += 1
        if name is not None:
            self._producers[name] = producer_id, epoch
        return init_producer_id.InitProducerIdResponse(
            producer_id=producer_id, producer_epoch=epoch
        )

    def handle_add_partitions_to_txn(self, request: "Received") -> Response:
        body = request.expect(add_partitions_to_txn.AddPartitionsToTxnRequest)

        def added(
            topics: Iterable[add_partitions_to_txn.AddPartitionsToTxnTopic],
        ) -> list[add_partitions_to_txn.AddPartitionsToTxnTopicResult]:
            return [
                add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                            partition_index=partition, partition_error_code=0
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in topics
            ]

        return add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=added(body.v3_and_below_topics),
            results_by_transaction=[
                add_partitions_to_txn.AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=added(transaction.topics),
                )
                for transaction in body.transactions
            ],
        )

    def handle_txn_offset_commit(self, request: "Received") -> Response:
        body = request.expect(txn_offset_commit.TxnOffsetCommitRequest)
        return txn_offset_commit.TxnOffsetCommitResponse(
            topics=[
                txn_offset_commit.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        txn_offset_commit.TxnOffsetCommitResponsePartition(
                            partition_index=partition.partition_index
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in body.topics
            ]
        )

    def handle_end_txn(self, request: "Received") -> Response:
        """From version 5 on, each transaction has an epoch of its own (KIP-890)."""
        body = request.expect(end_txn.EndTxnRequest)
        epoch = body.producer_epoch + (request.api_version >= 5)
        self._producers[body.transactional_id] = body.producer_id, epoch
        return end_txn.EndTxnResponse(producer_id=body.producer_id, producer_epoch=epoch)
