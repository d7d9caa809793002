"""Produce (key 0): appends record batches.

Versions 0-2 carried message formats that are gone (KIP-724). From 7 on batches may be zstd
(KIP-110); 8 names the records at fault (KIP-467); 10 tells the new leader (KIP-951); 12 adds
partitions to a transaction by writing (KIP-890); 13 names topics by id (KIP-516).
"""

from typing import Annotated

from kafka_wire.schema import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Records,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    ignorable,
    message,
    since,
    tag,
    until,
)


class PartitionProduceData(Struct, kw_only=True):
    index: Int32
    records: Records | None


class TopicProduceData(Struct, kw_only=True):
    name: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partition_data: list[PartitionProduceData]


@message(api_key=0, versions=(3, 13), flexible_since=9)
class ProduceRequest(Request, kw_only=True):
    transactional_id: String | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct, kw_only=True):
    batch_index: Int32
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct, kw_only=True):
    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since(8), ignorable] = []
    error_message: Annotated[String | None, since(8), ignorable] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tag(0)] = LeaderIdAndEpoch()


class TopicProduceResponse(Struct, kw_only=True):
    name: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct, kw_only=True):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=0, versions=(3, 13), flexible_since=9)
class ProduceResponse(Response, kw_only=True):
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], since(10), tag(0)] = []
