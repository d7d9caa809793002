"""DescribeConfigs (key 32): configuration with its sources (KIP-133, KIP-226).

3 adds types and documentation (KIP-569).
"""

from typing import Annotated

from kafka_wire.schema import (
    Bool,
    Int8,
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


class DescribeConfigsResource(Struct, kw_only=True):
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


@message(api_key=32, versions=(1, 4), flexible_since=4)
class DescribeConfigsRequest(Request, kw_only=True):
    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, since(3)] = False


class DescribeConfigsSynonym(Struct, kw_only=True):
    name: String
    value: String | None
    source: Int8


class DescribeConfigsResourceResult(Struct, kw_only=True):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Annotated[Int8, since(3), ignorable] = 0
    documentation: Annotated[String | None, since(3), ignorable] = None


class DescribeConfigsResult(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


@message(api_key=32, versions=(1, 4), flexible_since=4)
class DescribeConfigsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]
