"""CreateAcls (key 30): adds access rules (KIP-140).

1 knows patterns (KIP-290), 3 user resources (KIP-373).
"""

from kafka_wire.schema import Int8, Int16, Int32, Request, Response, String, Struct, message


class AclCreation(Struct, kw_only=True):
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(api_key=30, versions=(1, 3), flexible_since=2)
class CreateAclsRequest(Request, kw_only=True):
    creations: list[AclCreation]


class AclCreationResult(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=30, versions=(1, 3), flexible_since=2)
class CreateAclsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]
