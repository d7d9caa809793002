"""Record batches from a hostile or damaged source: a typed error, at once, and nothing else."""

import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_wire.records.batch as batch_module
from kafka_wire.compression import Compression, compress
from kafka_wire.crc import crc32c
from kafka_wire.error_codes import ErrorCode
from kafka_wire.errors import (
    CorruptBatchError,
    DecodeError,
    DecompressionLimitError,
    InvalidBatchError,
    InvalidTimestampError,
    MalformedBatchError,
    UnsupportedCompressionError,
    UnsupportedMagicError,
)
from kafka_wire.records import (
    ProducerStamp,
    Record,
    build_batch,
    iter_batches,
    iter_fetched_batches,
    iter_records,
    parse_header,
    validate_batch,
    validate_produced_batch,
)
from kafka_wire.types import Buffer, Offset, ProducerEpoch, ProducerId, Sequence

NOW_MS = 1_700_000_000_000
RECORDS = [
    Record(Offset(0), NOW_MS, b"key", b"value", (("name", b"text"), ("empty", None))),
    Record(Offset(1), NOW_MS + 70, None, b"v" * 70),
    Record(Offset(2), NOW_MS - 1, b"", None),
]
BATCH = build_batch(RECORDS)
OUTSIDE_OF_THE_CHECKSUM = {*range(8), *range(12, 16)}
"""Base offset and leader epoch; length, magic and the checksum itself are checked besides it."""

LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT = 8, 16, 17, 21, 23
PRODUCER_ID_AT, PRODUCER_EPOCH_AT, BASE_SEQUENCE_AT, COUNT_AT = 43, 51, 53, 57


def patched(at: int, layout: str, value: int, batch: bytes = BATCH) -> bytes:
    """The batch with one field of its header overwritten, and a checksum that agrees."""
    out = bytearray(batch)
    struct.pack_into(">" + layout, out, at, value)
    struct.pack_into(">I", out, CRC_AT, crc32c(out[ATTRIBUTES_AT:]))
    return bytes(out)


def with_payload(payload: Buffer, count: int = 1, attributes: int = 0) -> bytes:
    """A batch with a valid header and checksum around arbitrary records."""
    out = bytearray(BATCH[:61]) + payload
    struct.pack_into(">i", out, LENGTH_AT, len(out) - 12)
    struct.pack_into(">h", out, ATTRIBUTES_AT, attributes)
    struct.pack_into(">i", out, LAST_DELTA_AT, max(count - 1, 0))
    struct.pack_into(">i", out, COUNT_AT, count)
    struct.pack_into(">I", out, CRC_AT, crc32c(out[ATTRIBUTES_AT:]))
    return bytes(out)


def varint(number: int) -> bytes:
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*out, zigzag])


def record(*parts: int | bytes, length: int | None = None) -> bytes:
    """A record of the given parts, numbers as varints, behind attributes of 0."""
    body = b"\x00" + b"".join(p if isinstance(p, bytes) else varint(p) for p in parts)
    return varint(len(body) if length is None else length) + body


# --- damage -------------------------------------------------------------------------------------


