"""Record batches: ours are read by other clients, theirs by us, and brokers patch them in place."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.compression import Compression
from kafka_wire.error_codes import ErrorCode
from kafka_wire.errors import EncodeError, MalformedBatchError
from kafka_wire.records import (
    BatchBuilder,
    BatchHeader,
    ControlRecordType,
    EndTransactionMarker,
    Headers,
    ProducerStamp,
    Record,
    TimestampType,
    assign_offsets,
    build_batch,
    build_end_transaction_marker,
    iter_batches,
    iter_fetched_batches,
    iter_records,
    max_record_size_bytes,
    parse_control_record,
    parse_header,
    rewrite_batch,
    set_log_append_time,
    set_max_timestamp,
    validate_batch,
    validate_produced_batch,
)
from kafka_wire.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence
from tests.wire.other_clients import aiokafka_records, kafka_python_records

MAX_INT32 = 2**31 - 1
NOW_MS = 1_700_000_000_000
STAMP = ProducerStamp(
    producer_id=ProducerId(2**40), producer_epoch=ProducerEpoch(7), base_sequence=Sequence(99)
)

FROM_KAFKA = bytes.fromhex(
    "0000000000000000 0000003b 00000001 02 0318a270 0000 00000000"
    "0000015dff7b063c 0000015dff7b063c ffffffffffffffff ffff ffffffff 00000001"
    "12 00 00 00 01 06 313233 00"
)
"""Value 123 without key, as a broker of Kafka 0.11 stored it."""

OTHERS = [
    aiokafka_records.DefaultRecordBatch,
    aiokafka_records._DefaultRecordBatchPy,
    kafka_python_records.DefaultRecordBatch,
]
OTHER_BUILDERS = [
    aiokafka_records.DefaultRecordBatchBuilder,
    kafka_python_records.DefaultRecordBatchBuilder,
]

varint_steps = [63, 64, 8191, 8192, 2**20 - 1, 2**20]
"""Lengths at which a varint grows by a byte."""
blobs = st.none() | st.binary(max_size=20) | st.sampled_from(varint_steps).map(lambda n: b"f" * n)
headers = st.lists(
    st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=3
).map(tuple)
timestamps = st.integers(0, 2**45)


@st.composite
def record_lists(draw: st.DrawFn, gaps: bool = False) -> list[Record]:
    """Records with ascending offsets from 0, without gaps unless asked for."""
    parts = draw(st.lists(st.tuples(timestamps, blobs, blobs, headers), min_size=1, max_size=6))
    offset, records = 0, []
    for timestamp_ms, key, value, record_headers in parts:
        records.append(Record(Offset(offset), timestamp_ms, key, value, record_headers))
        offset += draw(st.integers(1, 10_000)) if gaps else 1
    return records


def as_ours(batch: Any) -> Iterator[Record]:
    """Another client's records as ours."""
    for r in batch:
        yield Record(r.offset, r.timestamp, r.key, r.value, tuple(map(tuple, r.headers)))


def numbered(count: int, base_offset: int = 0, value: bytes = b"value") -> list[Record]:
    return [Record(Offset(base_offset + i), NOW_MS + i, b"key", value) for i in range(count)]


# --- other clients ------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", Compression)
@given(records=record_lists(), transactional=st.booleans(), base_offset=st.integers(0, 2**50))
@settings(max_examples=40)
def test_other_clients_read_our_batches(
    compression: Compression, records: list[Record], transactional: bool, base_offset: int
) -> None:
    batch = bytearray(
        build_batch(
            records, compression=compression, producer=STAMP, is_transactional=transactional
        )
    )
    assign_offsets(batch, base_offset=Offset(base_offset), leader_epoch=LeaderEpoch(5))
    expected = [
        Record(Offset(r.offset + base_offset), r.timestamp_ms, r.key, r.value, r.headers)
        for r in records
    ]
    assert list(iter_records(batch)) == expected
    for other in OTHERS:
        theirs = other(bytes(batch))
        assert theirs.validate_crc()
        assert theirs.base_offset == base_offset
        assert theirs.is_transactional == transactional
        assert not theirs.is_control_batch
        assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (2**40, 7, 99)
        assert theirs.max_timestamp == max(r.timestamp_ms or 0 for r in records)
        assert list(as_ours(theirs)) == expected


