"""DescribeCluster (key 60): cluster id, controller and brokers (KIP-700).

1 can ask for the controllers' endpoints (KIP-919), 2 for fenced brokers (KIP-1073).
"""

from typing import Annotated

from kafka_wire.schema import (
    OPERATIONS_OMITTED,
    Bool,
    Int8,
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


@message(api_key=60, versions=(0, 2), flexible_since=0)
class DescribeClusterRequest(Request, kw_only=True):
    include_cluster_authorized_operations: Bool
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[Bool, since(2)] = False


class DescribeClusterBroker(Struct, kw_only=True):
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Annotated[Bool, since(2), ignorable] = False


@message(api_key=60, versions=(0, 2), flexible_since=0)
class DescribeClusterResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: String
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = OPERATIONS_OMITTED
