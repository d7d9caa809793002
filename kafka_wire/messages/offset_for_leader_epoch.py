"""OffsetForLeaderEpoch (key 23): where a leader epoch ends (KIP-101, KIP-279, KIP-320).

3 tells consumers from replicas.
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


class OffsetForLeaderPartition(Struct, kw_only=True):
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct, kw_only=True):
    topic: String
    partitions: list[OffsetForLeaderPartition]


@message(api_key=23, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochRequest(Request, kw_only=True):
    replica_id: Annotated[Int32, since(3), ignorable] = -2
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct, kw_only=True):
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct, kw_only=True):
    topic: String
    partitions: list[EpochEndOffset]


@message(api_key=23, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult]
