"""All messages in all versions, and an example of each. The fuzzers use it: no test libraries."""

from typing import Any

from kafka_wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CooperativeStickyUserData,
    StickyUserData,
)
from kafka_wire.messages import REQUESTS, RESPONSES
from kafka_wire.schema import (
    ArrayOf,
    Field,
    Fixed,
    Message,
    Struct,
    StructOf,
    Variable,
    WireType,
    fields_of,
)

ALL_MESSAGES: list[type[Message]] = [
    *REQUESTS.values(),
    *RESPONSES.values(),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
    StickyUserData,
    CooperativeStickyUserData,
]

EVERY_VERSION: list[tuple[type[Message], int]] = [
    (message, version)
    for message in ALL_MESSAGES
    for version in range(message.versions.first, message.versions.last + 1)
]


def name_of(case: object) -> str | None:
    """The pytest id of a message class or of a version."""
    if isinstance(case, int):
        return f"v{case}"
    return case.__name__ if isinstance(case, type) else None


def sample(struct: type[Struct], version: int, *, items: int = 2) -> Any:
    """One instance in which nothing is empty, null or at its default: every byte has a meaning.

    Its arrays have so many `items`.
    """
    return struct(
        **{
            field.name: _sample_value(field.wire, field, version, items)
            for field in fields_of(struct)
            if version in field.versions
        }
    )


def _sample_value(wire: WireType, field: Field, version: int, items: int) -> Any:
    match wire:
        case Fixed(format="?"):
            return not field.default
        case Fixed(format="d"):
            return 1.5
        case Fixed():
            return 7
        case Variable(kind="uuid"):
            return bytes(range(16))
        case Variable(kind="string"):
            return "text"
        case Variable():
            return b"blob"
        case ArrayOf(element=element):
            return [_sample_value(element, field, version, items) for _ in range(items)]
        case StructOf(struct=struct):
            return sample(struct, version, items=items)
