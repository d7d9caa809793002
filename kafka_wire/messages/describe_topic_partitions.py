"""DescribeTopicPartitions (key 75): partitions with their ELR, in pages (KIP-966).

A null ELR crashes Java's admin client: send an empty list.
"""

from kafka_wire.schema import (
    OPERATIONS_OMITTED,
    Bool,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    message,
)


class TopicRequest(Struct, kw_only=True):
    name: String


class Cursor(Struct, kw_only=True):
    topic_name: String
    partition_index: Int32


@message(api_key=75, versions=(0, 0), flexible_since=0)
class DescribeTopicPartitionsRequest(Request, kw_only=True):
    topics: list[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct, kw_only=True):
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


class DescribeTopicPartitionsResponseTopic(Struct, kw_only=True):
    error_code: Int16 = 0
    name: String | None
    topic_id: Uuid
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = OPERATIONS_OMITTED


@message(api_key=75, versions=(0, 0), flexible_since=0)
class DescribeTopicPartitionsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
