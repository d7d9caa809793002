"""Framing: whatever the splits, the frames are the same, and a lying length takes no memory."""

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.errors import EncodeError, FrameSizeError
from kafka_wire.framing import FrameReader, frame

LIMIT = 1000


def wire(payloads: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    chunks, position = [], 0
    for size in sizes:
        chunks.append(stream[position : position + size])
        position += size
    return [*chunks, stream[position:]]


@given(
    payloads=st.lists(st.binary(max_size=60), max_size=8),
    sizes=st.lists(st.integers(0, 90), max_size=12),
)
def test_frames_do_not_depend_on_how_the_stream_was_split(
    payloads: list[bytes], sizes: list[int]
) -> None:
    reader = FrameReader(LIMIT)
    frames = [bytes(f) for chunk in cut(wire(payloads), sizes) for f in reader.feed(chunk)]
    assert frames == payloads
    assert reader.pending_bytes == 0


@given(payloads=st.lists(st.binary(max_size=9), min_size=1, max_size=4))
def test_frames_arrive_byte_by_byte(payloads: list[bytes]) -> None:
    reader = FrameReader(LIMIT)
    frames: list[bytes] = []
    stream = wire(payloads)
    for i in range(len(stream)):
        frames += map(bytes, reader.feed(stream[i : i + 1]))
    assert frames == payloads


@given(payloads=st.lists(st.binary(max_size=60), min_size=1, max_size=4), dropped=st.integers(1, 9))
def test_pending_bytes_tell_that_the_stream_stopped_inside_a_frame(
    payloads: list[bytes], dropped: int
) -> None:
    stream = wire(payloads)
    stream = stream[: max(len(stream) - dropped, 0)]
    reader = FrameReader(LIMIT)
    whole = reader.feed(stream)
    assert reader.pending_bytes == len(stream) - len(wire([bytes(f) for f in whole]))


def test_frame_within_a_chunk_is_a_view_of_the_chunk() -> None:
    chunk = bytearray(wire([b"first", b"second"]))
    first, second = FrameReader(LIMIT).feed(chunk)
    assert first.obj is chunk
    assert second.obj is chunk


def test_frame_over_chunks_survives_what_follows() -> None:
    reader = FrameReader(LIMIT)
    chunk = bytearray(b"\x00\x00\x00\x05he")
    assert reader.feed(chunk) == []
    chunk[:] = b"\xff" * len(chunk)
    (frame_view,) = reader.feed(b"llo" + wire([b"next"])[:6])
    reader.feed(wire([b"next"])[6:])
    assert bytes(frame_view) == b"hello"


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
@pytest.mark.parametrize("split", [1, 4])
def test_impossible_length_is_refused_at_once(length: int, split: int) -> None:
    stream = struct.pack(">i", length)
    reader = FrameReader(LIMIT)
    for i in range(0, 4 - split, split):
        reader.feed(stream[i : i + split])
    with pytest.raises(FrameSizeError):
        reader.feed(stream[-split:])


def test_largest_frame_is_accepted() -> None:
    (frame_view,) = FrameReader(LIMIT).feed(wire([b"x" * LIMIT]))
    assert len(frame_view) == LIMIT


def test_announced_bytes_take_no_memory_until_they_arrive() -> None:
    reader = FrameReader()
    tracemalloc.start()
    try:
        reader.feed(struct.pack(">i", 100 * 1024 * 1024))
        for _ in range(16):
            reader.feed(b"x" * 1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_frame_prepends_the_length_and_copies_nothing(parts: list[bytes]) -> None:
    vector = frame(parts)
    assert all(sent is part for sent, part in zip(vector[1:], parts, strict=True))
    (payload,) = FrameReader(LIMIT).feed(b"".join(vector))
    assert bytes(payload) == b"".join(parts)


def test_frame_longer_than_its_length_field_is_refused() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 2**31

    with pytest.raises(EncodeError):
        frame([Huge()])