def accepted_flips() -> set[int]:
    """The bytes of which some bit can be flipped unnoticed."""
    accepted = set()
    for bit in range(len(BATCH) * 8):
        damaged = bytearray(BATCH)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            validate_batch(damaged)
        except DecodeError:
            continue
        accepted.add(bit // 8)
    return accepted


def test_every_flipped_bit_is_noticed() -> None:
    assert accepted_flips() == OUTSIDE_OF_THE_CHECKSUM


def test_flipped_bits_would_pass_without_the_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = parse_header(BATCH).crc
    monkeypatch.setattr(batch_module, "crc32c", lambda _: stored)
    assert accepted_flips() > OUTSIDE_OF_THE_CHECKSUM


def test_batch_cut_anywhere_is_refused() -> None:
    for size in range(len(BATCH)):
        with pytest.raises(CorruptBatchError):
            validate_batch(BATCH[:size])
        with pytest.raises(CorruptBatchError):
            list(iter_records(BATCH[:size]))
        if size:
            with pytest.raises(CorruptBatchError):
                list(iter_batches(BATCH + BATCH[:size]))


def test_bytes_behind_a_batch_are_refused() -> None:
    with pytest.raises(CorruptBatchError):
        validate_batch(BATCH + b"\x00")


@pytest.mark.parametrize("length", [0, -1, -(2**31), 13, 14, 48, 2**31 - 1])
def test_lying_batch_length_is_refused(length: int) -> None:
    batch = patched(LENGTH_AT, "i", length)
    for read in (validate_batch, parse_header, lambda b: list(iter_batches(b))):
        if read is not parse_header or length < 49:
            with pytest.raises(CorruptBatchError):
                read(batch)
    if length < 49:
        with pytest.raises(CorruptBatchError):
            list(iter_fetched_batches(batch))


@pytest.mark.parametrize("compression", Compression)
def test_records_cut_or_damaged_anywhere_raise_only_typed_errors(compression: Compression) -> None:
    payload = compress(compression, BATCH[61:])
    for size in range(len(payload)):
        with pytest.raises(DecodeError):
            list(iter_records(with_payload(payload[:size], 3, compression)))
    for bit in range(len(payload) * 8):
        damaged = bytearray(payload)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert len(list(iter_records(with_payload(damaged, 3, compression)))) == 3
        except DecodeError:
            continue


@given(payload=st.binary(max_size=80), count=st.integers(-2, 12), attributes=st.integers(0, 7))
@settings(max_examples=300)
def test_random_records_raise_only_typed_errors(
    payload: bytes, count: int, attributes: int
) -> None:
    try:
        records = list(iter_records(with_payload(payload, count, attributes)))
    except DecodeError:
        return
    assert len(records) == count


@given(data=st.binary(max_size=150))
@settings(max_examples=200)
def test_random_bytes_raise_only_typed_errors(data: bytes) -> None:
    readers: list[Callable[[bytes], object]] = [
        validate_produced_batch,
        lambda b: list(iter_batches(b)),
        lambda b: list(iter_fetched_batches(b)),
        lambda b: list(iter_records(b)),
    ]
    for read in readers:
        for source in (data, BATCH[:16] + data):
            try:
                read(source)
            except DecodeError:
                continue


# --- contradictions -----------------------------------------------------------------------------

GOOD = (0, 0, 3, b"key", 5, b"value", 0)

MALFORMED = {
    "record length is negative": record(*GOOD, length=-1),
    "record length is too large": record(*GOOD, length=99),
    "record length is huge": record(*GOOD, length=2**31 - 1),
    "record length is too small": record(*GOOD, length=12),
    "offset delta is negative": record(0, -1, -1, -1, 0),
    "offset delta is beyond the last": record(0, 1, -1, -1, 0),
    "key length is -2": record(0, 0, -2, -1, 0),
    "key length is too large": record(0, 0, 90, b"key", -1, 0),
    "key length is huge": record(0, 0, 2**31 - 1, b"key", -1, 0),
    "value length is -2": record(0, 0, -1, -2, 0),
    "value length is too large": record(0, 0, -1, 90, b"value", 0),
    "value length is huge": record(0, 0, -1, 2**31 - 1, b"value", 0),
    "headers are missing": record(0, 0, -1, -1),
    "header count is negative": record(0, 0, -1, -1, -1),
    "header count is huge": record(0, 0, -1, -1, 2**31 - 1),
    "header count is too large": record(0, 0, -1, -1, 2, 1, b"a", -1),
    "header key is null": record(0, 0, -1, -1, 1, -1, -1),
    "header key is too long": record(0, 0, -1, -1, 1, 90, b"a", -1),
    "header value length is -2": record(0, 0, -1, -1, 1, 1, b"a", -2),
    "header value is too long": record(0, 0, -1, -1, 1, 1, b"a", 90, b"b"),
    "varint is too long": record(0, 0, b"\xff" * 9 + b"\x01", b"", -1, 0),
    "varint of six bytes": record(0, 0, b"\x86\x80\x80\x80\x80\x00", b"key", -1, 0),
    "varlong of eleven bytes": record(b"\x80" * 10 + b"\x00", 0, -1, -1, 0),
    "varint has more than 32 bits": record(0, 0, b"\xff\xff\xff\xff\x7f", -1, 0),
    "varint never ends": b"\xff" * 40,
    "varlong has more than 64 bits": record(b"\xff" * 9 + b"\x7f", 0, -1, -1, 0),
    "timestamp has more than 64 bits": record(2**63 - 1, 0, -1, -1, 0),
    "bytes follow the record": record(*GOOD) + b"\x00",
    "record is followed by another": record(*GOOD) * 2,
    "there is nothing": b"",
}


def test_the_pattern_of_the_malformed_records_is_well_formed() -> None:
    assert list(iter_records(with_payload(record(*GOOD)))) == [
        Record(Offset(0), NOW_MS, b"key", b"value")
    ]


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_records_are_refused(name: str) -> None:
    batch = with_payload(MALFORMED[name])
    validate_batch(batch)  # its checksum is right: nothing but the reader can find it
    with pytest.raises(MalformedBatchError):
        list(iter_records(batch))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0)])
def test_offsets_that_do_not_ascend_are_refused(deltas: tuple[int, int]) -> None:
    payload = b"".join(record(0, delta, -1, -1, 0) for delta in deltas)
    with pytest.raises(MalformedBatchError):
        list(iter_records(with_payload(payload, 2)))


@pytest.mark.parametrize("count", [2, 100, 2**31 - 1, -1, 0])
def test_record_count_that_does_not_fit_is_refused(count: int) -> None:
    with pytest.raises(MalformedBatchError):
        list(iter_records(with_payload(record(*GOOD), count)))


