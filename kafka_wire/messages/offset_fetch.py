"""OffsetFetch (key 9): reads a group's positions.

From 2 on null topics ask for all. 7 can insist on stable offsets (KIP-447), 8 asks for many
groups at once (KIP-709), 9 serves members of KIP-848 groups, 10 names topics by id.
"""

from typing import Annotated

from kafka_wire.schema import (
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    Int64,
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
    until,
)


class OffsetFetchRequestTopic(Struct, kw_only=True):
    name: String
    partition_indexes: list[Int32]


class OffsetFetchRequestTopics(Struct, kw_only=True):
    name: Annotated[String, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Struct, kw_only=True):
    group_id: String
    member_id: Annotated[String | None, since(9), ignorable] = None
    member_epoch: Annotated[Int32, since(9), ignorable] = -1
    topics: list[OffsetFetchRequestTopics] | None


@message(api_key=9, versions=(1, 10), flexible_since=6)
class OffsetFetchRequest(Request, kw_only=True):
    group_id: Annotated[String, until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, until(7), nullable_since(2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = []
    require_stable: Annotated[Bool, since(7)] = False


class OffsetFetchResponsePartition(Struct, kw_only=True):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(5), ignorable] = -1
    metadata: String | None
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Struct, kw_only=True):
    name: String
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct, kw_only=True):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: String | None
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Struct, kw_only=True):
    name: Annotated[String, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct, kw_only=True):
    group_id: String
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = 0


@message(api_key=9, versions=(1, 10), flexible_since=6)
class OffsetFetchResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], until(7)] = []
    error_code: Annotated[Int16, between(2, 7), ignorable] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = []
