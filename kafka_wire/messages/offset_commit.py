"""OffsetCommit (key 8): stores a group's positions.

Up to 4 the request chose a retention time. 6 adds leader epochs (KIP-320), 7 static members
(KIP-345), 9 serves members of KIP-848 groups, 10 names topics by id.
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
    Uuid,
    ignorable,
    message,
    since,
    until,
)


class OffsetCommitRequestPartition(Struct, kw_only=True):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6), ignorable] = -1
    committed_metadata: String | None


class OffsetCommitRequestTopic(Struct, kw_only=True):
    name: Annotated[String, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition]


@message(api_key=8, versions=(2, 10), flexible_since=8)
class OffsetCommitRequest(Request, kw_only=True):
    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String
    group_instance_id: Annotated[String | None, since(7)] = None
    retention_time_ms: Annotated[Int64, until(4), ignorable] = -1
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct, kw_only=True):
    name: Annotated[String, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition]


@message(api_key=8, versions=(2, 10), flexible_since=8)
class OffsetCommitResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    topics: list[OffsetCommitResponseTopic]