def test_header_key_that_is_not_utf8_does_not_make_a_record_unreadable() -> None:
    (found,) = iter_records(with_payload(record(0, 0, -1, -1, 1, 2, b"\xff\xfe", 1, b"x")))
    assert found.headers == (("\ufffd\ufffd", b"x"),)


def test_timestamps_before_the_epoch_are_read() -> None:
    (found,) = iter_records(with_payload(record(-NOW_MS - 5, 0, -1, -1, 0)))
    assert found.timestamp_ms == -5


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_decompressed_records_are_limited(compression: Compression) -> None:
    batch = with_payload(compress(compression, bytes(1_000_000)), 1, compression)
    with pytest.raises(DecompressionLimitError):
        list(iter_records(batch, max_size_bytes=100_000))


def test_records_are_made_one_at_a_time() -> None:
    count = 20_000
    payload = b"".join(record(0, i, -1, -1, 0) for i in range(count))
    batch = with_payload(compress(Compression.ZSTD, payload), count, Compression.ZSTD)
    tracemalloc.start()
    try:
        assert sum(1 for _ in iter_records(batch)) == count
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(payload)


# --- what a client may send ---------------------------------------------------------------------

STAMP = ProducerStamp(
    producer_id=ProducerId(1), producer_epoch=ProducerEpoch(0), base_sequence=Sequence(0)
)
STAMPED = build_batch(RECORDS, producer=STAMP)
INVALID: dict[str, tuple[bytes, type[DecodeError], ErrorCode]] = {
    "magic 0": (patched(MAGIC_AT, "b", 0), UnsupportedMagicError, ErrorCode.INVALID_RECORD),
    "magic 1": (patched(MAGIC_AT, "b", 1), UnsupportedMagicError, ErrorCode.INVALID_RECORD),
    "magic 3": (patched(MAGIC_AT, "b", 3), CorruptBatchError, ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (patched(MAGIC_AT, "b", -1), CorruptBatchError, ErrorCode.CORRUPT_MESSAGE),
    "checksum": (BATCH[:-1] + b"\x01", CorruptBatchError, ErrorCode.CORRUPT_MESSAGE),
    "no records": (with_payload(b"", 0), InvalidBatchError, ErrorCode.INVALID_RECORD),
    "count -1": (patched(COUNT_AT, "i", -1), MalformedBatchError, ErrorCode.INVALID_RECORD),
    "fewer records than offsets": (
        patched(COUNT_AT, "i", 2),
        InvalidBatchError,
        ErrorCode.INVALID_RECORD,
    ),
    "more records than offsets": (
        patched(COUNT_AT, "i", 4),
        MalformedBatchError,
        ErrorCode.INVALID_RECORD,
    ),
    "last offset before the first": (
        patched(LAST_DELTA_AT, "i", -2),
        MalformedBatchError,
        ErrorCode.INVALID_RECORD,
    ),
    "control": (patched(ATTRIBUTES_AT, "h", 0x20), InvalidBatchError, ErrorCode.INVALID_RECORD),
    "horizon": (patched(ATTRIBUTES_AT, "h", 0x40), InvalidBatchError, ErrorCode.INVALID_RECORD),
    "log append time": (
        patched(ATTRIBUTES_AT, "h", 0x08),
        InvalidTimestampError,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "transaction without producer": (
        patched(ATTRIBUTES_AT, "h", 0x10),
        InvalidBatchError,
        ErrorCode.INVALID_RECORD,
    ),
    "producer without sequence": (
        patched(BASE_SEQUENCE_AT, "i", -1, STAMPED),
        InvalidBatchError,
        ErrorCode.INVALID_RECORD,
    ),
    "producer without epoch": (
        patched(PRODUCER_EPOCH_AT, "h", -1, STAMPED),
        InvalidBatchError,
        ErrorCode.INVALID_RECORD,
    ),
    "compression 5": (
        patched(ATTRIBUTES_AT, "h", 5),
        UnsupportedCompressionError,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_batch_that_no_client_may_send_is_answered_as_kafka_does(name: str) -> None:
    batch, error, code = INVALID[name]
    with pytest.raises(error) as raised:
        validate_produced_batch(batch)
    assert type(raised.value) is error
    assert raised.value.code is code


def test_old_message_format_is_named_in_a_fetch_too() -> None:
    for magic in (0, 1):
        with pytest.raises(UnsupportedMagicError, match=f"format {magic}"):
            list(iter_fetched_batches(patched(MAGIC_AT, "b", magic)))
        short = patched(MAGIC_AT, "b", magic)[:30]  # one small message is shorter than a v2 header
        with pytest.raises(UnsupportedMagicError):
            list(iter_batches(short[:8] + struct.pack(">i", 18) + short[12:]))


def test_negative_producer_id_means_none() -> None:
    assert validate_produced_batch(patched(PRODUCER_ID_AT, "q", -7)).producer_id is None


def test_replicas_accept_what_compaction_leaves() -> None:
    validate_batch(patched(COUNT_AT, "i", 2))
    validate_batch(patched(ATTRIBUTES_AT, "h", 0x68))
