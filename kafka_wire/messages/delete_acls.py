"""DeleteAcls (key 31): removes the access rules that match filters (KIP-140).

1 knows patterns (KIP-290), 3 user resources (KIP-373).
"""

from kafka_wire.schema import Int8, Int16, Int32, Request, Response, String, Struct, message


class DeleteAclsFilter(Struct, kw_only=True):
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@message(api_key=31, versions=(1, 3), flexible_since=2)
class DeleteAclsRequest(Request, kw_only=True):
    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None
    matching_acls: list[DeleteAclsMatchingAcl]


@message(api_key=31, versions=(1, 3), flexible_since=2)
class DeleteAclsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult]
