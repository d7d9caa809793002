"""AlterPartitionReassignments (key 45): moves replicas, or cancels moves (KIP-455).

1 can refuse a change of the replication factor (KIP-860).
"""

from typing import Annotated

from kafka_wire.schema import (
    Bool,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    ignorable,
    message,
    since,
)


class ReassignablePartition(Struct, kw_only=True):
    partition_index: Int32
    replicas: list[Int32] | None = None


class ReassignableTopic(Struct, kw_only=True):
    name: String
    partitions: list[ReassignablePartition]


@message(api_key=45, versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsRequest(Request, kw_only=True):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


class ReassignableTopicResponse(Struct, kw_only=True):
    name: String
    partitions: list[ReassignablePartitionResponse]


@message(api_key=45, versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, since(1), ignorable] = True
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[ReassignableTopicResponse]
