"""LeaveGroup (key 13): takes members out of a classic group.

3 removes many members at once (KIP-345), 5 adds a reason (KIP-800).
"""

from typing import Annotated

from kafka_wire.schema import (
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    ignorable,
    message,
    since,
    until,
)


class MemberIdentity(Struct, kw_only=True):
    member_id: String
    group_instance_id: String | None = None
    reason: Annotated[String | None, since(5), ignorable] = None


@message(api_key=13, versions=(0, 5), flexible_since=4)
class LeaveGroupRequest(Request, kw_only=True):
    group_id: String
    member_id: Annotated[String, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = []


class MemberResponse(Struct, kw_only=True):
    member_id: String
    group_instance_id: String | None
    error_code: Int16 = 0


@message(api_key=13, versions=(0, 5), flexible_since=4)
class LeaveGroupResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], since(3)] = []
