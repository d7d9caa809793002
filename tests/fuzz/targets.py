"""What the fuzzers call with arbitrary bytes. Any exception but a `WireError` is a finding.

What could be decoded must survive being encoded and decoded again. Bytes are compared rather than
messages, for a float that is not a number differs from itself.

Each target has seeds: valid inputs from which a coverage-guided fuzzer finds its way faster.
"""

import struct
from collections.abc import Iterator

from kafka_wire.compression import Compression, compress
from kafka_wire.crc import crc32c
from kafka_wire.errors import EncodeError, WireError
from kafka_wire.framing import FrameReader, frame
from kafka_wire.messages import REQUESTS, RESPONSES
from kafka_wire.protocol import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request_header,
    encode_response,
    request_header_version,
)
from kafka_wire.records import (
    Record,
    build_batch,
    iter_batches,
    iter_fetched_batches,
    iter_records,
    parse_control_record,
    validate_batch,
    validate_produced_batch,
)
from kafka_wire.types import Buffer, Offset
from tests.wire.samples import EVERY_VERSION, sample

CHOICE_BYTES = 2
"""Of a message input: which message and version the rest is."""

MAX_FRAME_BYTES = 4096
MAX_DECOMPRESSED_BYTES = 1 << 20
HEADER_BYTES = 61


# --- messages ----------------------------------------------------------------------------------


def fuzz_message(data: bytes) -> None:
    """The first bytes choose a message and a version, the others are its body."""
    if len(data) < CHOICE_BYTES:
        return
    choice = int.from_bytes(data[:CHOICE_BYTES], "big")
    message, version = EVERY_VERSION[choice % len(EVERY_VERSION)]
    try:
        decoded = message.decode(data[CHOICE_BYTES:], version)
    except WireError:
        return
    again = decoded.encode(version)
    if message.decode(again, version).encode(version) != again:
        raise AssertionError(f"{message.__name__} v{version} changes: {again.hex()}")


def message_seeds() -> Iterator[bytes]:
    for choice, (message, version) in enumerate(EVERY_VERSION):
        data: bytes = sample(message, version, items=1).encode(version)
        yield choice.to_bytes(CHOICE_BYTES, "big") + data


# --- records -----------------------------------------------------------------------------------


def fuzz_records(data: bytes) -> None:
    """The bytes as they are, and as the inside of a batch whose header and checksum are right."""
    _read_batches(data)
    if len(data) >= 4:
        _read_batches(_with_header(data))


def _read_batches(data: bytes) -> None:
    try:
        for _, batch in iter_fetched_batches(data):
            _read_records(batch)
        for _, batch in iter_batches(data):
            validate_batch(batch)
            validate_produced_batch(batch)
    except WireError:
        return


def _read_records(batch: Buffer) -> None:
    try:
        records = list(iter_records(batch, max_size_bytes=MAX_DECOMPRESSED_BYTES))
    except WireError:
        return
    for record in records:
        try:
            parse_control_record(record)
        except WireError:
            continue
    if not records:
        return
    try:
        again = build_batch(records, base_offset=records[0].offset)
    except EncodeError:
        return  # offsets or timestamps further apart than one batch of ours can say
    if list(iter_records(again)) != records:
        raise AssertionError(f"records change: {records}")


def _with_header(data: bytes) -> bytes:
    """Two bytes of attributes, one of the last offset's delta, one of the count; then records."""
    attributes, last_offset_delta, count = struct.unpack_from(">hBB", data)
    out = bytearray(HEADER_BYTES) + data[4:]
    struct.pack_into(">qiib", out, 0, 0, len(out) - 12, 0, 2)
    struct.pack_into(">hiqqqhii", out, 21, attributes, last_offset_delta, 0, 0, -1, -1, -1, count)
    struct.pack_into(">I", out, 17, crc32c(out[21:]))
    return bytes(out)


def record_seeds() -> Iterator[bytes]:
    records = [
        Record(Offset(0), 1000, b"key", b"value", (("name", b"text"), ("none", None))),
        Record(Offset(1), 1001, None, None),
        Record(Offset(2), 900, b"", b"v" * 70),
    ]
    plain = build_batch(records)[HEADER_BYTES:]
    for codec in Compression:
        yield build_batch(records, compression=codec)
        yield struct.pack(">hBB", codec, 2, 3) + compress(codec, plain)
    yield build_batch(records) + build_batch(records)[:70]


# --- frames ------------------------------------------------------------------------------------

RESPONSE_KINDS = [(0, 11), (1, 4), (1, 16), (3, 12), (18, 0), (18, 3), (68, 1)]


def fuzz_frames(data: bytes) -> None:
    """A stream: the first byte says how it is split into chunks, the rest are frames."""
    if not data:
        return
    step, stream = data[0] + 1, data[1:]
    chunks = [stream[start : start + step] for start in range(0, len(stream), step)]
    frames, error = _frames(chunks)
    whole, whole_error = _frames([stream])
    if frames[: len(whole)] != whole or (error is None) != (whole_error is None):
        raise AssertionError(f"the split into {step} bytes matters: {stream.hex()}")
    for request in frames:
        _read_request(request)
        for api_key, api_version in RESPONSE_KINDS:
            _read_response(request, api_key, api_version)


def _frames(chunks: list[bytes]) -> tuple[list[bytes], WireError | None]:
    reader = FrameReader(max_frame_bytes=MAX_FRAME_BYTES)
    frames: list[bytes] = []
    try:
        for chunk in chunks:
            frames += map(bytes, reader.feed(chunk))
    except WireError as error:
        return frames, error
    return frames, None


def _read_request(data: bytes) -> None:
    try:
        header, request = decode_request(data)
    except WireError:
        return
    header_version = request_header_version(header.api_key, header.api_version)
    again = b"".join(
        [
            encode_request_header(header, header_version),
            *request.encode_parts(header.api_version),
        ]
    )
    header_again, request_again = decode_request(again)
    if header_again != header or request_again.encode(header.api_version) != request.encode(
        header.api_version
    ):
        raise AssertionError(f"a request changes: {data.hex()}")


def _read_response(data: bytes, api_key: int, api_version: int) -> None:
    try:
        header, response = decode_response(data, api_key=api_key, api_version=api_version)
    except WireError:
        return
    again = b"".join(
        encode_response(
            response,
            api_version=api_version,
            correlation_id=header.correlation_id,
            unknown_tagged_fields=header.unknown_tagged_fields,
        )
    )
    header_again, response_again = decode_response(again, api_key=api_key, api_version=api_version)
    if header_again != header or response_again.encode(api_version) != response.encode(api_version):
        raise AssertionError(f"a response changes: {data.hex()}")


def frame_seeds() -> Iterator[bytes]:
    for request in REQUESTS.values():
        version = request.versions.last
        header = RequestHeader(
            api_key=request.api_key, api_version=version, correlation_id=1, client_id="fuzz"
        )
        header_version = request_header_version(request.api_key, version)
        body = sample(request, version, items=1).encode(version)
        yield b"\xff" + b"".join(frame([encode_request_header(header, header_version), body]))
    for api_key, version in RESPONSE_KINDS:
        response = sample(RESPONSES[api_key], version, items=1)
        parts = encode_response(response, api_version=version, correlation_id=1)
        yield b"\x07" + b"".join(frame(parts))
