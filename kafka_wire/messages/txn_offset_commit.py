"""TxnOffsetCommit (key 28): stores a group's positions as part of a transaction (KIP-98).

2 adds leader epochs (KIP-320), 3 the member that commits (KIP-447), 5 adds the offsets to the
transaction by itself (KIP-890).
"""

from typing import Annotated

from kafka_wire.schema import (
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Struct,
    ignorable,
    message,
    since,
)


class TxnOffsetCommitRequestPartition(Struct, kw_only=True):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2), ignorable] = -1
    committed_metadata: String | None


class TxnOffsetCommitRequestTopic(Struct, kw_only=True):
    name: String
    partitions: list[TxnOffsetCommitRequestPartition]


@message(api_key=28, versions=(0, 5), flexible_since=3)
class TxnOffsetCommitRequest(Request, kw_only=True):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[String, since(3)] = ""
    group_instance_id: Annotated[String | None, since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct, kw_only=True):
    name: String
    partitions: list[TxnOffsetCommitResponsePartition]


@message(api_key=28, versions=(0, 5), flexible_since=3)
class TxnOffsetCommitResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
