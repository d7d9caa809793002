"""DescribeClientQuotas (key 48): the quotas that match a filter (KIP-546)."""

from kafka_wire.schema import (
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    message,
)


class ComponentData(Struct, kw_only=True):
    entity_type: String
    match_type: Int8
    match: String | None


@message(api_key=48, versions=(0, 1), flexible_since=1)
class DescribeClientQuotasRequest(Request, kw_only=True):
    components: list[ComponentData]
    strict: Bool


class EntityData(Struct, kw_only=True):
    entity_type: String
    entity_name: String | None


class ValueData(Struct, kw_only=True):
    key: String
    value: Float64


class EntryData(Struct, kw_only=True):
    entity: list[EntityData]
    values: list[ValueData]


@message(api_key=48, versions=(0, 1), flexible_since=1)
class DescribeClientQuotasResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    entries: list[EntryData] | None
