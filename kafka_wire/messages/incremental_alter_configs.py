"""IncrementalAlterConfigs (key 44): sets, deletes, appends, subtracts single values (KIP-339)."""

from kafka_wire.schema import Bool, Int8, Int16, Int32, Request, Response, String, Struct, message


class AlterableConfig(Struct, kw_only=True):
    name: String
    config_operation: Int8
    value: String | None


class AlterConfigsResource(Struct, kw_only=True):
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@message(api_key=44, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsRequest(Request, kw_only=True):
    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


@message(api_key=44, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
