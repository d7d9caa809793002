"""AlterConfigs (key 33): replaces a resource's configuration whole (KIP-133).

What the request does not name goes back to its default: IncrementalAlterConfigs does not.
"""

from kafka_wire.schema import Bool, Int8, Int16, Int32, Request, Response, String, Struct, message


class AlterableConfig(Struct, kw_only=True):
    name: String
    value: String | None


class AlterConfigsResource(Struct, kw_only=True):
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@message(api_key=33, versions=(0, 2), flexible_since=2)
class AlterConfigsRequest(Request, kw_only=True):
    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


@message(api_key=33, versions=(0, 2), flexible_since=2)
class AlterConfigsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