@pytest.mark.parametrize("make_builder", OTHER_BUILDERS)
@pytest.mark.parametrize("compression", Compression)
@given(records=record_lists())
@settings(max_examples=25)
def test_we_read_the_batches_of_other_clients(
    make_builder: Any, compression: Compression, records: list[Record]
) -> None:
    builder = make_builder(
        magic=2,
        compression_type=int(compression),
        is_transactional=1,
        producer_id=3,
        producer_epoch=2,
        base_sequence=1,
        batch_size=10**9,
    )
    for r in records:
        builder.append(
            r.offset, timestamp=r.timestamp_ms, key=r.key, value=r.value, headers=list(r.headers)
        )
    batch = bytes(builder.build())
    header = validate_produced_batch(batch)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 2, 1)
    assert list(iter_records(batch)) == records


def test_bytes_of_a_real_broker_are_read_and_written_alike() -> None:
    header = validate_batch(FROM_KAFKA)
    timestamp_ms = 0x15DFF7B063C
    assert header == BatchHeader(
        base_offset=Offset(0),
        size_bytes=71,
        leader_epoch=LeaderEpoch(1),
        crc=0x0318A270,
        attributes=0,
        last_offset_delta=0,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=None,
        producer_epoch=None,
        base_sequence=None,
        records_count=1,
    )
    records = list(iter_records(FROM_KAFKA))
    assert records == [Record(Offset(0), timestamp_ms, None, b"123")]
    assert build_batch(records, leader_epoch=LeaderEpoch(1)) == FROM_KAFKA


@pytest.mark.parametrize("is_commit", [True, False])
def test_transaction_markers_are_what_other_clients_expect(is_commit: bool) -> None:
    marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=12)
    batch = build_end_transaction_marker(
        marker,
        producer_id=ProducerId(4),
        producer_epoch=ProducerEpoch(1),
        timestamp_ms=NOW_MS,
        base_offset=Offset(77),
        leader_epoch=LeaderEpoch(3),
    )
    header = validate_batch(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, None)
    (record,) = iter_records(batch)
    assert record.offset == 77
    assert record.value == b"\x00\x00\x00\x00\x00\x0c"
    assert parse_control_record(record) == marker
    (theirs,) = kafka_python_records.DefaultRecordBatch(batch)
    assert (theirs.commit, theirs.abort) == (is_commit, not is_commit)
    assert aiokafka_records.DefaultRecordBatch(batch).is_control_batch


# --- control records ----------------------------------------------------------------------------


def control(key: bytes | None, value: bytes | None = b"") -> Record:
    return Record(Offset(0), NOW_MS, key, value)


def test_control_records_of_other_kinds_are_passed_over() -> None:
    for kind in (*range(2, 9), -1):
        assert parse_control_record(control(b"\x00\x00" + kind.to_bytes(2, signed=True))) is None
    assert set(ControlRecordType) == set(range(7))


def test_control_records_of_a_later_version_are_read_like_the_first() -> None:
    record = control(b"\x00\x05\x00\x01more", b"\x00\x02\x00\x00\x00\x09more")
    assert parse_control_record(record) == EndTransactionMarker(is_commit=True, coordinator_epoch=9)


