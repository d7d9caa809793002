"""DescribeProducers (key 61): the producer state of partitions (KIP-664)."""

from kafka_wire.schema import Int16, Int32, Int64, Request, Response, String, Struct, message


class TopicRequest(Struct, kw_only=True):
    name: String
    partition_indexes: list[Int32]


@message(api_key=61, versions=(0, 0), flexible_since=0)
class DescribeProducersRequest(Request, kw_only=True):
    topics: list[TopicRequest]


class ProducerState(Struct, kw_only=True):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState]


class TopicResponse(Struct, kw_only=True):
    name: String
    partitions: list[PartitionResponse]


@message(api_key=61, versions=(0, 0), flexible_since=0)
class DescribeProducersResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse]
