"""ListGroups (key 16): the groups that a broker coordinates.

4 filters by state (KIP-518), 5 by type (KIP-848).
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
)


@message(api_key=16, versions=(0, 5), flexible_since=3)
class ListGroupsRequest(Request, kw_only=True):
    states_filter: Annotated[list[String], since(4)] = []
    types_filter: Annotated[list[String], since(5)] = []


class ListedGroup(Struct, kw_only=True):
    group_id: String
    protocol_type: String
    group_state: Annotated[String, since(4), ignorable] = ""
    group_type: Annotated[String, since(5), ignorable] = ""


@message(api_key=16, versions=(0, 5), flexible_since=3)
class ListGroupsResponse(Response, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup]
