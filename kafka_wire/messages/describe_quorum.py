"""DescribeQuorum (key 55): leader, voters and observers of the metadata quorum (KIP-595).

1 adds timestamps (KIP-836), 2 directories and endpoints (KIP-853).
"""

from typing import Annotated

from kafka_wire.schema import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Struct,
    UInt16,
    Uuid,
    ignorable,
    message,
    since,
)


class PartitionData(Struct, kw_only=True):
    partition_index: Int32


class TopicData(Struct, kw_only=True):
    topic_name: String
    partitions: list[PartitionData]


@message(api_key=55, versions=(0, 2), flexible_since=0)
class DescribeQuorumRequest(Request, kw_only=True):
    topics: list[TopicData]


class ReplicaState(Struct, kw_only=True):
    replica_id: Int32
    replica_directory_id: Annotated[Uuid, since(2)] = ZERO_UUID
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, since(1), ignorable] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1), ignorable] = -1


class PartitionDataResult(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(2), ignorable] = None
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class TopicDataResult(Struct, kw_only=True):
    topic_name: String
    partitions: list[PartitionDataResult]


class Listener(Struct, kw_only=True):
    name: String
    host: String
    port: UInt16


class Node(Struct, kw_only=True):
    node_id: Int32
    listeners: list[Listener]


@message(api_key=55, versions=(0, 2), flexible_since=0)
class DescribeQuorumResponse(Response, kw_only=True):
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(2), ignorable] = None
    topics: list[TopicDataResult]
    nodes: Annotated[list[Node], since(2)] = []
