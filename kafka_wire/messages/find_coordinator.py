"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

1 adds the type of the key (0 group, 1 transaction, 2 share), 4 asks for many keys at once
(KIP-699).
"""

from typing import Annotated

from kafka_wire.schema import (
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    between,
    ignorable,
    message,
    since,
    until,
)


@message(api_key=10, versions=(0, 6), flexible_since=3)
class FindCoordinatorRequest(Request, kw_only=True):
    key: Annotated[String, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[list[String], since(4)] = []


class Coordinator(Struct, kw_only=True):
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=10, versions=(0, 6), flexible_since=3)
class FindCoordinatorResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[String | None, between(1, 3), ignorable] = None
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[String, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = []
