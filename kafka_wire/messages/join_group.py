"""JoinGroup (key 11): enters a classic group and waits for the rebalance.

1 separates the rebalance timeout, 4 makes a new member come back with the id it was given
(KIP-394), 5 adds static members (KIP-345), 8 a reason (KIP-800), 9 lets the leader skip the
assignment (KIP-814).
"""

from typing import Annotated

from kafka_wire.schema import (
    Bool,
    Bytes,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    ignorable,
    message,
    nullable_since,
    since,
)


class JoinGroupRequestProtocol(Struct, kw_only=True):
    name: String
    metadata: Bytes


@message(api_key=11, versions=(0, 9), flexible_since=6)
class JoinGroupRequest(Request, kw_only=True):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, since(1), ignorable] = -1
    member_id: String
    group_instance_id: Annotated[String | None, since(5)] = None
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: Annotated[String | None, since(8), ignorable] = None


class JoinGroupResponseMember(Struct, kw_only=True):
    member_id: String
    group_instance_id: Annotated[String | None, since(5), ignorable] = None
    metadata: Bytes


@message(api_key=11, versions=(0, 9), flexible_since=6)
class JoinGroupResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, since(7), ignorable] = None
    protocol_name: Annotated[String | None, nullable_since(7)]
    leader: String
    skip_assignment: Annotated[Bool, since(9)] = False
    member_id: String
    members: list[JoinGroupResponseMember]