@pytest.mark.parametrize(
    "record",
    [
        control(None),
        control(b"\x00\x00\x00"),
        control(b"\xff\xff\x00\x01"),
        control(b"\x00\x00\x00\x01", None),
        control(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00"),
        control(b"\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x01"),
    ],
)
def test_damaged_control_records_are_refused(record: Record) -> None:
    with pytest.raises(MalformedBatchError):
        parse_control_record(record)


# --- building -----------------------------------------------------------------------------------


@given(records=record_lists(gaps=True))
def test_offsets_keep_their_gaps(records: list[Record]) -> None:
    batch = build_batch(records)
    header = validate_batch(batch)
    assert header.next_offset == records[-1].offset + 1
    assert list(iter_records(batch)) == records


def test_builder_stops_at_its_limit_but_takes_one_record() -> None:
    builder = BatchBuilder(max_size_bytes=200)
    assert builder.append(key=None, value=bytes(500), timestamp_ms=NOW_MS)
    assert not builder.append(key=None, value=b"", timestamp_ms=NOW_MS)
    builder = BatchBuilder(max_size_bytes=200)
    accepted = 0
    while builder.append(key=b"key", value=bytes(20), timestamp_ms=NOW_MS):
        accepted += 1
    assert builder.records_count == accepted > 1
    batch = builder.build()
    assert len(batch) == builder.size_bytes <= 200
    assert validate_produced_batch(batch).records_count == accepted


@given(key=blobs, value=blobs, record_headers=headers, delta=st.integers(-(2**40), 2**40))
def test_size_of_a_record_is_bounded_by_the_estimate(
    key: bytes | None, value: bytes | None, record_headers: Headers, delta: int
) -> None:
    builder = BatchBuilder(base_timestamp_ms=NOW_MS)
    before = builder.size_bytes
    builder.append(key=key, value=value, headers=record_headers, timestamp_ms=NOW_MS + delta)
    assert builder.size_bytes - before <= max_record_size_bytes(key, value, record_headers)


def test_builder_builds_again_under_another_epoch() -> None:
    builder = BatchBuilder(compression=Compression.LZ4)
    builder.append(key=b"k", value=b"v" * 100, timestamp_ms=NOW_MS)
    first = builder.build(producer=STAMP)
    later = dataclasses.replace(STAMP, producer_epoch=ProducerEpoch(8))
    second = builder.build(producer=later, is_transactional=True)
    assert parse_header(first).producer_epoch == 7
    assert parse_header(second).producer_epoch == 8
    assert list(iter_records(first)) == list(iter_records(second))


def test_records_without_timestamp_are_read_back_without() -> None:
    records = [Record(Offset(0), None, b"a", None), Record(Offset(1), NOW_MS, b"b", None)]
    batch = build_batch(records)
    assert parse_header(batch).base_timestamp_ms is None
    assert list(iter_records(batch)) == records
    assert list(as_ours(kafka_python_records.DefaultRecordBatch(batch)))[1].timestamp_ms == NOW_MS


def test_what_does_not_fit_a_batch_is_refused() -> None:
    builder = BatchBuilder()
    with pytest.raises(EncodeError):
        builder.build()
    with pytest.raises(EncodeError):
        builder.append(key=None, value=None, timestamp_ms=0, headers=(("\ud800", None),))
    with pytest.raises(EncodeError):
        builder.append(key=None, value=None, timestamp_ms=0, offset_delta=MAX_INT32 + 1)
    assert builder.append(key=None, value=None, timestamp_ms=-(2**63), offset_delta=5)
    with pytest.raises(EncodeError):
        builder.append(key=None, value=None, timestamp_ms=2**63 - 1)
    with pytest.raises(EncodeError):
        builder.append(key=None, value=None, timestamp_ms=0, offset_delta=5)
    with pytest.raises(EncodeError):
        builder.build(is_transactional=True)
    with pytest.raises(EncodeError):
        builder.build(base_offset=Offset(2**63))


# --- headers and patches ------------------------------------------------------------------------


def test_concatenated_batches_are_told_apart_without_copies() -> None:
    batches = [build_batch(numbered(n, 10 * n), base_offset=Offset(10 * n)) for n in (1, 2, 3)]
    buffer = b"".join(batches)
    found = list(iter_batches(buffer))
    assert [bytes(view) for _, view in found] == batches
    assert all(view.obj is buffer for _, view in found)
    assert [h.last_offset for h, _ in found] == [10, 21, 32]
    assert list(iter_fetched_batches(buffer)) == found
    assert list(iter_batches(b"")) == list(iter_fetched_batches(b"")) == []


def test_fetched_batches_may_end_in_part_of_a_batch() -> None:
    batch = build_batch(numbered(2))
    whole = list(iter_fetched_batches(batch))
    for size in range(len(batch)):
        assert list(iter_fetched_batches(batch + batch[:size])) == whole


@pytest.mark.parametrize("compression", Compression)
def test_assigned_offsets_leave_the_checksum_valid(compression: Compression) -> None:
    batch = bytearray(build_batch(numbered(3), compression=compression))
    assign_offsets(memoryview(batch), base_offset=Offset(2**40), leader_epoch=LeaderEpoch(6))
    header = validate_batch(batch)
    assert (header.base_offset, header.leader_epoch) == (2**40, 6)
    assert [r.offset for r in iter_records(batch)] == [2**40, 2**40 + 1, 2**40 + 2]


@pytest.mark.parametrize("compression", Compression)
def test_log_append_time_replaces_every_timestamp(compression: Compression) -> None:
    batch = bytearray(build_batch(numbered(3), compression=compression))
    set_log_append_time(memoryview(batch), NOW_MS + 1_000_000)
    header = validate_batch(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp_ms == NOW_MS + 1_000_000
    assert {r.timestamp_ms for r in iter_records(batch)} == {NOW_MS + 1_000_000}
    for other in OTHERS:
        assert {r.timestamp for r in other(bytes(batch))} == {NOW_MS + 1_000_000}
    set_max_timestamp(batch, TimestampType.CREATE_TIME, NOW_MS + 2)
    assert bytes(batch) == build_batch(numbered(3), compression=compression)


def test_sequences_wrap_around_after_the_largest() -> None:
    stamp = dataclasses.replace(STAMP, base_sequence=Sequence(MAX_INT32 - 1))
    header = parse_header(build_batch(numbered(3), producer=stamp))
    assert header.last_sequence == 0
    assert parse_header(build_batch(numbered(3))).last_sequence is None


# --- compaction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", Compression)
def test_compacted_batch_keeps_what_the_producer_state_needs(compression: Compression) -> None:
    original = build_batch(
        numbered(4, 100), compression=compression, base_offset=Offset(100), producer=STAMP
    )
    header = parse_header(original)
    kept = [r for r in iter_records(original) if r.offset in (101, 102)]
    compacted = rewrite_batch(header, kept)
    after = validate_batch(compacted)
    assert list(iter_records(compacted)) == kept
    assert (after.base_offset, after.last_offset, after.records_count) == (100, 103, 2)
    assert (after.producer_id, after.base_sequence, after.last_sequence) == (2**40, 99, 102)
    assert (after.base_timestamp_ms, after.max_timestamp_ms) == (NOW_MS + 1, NOW_MS + 2)
    assert after.compression is compression
    for other in OTHERS:
        assert list(as_ours(other(compacted))) == kept


def test_batch_without_records_keeps_its_header() -> None:
    header = parse_header(
        build_batch(
            numbered(3), compression=Compression.ZSTD, producer=STAMP, is_transactional=True
        )
    )
    empty = rewrite_batch(header, [])
    after = validate_batch(empty)
    assert list(iter_records(empty)) == []
    assert (after.last_offset, after.last_sequence, after.records_count) == (2, 101, 0)
    assert (after.base_timestamp_ms, after.max_timestamp_ms) == (None, NOW_MS + 2)
    assert after.is_transactional
    assert after.compression is Compression.NONE


def test_delete_horizon_takes_the_place_of_the_base_timestamp_and_stays() -> None:
    records = numbered(2)
    first = rewrite_batch(
        parse_header(build_batch(records)), records, delete_horizon_ms=NOW_MS + 500
    )
    again = rewrite_batch(validate_batch(first), records[:1])
    for batch, kept in ((first, records), (again, records[:1])):
        assert parse_header(batch).delete_horizon_ms == NOW_MS + 500
        assert list(iter_records(batch)) == kept
    assert parse_header(build_batch(records)).delete_horizon_ms is None


def test_compaction_keeps_the_log_append_time() -> None:
    batch = bytearray(build_batch(numbered(3)))
    set_log_append_time(batch, NOW_MS + 9)
    header = parse_header(batch)
    compacted = rewrite_batch(header, list(iter_records(batch))[:1])
    after = validate_batch(compacted)
    assert after.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [r.timestamp_ms for r in iter_records(compacted)] == [NOW_MS + 9]


def test_errors_carry_the_code_that_kafka_answers() -> None:
    assert MalformedBatchError.code is ErrorCode.INVALID_RECORD
    assert not MalformedBatchError.code.retriable
