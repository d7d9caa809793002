"""DescribeLogDirs (key 35): sizes and lags in a broker's data directories (KIP-113).

3 adds a top-level error, 4 the size of the volume (KIP-827), 5 whether a directory is cordoned
(KIP-1066).
"""

from typing import Annotated

from kafka_wire.schema import (
    Bool,
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


class DescribableLogDirTopic(Struct, kw_only=True):
    topic: String
    partitions: list[Int32]


@message(api_key=35, versions=(1, 5), flexible_since=2)
class DescribeLogDirsRequest(Request, kw_only=True):
    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct, kw_only=True):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct, kw_only=True):
    name: String
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct, kw_only=True):
    error_code: Int16 = 0
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Annotated[Int64, since(4), ignorable] = -1
    usable_bytes: Annotated[Int64, since(4), ignorable] = -1
    is_cordoned: Annotated[Bool, since(5), ignorable] = False


@message(api_key=35, versions=(1, 5), flexible_since=2)
class DescribeLogDirsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3), ignorable] = 0
    results: list[DescribeLogDirsResult]
