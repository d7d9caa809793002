"""SyncGroup (key 14): hands out the assignment of a classic group's generation.

3 adds static members (KIP-345), 5 repeats the protocol (KIP-559).
"""

from typing import Annotated

from kafka_wire.schema import (
    Bytes,
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


class SyncGroupRequestAssignment(Struct, kw_only=True):
    member_id: String
    assignment: Bytes


@message(api_key=14, versions=(0, 5), flexible_since=4)
class SyncGroupRequest(Request, kw_only=True):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[String | None, since(3)] = None
    protocol_type: Annotated[String | None, since(5), ignorable] = None
    protocol_name: Annotated[String | None, since(5), ignorable] = None
    assignments: list[SyncGroupRequestAssignment]


@message(api_key=14, versions=(0, 5), flexible_since=4)
class SyncGroupResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, since(5), ignorable] = None
    protocol_name: Annotated[String | None, since(5), ignorable] = None
    assignment: Bytes
