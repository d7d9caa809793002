"""DescribeAcls (key 29): the access rules that match a filter (KIP-140).

1 knows patterns (KIP-290), 3 user resources (KIP-373).
"""

from kafka_wire.schema import Int8, Int16, Int32, Request, Response, String, Struct, message


@message(api_key=29, versions=(1, 3), flexible_since=2)
class DescribeAclsRequest(Request, kw_only=True):
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


class AclDescription(Struct, kw_only=True):
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct, kw_only=True):
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = 3
    acls: list[AclDescription]


@message(api_key=29, versions=(1, 3), flexible_since=2)
class DescribeAclsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    resources: list[DescribeAclsResource]
