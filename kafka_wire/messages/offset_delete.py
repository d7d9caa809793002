"""OffsetDelete (key 47): forgets a group's positions (KIP-496)."""

from kafka_wire.schema import Int16, Int32, Request, Response, String, Struct, message


class OffsetDeleteRequestPartition(Struct, kw_only=True):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct, kw_only=True):
    name: String
    partitions: list[OffsetDeleteRequestPartition]


@message(api_key=47, versions=(0, 0))
class OffsetDeleteRequest(Request, kw_only=True):
    group_id: String
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct, kw_only=True):
    name: String
    partitions: list[OffsetDeleteResponsePartition]


@message(api_key=47, versions=(0, 0))
class OffsetDeleteResponse(Response, kw_only=True):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
