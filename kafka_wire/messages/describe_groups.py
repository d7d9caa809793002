"""DescribeGroups (key 15): state and members of classic groups.

3 adds authorized operations (KIP-430), 4 static members (KIP-345), 6 an error message
(KIP-1043).
"""

from typing import Annotated

from kafka_wire.schema import (
    OPERATIONS_OMITTED,
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
    since,
)


@message(api_key=15, versions=(0, 6), flexible_since=5)
class DescribeGroupsRequest(Request, kw_only=True):
    groups: list[String]
    include_authorized_operations: Annotated[Bool, since(3)] = False


class DescribedGroupMember(Struct, kw_only=True):
    member_id: String
    group_instance_id: Annotated[String | None, since(4), ignorable] = None
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(6), ignorable] = None
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Annotated[Int32, since(3)] = OPERATIONS_OMITTED


@message(api_key=15, versions=(0, 6), flexible_since=5)
class DescribeGroupsResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    groups: list[DescribedGroup]
