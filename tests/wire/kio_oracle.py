"""kio seen from our side: what it knows, and its entities and our messages as the same plain data.

kio is generated from Kafka's own schemas, and shares no code with
us. Its entities are dataclasses, one per message and version, with times as `timedelta` and
`datetime`, ids as `UUID` and arrays as tuples. `fields_of_entity` undoes that, so that a field can
be compared with ours by its name: bytes alone would not tell two swapped numbers apart.
"""

import dataclasses
import io
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple, TypeAlias, cast
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import classify_field, is_optional
from kio.static.constants import EntityType

from kafka_wire.schema import ArrayOf, Struct, StructOf, WireType, fields_of
from tests.wire.strategies import (
    BLOB,
    DATETIMES_MS,
    DURATIONS_MS,
    ERROR_CODES,
    NUMBERS,
    TEXT,
    UUIDS,
)

EntityClass: TypeAlias = type[Any]

TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")
"""Types for which kio drops the unit, `_ms`, from the field's name."""

OTHER_NAMES = {"enable2_pc": "enable2pc"}
"""Names that kio spells otherwise than we do."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class KioKey(NamedTuple):
    """How kio names an entity."""

    name: str
    version: int
    kind: EntityType

    def __str__(self) -> str:
        return f"{self.name}-{self.kind.name}-v{self.version}"


EVERY_KIO_ENTITY = {
    KioKey(name, version, kind)
    for name, versions in schema_name_map.items()
    for version, kinds in versions.items()
    for kind in kinds
}


@cache
def entity_class(key: KioKey) -> EntityClass:
    return load_entity_schema(key.name, key.version, cast(Any, key.kind))


def decode_by_kio(entity: EntityClass, data: bytes) -> tuple[Any, int]:
    """The entity, and the number of bytes that it takes."""
    return entity_reader(entity)(data, 0)


def encode_by_kio(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


# --- the same plain data -----------------------------------------------------------------------


def fields_of_message(message: Struct, version: int) -> dict[str, Any]:
    """Our message as nested dicts and lists, with the fields that the version has."""
    return {
        field.name: _plain(field.wire, getattr(message, field.name), version)
        for field in fields_of(type(message))
        if version in field.versions
    }


def _plain(wire: WireType, value: Any, version: int) -> Any:
    match wire:
        case _ if value is None:
            return None
        case ArrayOf(element=element):
            return [_plain(element, item, version) for item in value]
        case StructOf():
            return fields_of_message(value, version)
        case _:
            return bytes(value) if isinstance(value, memoryview) else value


def fields_of_entity(entity: Any) -> dict[str, Any]:
    """kio's entity as nested dicts and lists, in our terms."""
    return {
        our_name(field): _plain_of_kio(field, getattr(entity, field.name))
        for field in dataclasses.fields(entity)
    }


def our_name(field: "dataclasses.Field[Any]") -> str:
    if field.metadata.get("kafka_type") in TIMES and not field.name.endswith("timestamp"):
        return field.name + "_ms"
    return OTHER_NAMES.get(field.name, field.name)


def _plain_of_kio(field: "dataclasses.Field[Any]", value: Any) -> Any:
    match value:
        case tuple():
            return [_plain_of_kio(field, item) for item in value]
        case timedelta():
            return value // MILLISECOND
        case datetime():
            # kio computes it in floats, and is off by a microsecond at times.
            return round((value - EPOCH) / MILLISECOND)
        case KioErrorCode():
            return value.value
        case UUID():
            return value.bytes
        case None if field.metadata.get("kafka_type") == "uuid":
            return bytes(16)
        case None if field.metadata.get("kafka_type") in TIMES:
            return -1
        case _ if dataclasses.is_dataclass(value):
            return fields_of_entity(value)
        case _:
            return value


# --- random entities of kio, independent of our schemas ----------------------------------------


def entities(entity: EntityClass) -> st.SearchStrategy[Any]:
    """Instances of kio's dataclass, drawn from what kio itself says of its fields."""
    if entity not in _ENTITIES:
        _ENTITIES[entity] = st.builds(
            entity, **{field.name: _kio_values(field) for field in dataclasses.fields(entity)}
        )
    return _ENTITIES[entity]


_ENTITIES: dict[EntityClass, st.SearchStrategy[Any]] = {}


def _kio_values(field: "dataclasses.Field[Any]") -> st.SearchStrategy[Any]:
    classified = classify_field(field)
    if dataclasses.is_dataclass(classified.type_):
        values = entities(classified.type_)
    else:
        values = KIO_VALUES[field.metadata["kafka_type"]]
    if classified.is_array:
        values = st.lists(values, max_size=2).map(tuple)
    if "tag" in field.metadata and field.default is not dataclasses.MISSING:
        values = st.just(field.default) | values
    nullable = is_optional(field) and field.metadata.get("kafka_type") != "uuid"
    return st.none() | values if nullable else values


KIO_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": NUMBERS["?"],
    "int8": NUMBERS["b"],
    "int16": NUMBERS["h"],
    "uint16": NUMBERS["H"],
    "int32": NUMBERS["i"],
    "int64": NUMBERS["q"],
    "float64": NUMBERS["d"],
    "string": TEXT,
    "bytes": BLOB,
    "records": BLOB,
    "uuid": UUIDS.map(lambda data: UUID(bytes=data) if any(data) else None),
    "error_code": ERROR_CODES.map(KioErrorCode),
    "timedelta_i32": NUMBERS["i"].map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": DURATIONS_MS.map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": DATETIMES_MS.map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
}
