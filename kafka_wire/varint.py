"""Variable-length integers and tagged fields, the slow paths of the compiled codecs.

Compiled code reads and writes one-byte varints and empty tag sections inline; everything longer
comes here. Lengths are checked against what is left of the frame before memory is taken.
"""

from collections.abc import Sequence

from kafka_wire.errors import DecodeError, EncodeError
from kafka_wire.schema import RawTaggedField
from kafka_wire.types import Buffer

MAX_UVARINT_BYTES = 5
"""An unsigned varint holds 32 bits: five groups of seven."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The unsigned varint at `position`, and the position after it."""
    value = shift = 0
    for _ in range(MAX_UVARINT_BYTES):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DecodeError(f"the varint at byte {position - MAX_UVARINT_BYTES} has more than 5 bytes")


def uvarint(value: int) -> bytes:
    """`value` as an unsigned varint."""
    if not 0 <= value < 1 << 32:
        raise EncodeError(f"{value} does not fit an unsigned varint of 32 bits")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tag_spans(
    buffer: Buffer, position: int, end: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Where the tagged fields at `position` lie, as (tag, start, end), and the position after."""
    count, position = read_uvarint(buffer, position)
    spans = []
    seen = set()
    for _ in range(count):
        number, position = read_uvarint(buffer, position)
        size, start = read_uvarint(buffer, position)
        position = start + size
        if position > end:
            raise DecodeError(f"tagged field {number} has {size} bytes, {end - start} are left")
        if number in seen:
            raise DecodeError(f"tagged field {number} is there twice")
        seen.add(number)
        spans.append((number, start, position))
    return spans, position


def read_unknown_tags(
    buffer: Buffer, position: int, end: int
) -> tuple[tuple[RawTaggedField, ...], int]:
    """The tagged fields at `position`, none of which the schema knows, and the position after."""
    spans, position = read_tag_spans(buffer, position, end)
    return tuple(RawTaggedField(t, bytes(buffer[start:stop])) for t, start, stop in spans), position


def write_tags(
    out: bytearray, known: Sequence[tuple[int, Buffer]], unknown: Sequence[tuple[int, Buffer]]
) -> None:
    """Appends tagged fields in ascending order of their tags, as KIP-482 demands."""
    tagged = sorted([*known, *unknown], key=lambda item: item[0])
    if any(a[0] == b[0] for a, b in zip(tagged, tagged[1:], strict=False)):
        raise EncodeError("an unknown tagged field has the tag of a known one")
    out += uvarint(len(tagged))
    for number, data in tagged:
        out += uvarint(number)
        out += uvarint(len(data))
        out += data
