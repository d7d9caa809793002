"""Random messages for hypothesis, drawn from the schemas themselves."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from hypothesis import strategies as st

from kafka_wire.error_codes import ErrorCode
from kafka_wire.schema import (
    ArrayOf,
    Field,
    Fixed,
    RawTaggedField,
    Struct,
    StructOf,
    Variable,
    WireType,
    fields_of,
)


class Domain(Enum):
    """Which values a field may take."""

    WIRE = "all that the wire can carry"
    KIO = "all that kio can hold"


NUMBERS = {
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "H": st.integers(0, 2**16 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "I": st.integers(0, 2**32 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    # NaN differs from itself, so that no comparison of messages would hold.
    "d": st.floats(allow_nan=False),
    "?": st.booleans(),
}
ERROR_CODES = st.sampled_from([int(code) for code in ErrorCode])
# Lengths of 126 and 127 are where a compact length grows to two bytes.
TEXT = st.text(max_size=12) | st.sampled_from(["x" * 126, "x" * 127, "x" * 200])
BLOB = st.binary(max_size=12) | st.sampled_from([b"x" * 126, b"x" * 127, b"x" * 20_000])
UUIDS = st.binary(min_size=16, max_size=16) | st.just(bytes(16))

LAST_DATETIME_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1000
DATETIMES_MS = st.integers(0, LAST_DATETIME_MS)
DURATIONS_MS = st.integers(-(2**50), 2**50)

NARROWER_IN_KIO: Mapping[str, st.SearchStrategy[int]] = {
    # A datetime: not before 1970 nor after 9999, with -1 for None.
    "log_append_time_ms": DATETIMES_MS | st.just(-1),
    # A datetime without None: -1, which Kafka sends for "no transaction", is an error in kio.
    "transaction_start_time_ms": DATETIMES_MS,
    # A timedelta that kio writes by way of a float: it overflows, and rounds before it does.
    "retention_time_ms": DURATIONS_MS,
    "session_lifetime_ms": DURATIONS_MS,
}


def structs(
    struct: type[Struct], version: int, domain: Domain = Domain.WIRE
) -> st.SearchStrategy[Any]:
    """Instances of a struct with every field that the version has."""
    key = (struct, version, domain)
    if key not in _STRUCTS:
        _STRUCTS[key] = st.builds(
            struct,
            **{
                field.name: _values(field.wire, field, version, domain)
                for field in fields_of(struct)
                if version in field.versions
            },
        )
    return _STRUCTS[key]


_STRUCTS: dict[tuple[type[Struct], int, Domain], st.SearchStrategy[Any]] = {}


def unknown_tags(first: int) -> st.SearchStrategy[tuple[RawTaggedField, ...]]:
    """Tagged fields that no schema knows, in ascending order."""
    return st.dictionaries(
        st.integers(first, 2**31 - 1), st.binary(max_size=8), min_size=1, max_size=3
    ).map(lambda fields: tuple(RawTaggedField(tag, fields[tag]) for tag in sorted(fields)))


def _values(wire: WireType, field: Field, version: int, domain: Domain) -> st.SearchStrategy[Any]:
    values = _plain_values(wire, field, version, domain)
    if field.tag is not None:
        # Whether a tagged field is written at all depends on its default.
        values = st.just(field.default) | values
    return st.none() | values if field.is_nullable(version) else values


def _plain_values(
    wire: WireType, field: Field, version: int, domain: Domain
) -> st.SearchStrategy[Any]:
    if domain is Domain.KIO and field.name in NARROWER_IN_KIO:
        return NARROWER_IN_KIO[field.name]
    match wire:
        case Fixed(format="h") if domain is Domain.KIO and field.name.endswith("error_code"):
            return ERROR_CODES
        case Fixed(format=code):
            return NUMBERS[code]
        case Variable(kind="uuid"):
            return UUIDS
        case Variable(kind="string"):
            return TEXT
        case Variable():
            return BLOB
        case ArrayOf(element=element):
            return st.lists(_plain_values(element, field, version, domain), max_size=2)
        case StructOf(struct=struct):
            return structs(struct, version, domain)
