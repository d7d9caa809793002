"""ListOffsets (key 2): the offset at a timestamp, or at the ends of a log.

2 knows isolation levels, 4 leader epochs (KIP-320). Special timestamps: -1 latest, -2 earliest,
from 7 on -3 the largest timestamp (KIP-734), from 8 on -4 the earliest local offset (KIP-405),
from 9 on -5 the last tiered one (KIP-1005), from 11 on -6 the first not yet uploaded
(KIP-1023).
"""

from typing import Annotated

from kafka_wire.schema import (
    Int8,
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


class ListOffsetsPartition(Struct, kw_only=True):
    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4), ignorable] = -1
    timestamp: Int64


class ListOffsetsTopic(Struct, kw_only=True):
    name: String
    partitions: list[ListOffsetsPartition]


@message(api_key=2, versions=(1, 11), flexible_since=6)
class ListOffsetsRequest(Request, kw_only=True):
    replica_id: Int32
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: list[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, since(10), ignorable] = 0


class ListOffsetsPartitionResponse(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


class ListOffsetsTopicResponse(Struct, kw_only=True):
    name: String
    partitions: list[ListOffsetsPartitionResponse]


@message(api_key=2, versions=(1, 11), flexible_since=6)
class ListOffsetsResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: list[ListOffsetsTopicResponse]
