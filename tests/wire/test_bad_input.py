"""Whatever arrives, a decoder returns a message or raises a `DecodeError`, in bounded memory.

Truncation and damage are tried at every byte of every version of every message; random bytes with
a fixed budget here, and without one by the fuzz targets (`make fuzz`).
"""

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_wire.decoder
from kafka_wire.errors import DecodeError, FrameSizeError, UnsupportedVersionError, WireError
from kafka_wire.framing import FrameReader
from kafka_wire.messages import REQUESTS, FetchResponse, MetadataRequest
from kafka_wire.protocol import (
    decode_request,
    decode_request_header,
    decode_response,
    decode_response_header,
)
from kafka_wire.records import iter_batches, iter_records
from kafka_wire.schema import Message
from tests.wire.samples import ALL_MESSAGES, EVERY_VERSION, name_of, sample

every_message = pytest.mark.parametrize("message", ALL_MESSAGES, ids=name_of)


def versions_of(message: type[Message]) -> range:
    return range(message.versions.first, message.versions.last + 1)


def try_decode(message: type[Message], data: bytes, version: int) -> Message | None:
    """The message, or None for a `DecodeError`; anything else fails the test."""
    try:
        return message.decode(data, version)
    except DecodeError:
        return None


# --- damage at every byte ----------------------------------------------------------------------


@every_message
def test_a_message_cut_at_any_byte_is_refused(message: type[Message]) -> None:
    for version in versions_of(message):
        data = sample(message, version).encode(version)
        assert message.decode_from(data, 0, version)[1] == len(data)
        assert sizes_that_decode(message, data, version) == []


def sizes_that_decode(message: type[Message], data: bytes, version: int) -> list[int]:
    """The sizes to which the message can be cut without an error."""
    sizes = range(len(data))
    return [size for size in sizes if try_decode(message, data[:size], version) is not None]


BAD_LENGTHS = [
    bytes.fromhex(text)
    for text in (
        "ffff",  # -1 as an int16
        "8000",  # the most negative; or a varint of two bytes that one would do for
        "7fff",
        "ffffffff",  # -1 as an int32
        "fffffffe",
        "80000000",
        "7fffffff",
        "00",  # null, or false
        "ffffffff0f",  # the largest varint
        "ffffffff1f",  # a varint of more than 32 bits
        "ffffffffffff",  # one that does not end
    )
]


@every_message
def test_wrong_lengths_at_any_byte_are_read_or_refused(message: type[Message]) -> None:
    for version in {message.versions.first, message.versions.last}:
        data = sample(message, version).encode(version)
        for position in range(len(data)):
            for bad in BAD_LENGTHS:
                damaged = data[:position] + bad + data[position + len(bad) :]
                try_decode(message, damaged, version)


@every_message
def test_flipped_bits_are_read_or_refused_and_what_is_read_can_be_written(
    message: type[Message],
) -> None:
    for version in versions_of(message):
        data = bytearray(sample(message, version).encode(version))
        for position in range(len(data)):
            flip = 1 << position % 8
            data[position] ^= flip
            decoded = try_decode(message, bytes(data), version)
            data[position] ^= flip
            if decoded is not None and position % 16 == 0:
                again = decoded.encode(version)
                assert message.decode(again, version).encode(version) == again


@settings(max_examples=60)
@given(st.sampled_from(EVERY_VERSION), st.binary(max_size=60))
def test_random_bytes_are_read_or_refused(case: tuple[type[Message], int], data: bytes) -> None:
    message, version = case
    decoded = try_decode(message, data, version)
    if decoded is not None:
        again = decoded.encode(version)
        assert message.decode(again, version).encode(version) == again


def test_many_random_bytes_are_read_or_refused() -> None:
    """Without hypothesis a hundred times as many fit into a second."""
    seed = random.randrange(2**32)
    randoms = random.Random(seed)
    for message, version in EVERY_VERSION:
        for size in (3, 10, 40):
            # Small bytes are lengths that fit, and reach deeper.
            small = bytes(randoms.choice((0, 1, 2, 3, 5, 255)) for _ in range(size))
            for data in (small, randoms.randbytes(size)):
                try:
                    try_decode(message, data, version)
                except Exception as error:
                    error.add_note(f"{message.__name__} v{version} of {data.hex()}, seed {seed}")
                    raise


def test_strings_that_are_not_utf8_are_refused() -> None:
    for message, version in EVERY_VERSION:
        data = sample(message, version).encode(version)
        if b"text" in data:
            with pytest.raises(DecodeError, match="a string is not UTF-8"):
                message.decode(data.replace(b"text", b"\xed\xa0\x80t"), version)


@pytest.mark.parametrize(
    ("data", "version", "problem"),
    [
        ("fffffffe", 1, "topics has a length of -2"),
        ("80000000", 1, "topics has a length of -2147483648"),
        ("7fffffff 0000", 1, "topics has 2147483647 elements, 2 bytes are left"),
        ("00000001 fffe", 1, "name has a length of -2"),
        ("00000001 0005 61", 1, "name has 5 bytes, 1 are left"),
        ("00000001 ffff", 1, "name is null"),
        ("ffffffff0f 00", 9, "topics has 4294967294 elements, 1 bytes are left"),
        ("02 06 61", 9, "name has 5 bytes, 1 are left"),
        ("02 00 00 00 00 00", 9, "name is null"),
        ("", 9, "it ends too early, at byte 0"),
    ],
)
def test_the_error_says_what_is_wrong(data: str, version: int, problem: str) -> None:
    with pytest.raises(DecodeError, match=f"MetadataRequest v{version} .*{problem}"):
        MetadataRequest.decode(bytes.fromhex(data), version)


