"""Variable-length integers and tagged fields, the slow paths of the compiled codecs.

Compiled code reads and writes one-byte varints and empty tag sections inline; everything longer
comes here. Lengths are checked against what is left of the frame before memory is taken.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

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
        if byte < 0x80 and value < 1 << 32:
            return value, position
        shift += 7
    raise DecodeError(f"the varint at byte {position - MAX_UVARINT_BYTES} has more than 32 bits")


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


def read_tagged_fields(
    buffer: Buffer, position: int, end: int, known: Collection[int]
) -> tuple[list[tuple[int, int, int]], tuple[RawTaggedField, ...], int]:
    """The tagged fields at `position`, and the position after them.

    Those whose tags are `known` come as (tag, start, end), the others as copies, in ascending
    order. A tag that is there twice is refused: whichever was meant, one would be lost.
    """
    count, position = read_uvarint(buffer, position)
    if count * 2 > end - position:
        raise DecodeError(f"there are {count} tagged fields, {end - position} bytes are left")
    spans: list[tuple[int, int, int]] = []
    unknown: list[RawTaggedField] = []
    for _ in range(count):
        number, position = read_uvarint(buffer, position)
        size, start = read_uvarint(buffer, position)
        position = start + size
        if position > end:
            raise DecodeError(f"tagged field {number} has {size} bytes, {end - start} are left")
        if number in known:
            spans.append((number, start, position))
        else:
            unknown.append(RawTaggedField(number, bytes(buffer[start:position])))
    spans.sort()
    unknown.sort()
    _refuse_twice(span[0] for span in spans)
    _refuse_twice(field.tag for field in unknown)
    return spans, tuple(unknown), position


def _refuse_twice(tags: Iterable[int]) -> None:
    for number, following in pairwise(tags):
        if number == following:
            raise DecodeError(f"tagged field {number} is there twice")


def read_unknown_tags(
    buffer: Buffer, position: int, end: int
) -> tuple[tuple[RawTaggedField, ...], int]:
    """The tagged fields at `position`, none of which the schema knows, and the position after."""
    _, unknown, position = read_tagged_fields(buffer, position, end, ())
    return unknown, position


def write_tags(
    out: bytearray, known: Sequence[tuple[int, Buffer]], unknown: Sequence[tuple[int, Buffer]]
) -> None:
    """Appends tagged fields in ascending order of their tags, as KIP-482 demands."""
    tagged = sorted([*known, *unknown], key=lambda item: item[0])
    if any(a[0] == b[0] for a, b in pairwise(tagged)):
        raise EncodeError("an unknown tagged field has the tag of a known one")
    out += uvarint(len(tagged))
    for number, data in tagged:
        out += uvarint(number)
        out += uvarint(len(data))
        out += data
