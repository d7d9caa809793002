"""DeleteRecords (key 21): moves the log start offset (KIP-107).

An offset of -1 means the high watermark.
"""

from kafka_wire.schema import Int16, Int32, Int64, Request, Response, String, Struct, message


class DeleteRecordsPartition(Struct, kw_only=True):
    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct, kw_only=True):
    name: String
    partitions: list[DeleteRecordsPartition]


@message(api_key=21, versions=(0, 2), flexible_since=2)
class DeleteRecordsRequest(Request, kw_only=True):
    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct, kw_only=True):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct, kw_only=True):
    name: String
    partitions: list[DeleteRecordsPartitionResult]


@message(api_key=21, versions=(0, 2), flexible_since=2)
class DeleteRecordsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
