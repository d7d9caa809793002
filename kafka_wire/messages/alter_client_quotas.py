"""AlterClientQuotas (key 49): sets and removes quotas (KIP-546)."""

from kafka_wire.schema import (
    Bool,
    Float64,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    message,
)


class EntityData(Struct, kw_only=True):
    entity_type: String
    entity_name: String | None


class OpData(Struct, kw_only=True):
    key: String
    value: Float64
    remove: Bool


class EntryData(Struct, kw_only=True):
    entity: list[EntityData]
    ops: list[OpData]


@message(api_key=49, versions=(0, 1), flexible_since=1)
class AlterClientQuotasRequest(Request, kw_only=True):
    entries: list[EntryData]
    validate_only: Bool


class EntryDataResult(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None
    entity: list[EntityData]


@message(api_key=49, versions=(0, 1), flexible_since=1)
class AlterClientQuotasResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    entries: list[EntryDataResult]
