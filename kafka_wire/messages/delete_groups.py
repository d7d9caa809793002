"""DeleteGroups (key 42): deletes empty groups (KIP-229)."""

from kafka_wire.schema import Int16, Int32, Request, Response, String, Struct, message


@message(api_key=42, versions=(0, 2), flexible_since=2)
class DeleteGroupsRequest(Request, kw_only=True):
    groups_names: list[String]


class DeletableGroupResult(Struct, kw_only=True):
    group_id: String
    error_code: Int16 = 0


@message(api_key=42, versions=(0, 2), flexible_since=2)
class DeleteGroupsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
