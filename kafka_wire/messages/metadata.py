"""Metadata (key 3): brokers, topics and where their partitions live.

In version 0 an empty list of topics asks for all of them; from 1 on null does, and empty asks
for none. 4 may create topics, 7 adds leader epochs, 10 topic ids (KIP-516), 13 a top-level
error (KIP-1102).
"""

from typing import Annotated

from kafka_wire.schema import (
    OPERATIONS_OMITTED,
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    between,
    ignorable,
    message,
    nullable_since,
    since,
)


class MetadataRequestTopic(Struct, kw_only=True):
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    name: Annotated[String | None, nullable_since(10)]


@message(api_key=3, versions=(0, 13), flexible_since=9)
class MetadataRequest(Request, kw_only=True):
    topics: Annotated[list[MetadataRequestTopic] | None, nullable_since(1)]
    allow_auto_topic_creation: Annotated[Bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[Bool, since(8)] = False


class MetadataResponseBroker(Struct, kw_only=True):
    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[String | None, since(1), ignorable] = None


class MetadataResponsePartition(Struct, kw_only=True):
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, since(7), ignorable] = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: Annotated[list[Int32], since(5), ignorable] = []


class MetadataResponseTopic(Struct, kw_only=True):
    error_code: Int16 = 0
    name: Annotated[String | None, nullable_since(12)]
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    is_internal: Annotated[Bool, since(1), ignorable] = False
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Annotated[Int32, since(8)] = OPERATIONS_OMITTED


@message(api_key=3, versions=(0, 13), flexible_since=9)
class MetadataResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    brokers: list[MetadataResponseBroker]
    cluster_id: Annotated[String | None, since(2), ignorable] = None
    controller_id: Annotated[Int32, since(1), ignorable] = -1
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, between(8, 10)] = OPERATIONS_OMITTED
    error_code: Annotated[Int16, since(13), ignorable] = 0
