"""Heartbeat (key 12): keeps a member of a classic group alive.

3 adds static members (KIP-345).
"""

from typing import Annotated

from kafka_wire.schema import Int16, Int32, Request, Response, String, ignorable, message, since


@message(api_key=12, versions=(0, 4), flexible_since=4)
class HeartbeatRequest(Request, kw_only=True):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[String | None, since(3)] = None


@message(api_key=12, versions=(0, 4), flexible_since=4)
class HeartbeatResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
