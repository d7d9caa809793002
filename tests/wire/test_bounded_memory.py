"""Memory and depth are bounded by the frame, whatever a peer claims in it."""

import struct
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_wire.compression import Compression, compress
from kafka_wire.errors import (
    CorruptBatchError,
    DecodeError,
    DecompressionLimitError,
    UnsupportedMagicError,
)
from kafka_wire.messages import HeartbeatResponse, ProduceRequest, ProduceResponse
from kafka_wire.messages.produce import PartitionProduceData, TopicProduceData
from kafka_wire.records import Record, build_batch, iter_records, validate_batch
from kafka_wire.schema import ArrayOf, Field, Fixed, Message, Struct, StructOf, Variable, fields_of
from kafka_wire.types import Offset
from kafka_wire.varint import uvarint
from tests.wire.samples import ALL_MESSAGES, name_of, sample

MAX_MEMORY_PER_FRAME_BYTE = 64
"""The most that a message may take in Python, as a multiple of its bytes on the wire.

The worst are arrays of structs of three bytes (an empty list and a string, and no tags), each of
which becomes an object, a list and a slot in a list: 53 times.
"""
FIXED_MEMORY_BYTES = 16 * 1024
"""What any decode may take besides: the objects of the message itself, and an exception."""

every_message = pytest.mark.parametrize("message", ALL_MESSAGES, ids=name_of)