# --- headers and frames ------------------------------------------------------------------------

REQUEST_HEADERS = {
    0: bytes.fromhex("0003 0000 00000001"),
    1: bytes.fromhex("0003 0008 00000001 0002 6162"),
    2: bytes.fromhex("0003 000c 00000001 0002 6162 02 03 01 00 05 00"),
}
RESPONSE_HEADERS = {0: bytes.fromhex("00000001"), 1: bytes.fromhex("00000001 02 03 01 00 05 00")}


@pytest.mark.parametrize("version", REQUEST_HEADERS)
def test_a_request_header_cut_at_any_byte_is_refused(version: int) -> None:
    data = REQUEST_HEADERS[version]
    assert decode_request_header(data, version)[1] == len(data)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode_request_header(data[:size], version)


@pytest.mark.parametrize("version", RESPONSE_HEADERS)
def test_a_response_header_cut_at_any_byte_is_refused(version: int) -> None:
    data = RESPONSE_HEADERS[version]
    assert decode_response_header(data, version)[1] == len(data)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode_response_header(data[:size], version)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("0003 0008 00000001 fffe", "the client id has a length of -2"),
        ("0003 0008 00000001 7fff 61", "the client id has 32767 bytes, the frame ends before"),
        ("0003 0008 00000001 0002 ff61", "the client id is not UTF-8"),
        ("0003 000c 00000001 ffff ffffffff0f", "there are 4294967295 tagged fields"),
        ("7fff 0000 00000001 ffff", "no request with API key 32767"),
    ],
)
def test_a_bad_request_header_says_what_is_wrong(data: str, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        decode_request_header(bytes.fromhex(data))


@pytest.mark.parametrize("api_key", REQUESTS)
def test_a_version_that_is_not_there_is_no_decode_error(api_key: int) -> None:
    """The server answers it with UNSUPPORTED_VERSION, and the connection goes on."""
    frame = struct.pack(">hhih", api_key, 99, 1, -1) + bytes(8)
    with pytest.raises(UnsupportedVersionError):
        decode_request(frame)


@settings(max_examples=200)
@given(
    st.binary(max_size=80)
    | st.builds(
        lambda key, version, tail: struct.pack(">hhih", key, version, 1, -1) + tail,
        st.sampled_from(sorted(REQUESTS)),
        st.integers(0, 12),
        st.binary(max_size=40),
    )
)
def test_random_frames_raise_only_wire_errors(frame: bytes) -> None:
    for read in (
        lambda: decode_request(frame),
        lambda: decode_response(frame, api_key=3, api_version=12),
        lambda: decode_response(frame, api_key=1, api_version=4),
        lambda: decode_response(frame, api_key=18, api_version=3),
    ):
        try:
            read()
        except WireError:
            continue


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=20), max_size=8))
def test_random_streams_give_frames_or_a_typed_error(chunks: list[bytes]) -> None:
    reader = FrameReader(max_frame_bytes=64)
    received = 0
    try:
        for chunk in chunks:
            received += sum(4 + len(frame) for frame in reader.feed(chunk))
    except FrameSizeError:
        return
    assert received + reader.pending_bytes == sum(map(len, chunks))


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_random_records_of_a_request_raise_only_typed_errors(records: bytes) -> None:
    try:
        for _, batch in iter_batches(records):
            list(iter_records(batch))
    except DecodeError:
        return


# --- the tests would notice --------------------------------------------------------------------


def without_checks(*forgotten: str) -> Callable[[Any, str], None]:
    """A compiler that leaves out the checks whose messages contain one of the texts."""

    def fail(compiler: Any, message: str) -> None:
        if any(text in message for text in forgotten):
            compiler.source.line("pass")
        else:
            compiler.source.line(f"raise DecodeError({message})")

    return fail


def compiled_anew(message: type[Message], monkeypatch: pytest.MonkeyPatch, *forgotten: str) -> None:
    monkeypatch.setattr(kafka_wire.decoder._DecoderCompiler, "fail", without_checks(*forgotten))
    monkeypatch.setattr(message, "decoders", {})


@pytest.mark.parametrize("message", [MetadataRequest, FetchResponse], ids=name_of)
def test_a_forgotten_bounds_check_is_noticed(
    message: type[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice of a memoryview is cut short without a word, and then there is no end to miss."""
    version = message.versions.first
    data = sample(message, version).encode(version)
    assert sizes_that_decode(message, data, version) == []
    compiled_anew(message, monkeypatch, "bytes, ")
    assert sizes_that_decode(message, data, version) != []


def test_a_forgotten_null_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_anew(MetadataRequest, monkeypatch, "is null")
    with pytest.raises(UnboundLocalError):
        test_wrong_lengths_at_any_byte_are_read_or_refused(MetadataRequest)


def test_a_forgotten_count_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the elements are read until the frame ends: the same error, but not at once."""
    case = ("7fffffff 0000", 1, "topics has 2147483647 elements, 2 bytes are left")
    test_the_error_says_what_is_wrong(*case)
    compiled_anew(MetadataRequest, monkeypatch, "elements, ")
    with pytest.raises(AssertionError, match="ends too early"):
        test_the_error_says_what_is_wrong(*case)