def peak_bytes(attempt: Callable[[], object]) -> int:
    """How much memory Python takes at most during the attempt, whose result is kept until then."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = attempt()
        _, peak = tracemalloc.get_traced_memory()
        del result
        return peak - before
    finally:
        tracemalloc.stop()


@every_message
def test_lying_lengths_take_no_memory(message: type[Message]) -> None:
    version = message.versions.last
    data = sample(message, version, items=1).encode(version)
    lies = [
        data[:position] + lie + data[position + len(lie) :]
        for position in range(len(data))
        for lie in (b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff")
    ]
    message.decoder(version)

    def decode_all() -> None:
        for lie in lies:
            try:
                message.decode(lie, version)
            except DecodeError:
                continue

    assert peak_bytes(decode_all) < FIXED_MEMORY_BYTES + MAX_MEMORY_PER_FRAME_BYTE * len(data)


@every_message
def test_memory_is_bounded_by_the_frame_for_arrays_of_the_smallest_elements(
    message: type[Message],
) -> None:
    for version in {message.versions.first, message.versions.last}:
        message.decoder(version)
        for path in arrays_in(message, version):
            frame = message_with_array(message, version, path, frame_bytes=4096)
            peak = peak_bytes(lambda: message.decode(frame, version))  # noqa: B023
            limit = FIXED_MEMORY_BYTES + MAX_MEMORY_PER_FRAME_BYTE * len(frame)
            names = ".".join(field.name for field in path)
            assert peak < limit, f"v{version} {names}: {peak / len(frame):.1f} times the frame"


def arrays_in(struct: type[Struct], version: int) -> Iterator[list[Field]]:
    """The path to every array in a struct."""
    for field in fields_of(struct):
        if version in field.versions:
            inner = field.wire
            if isinstance(inner, ArrayOf):
                yield [field]
                inner = inner.element
            if isinstance(inner, StructOf):
                for path in arrays_in(inner.struct, version):
                    yield [field, *path]


def message_with_array(
    message: type[Message], version: int, path: list[Field], frame_bytes: int
) -> bytes:
    """A message in which the array at `path` is as long as the frame allows, and all else empty."""
    wire = path[-1].wire
    assert isinstance(wire, ArrayOf)
    element = _smallest(wire.element, version)
    sizes = [
        len(_with_array(message, version, path, [element] * n).encode(version)) for n in (1, 2)
    ]
    count = frame_bytes // (sizes[1] - sizes[0])
    data: bytes = _with_array(message, version, path, [element] * count).encode(version)
    return data


def _with_array(struct: type[Struct], version: int, path: list[Field], items: list[Any]) -> Any:
    field, *rest = path
    value: Any = items
    if rest:
        wire = field.wire
        inner = wire.element if isinstance(wire, ArrayOf) else wire
        assert isinstance(inner, StructOf)
        value = _with_array(inner.struct, version, rest, items)
        if isinstance(wire, ArrayOf):
            value = [value]
    return _smallest_struct(struct, version, **{field.name: value})


def _smallest_struct(struct: type[Struct], version: int, **values: Any) -> Any:
    for field in fields_of(struct):
        if version in field.versions and field.tag is None and field.name not in values:
            values[field.name] = _smallest(field.wire, version)
    return struct(**values)


def _smallest(wire: Any, version: int) -> Any:
    """Of few bytes on the wire; an empty array rather than null, for that is an object here."""
    match wire:
        case Fixed():
            return 0
        case Variable(kind="uuid"):
            return bytes(16)
        case Variable(kind="string"):
            return ""
        case Variable():
            return b""
        case ArrayOf():
            return []
        case StructOf(struct=struct_class):
            return _smallest_struct(struct_class, version)


@pytest.mark.parametrize("message", [HeartbeatResponse, ProduceResponse], ids=name_of)
def test_memory_and_time_are_bounded_by_the_frame_for_many_tagged_fields(
    message: type[Message],
) -> None:
    """Time grows with the count, not with its square."""
    version = message.versions.last
    count = 50_000
    plain = _smallest_struct(message, version).encode(version)
    tags = uvarint(count) + b"".join(uvarint(100 + number) + b"\0" for number in range(count))
    frame = plain[:-1] + tags
    decoded = message.decode(frame, version)
    assert len(decoded.unknown_tagged_fields) == count
    assert decoded.encode(version) == frame
    peak = peak_bytes(lambda: message.decode(frame, version))
    assert peak < MAX_MEMORY_PER_FRAME_BYTE * len(frame)


# --- depth -------------------------------------------------------------------------------------


def depth(struct: type[Struct]) -> int:
    nested = []
    for field in fields_of(struct):
        inner = field.wire.element if isinstance(field.wire, ArrayOf) else field.wire
        if isinstance(inner, StructOf):
            nested.append(depth(inner.struct))
    return 1 + max(nested, default=0)


def test_the_depth_of_messages_is_that_of_their_schemas() -> None:
    """No struct contains itself, so no input makes a decoder go deeper than the schema.

    Were there a cycle, `depth` would not end. Decoders are straight-line code with loops: the
    deepest message needs a handful of stack frames, whatever the input.
    """
    deepest = max(ALL_MESSAGES, key=depth)
    assert depth(deepest) <= 5
    version = deepest.versions.last
    data = sample(deepest, version).encode(version)
    deepest.decoder(version)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_stack_depth() + 20)
    try:
        deepest.decode(data, version)
    finally:
        sys.setrecursionlimit(limit)


def _stack_depth() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


def test_records_inside_records_are_not_unpacked() -> None:
    """Format 2 does not nest; formats 0 and 1 did, and are refused (KIP-724)."""
    inner = build_batch([Record(Offset(0), 0, None, b"x" * 100)], compression=Compression.GZIP)
    outer = bytearray(inner[:61]) + compress(Compression.GZIP, inner)
    struct.pack_into(">i", outer, 8, len(outer) - 12)
    with pytest.raises(CorruptBatchError):
        list(iter_records(outer))
    for magic in (0, 1):
        old = bytearray(inner)
        old[16] = magic
        with pytest.raises(UnsupportedMagicError):
            validate_batch(old)


def test_a_bomb_inside_a_request_is_refused_when_it_is_unpacked() -> None:
    batch = build_batch(
        [Record(Offset(0), 0, None, bytes(10_000_000))], compression=Compression.ZSTD
    )
    assert len(batch) < 2000
    partition = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="t", partition_data=[partition])
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
    decoded = ProduceRequest.decode(request.encode(11), 11)
    records = decoded.topic_data[0].partition_data[0].records
    assert records is not None

    def unpack() -> None:
        with pytest.raises(DecompressionLimitError):
            list(iter_records(records, max_size_bytes=1_000_000))

    assert peak_bytes(unpack) < 4_000_000
