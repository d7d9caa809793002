"""Compaction keeps the last value of each key, whatever happens while it works."""

import random
from collections.abc import Iterable, Iterator

import pytest

from kafka_wire.records import (
    BatchHeader,
    EndTransactionMarker,
    ProducerStamp,
    Record,
    build_batch,
    build_end_transaction_marker,
    iter_batches,
    iter_records,
)
from kafka_wire.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence
from log.compaction import finish, plan
from log.config import LogConfig
from log.filesystem.memory import MUTATIONS, Crash, CrashNow, Fault, MemoryFileSystem, Operation
from log.partition_log import Appended, Origin, PartitionLog
from tests.log.batches import records_of
from tests.log.logs import new_files, open_at

DELETE_RETENTION_MS = 1_000
COMPACTED = LogConfig(
    segment_bytes=700,
    index_interval_bytes=80,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=DELETE_RETENTION_MS,
)
EPOCH = LeaderEpoch(0)
NOW_MS = 10_000
START = Offset(0)


def append(
    log: PartitionLog,
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    *,
    now_ms: int = NOW_MS,
    producer: ProducerStamp | None = None,
    is_transactional: bool = False,
) -> Appended:
    records = [Record(Offset(i), now_ms, key, value) for i, (key, value) in enumerate(pairs)]
    batch = build_batch(records, producer=producer, is_transactional=is_transactional)
    return log.append_as_leader(bytearray(batch), leader_epoch=EPOCH, now_ms=now_ms)


def seal(log: PartitionLog) -> None:
    """Everything so far is committed, and lies in segments that may be compacted."""
    log.roll()
    log.flush()
    log.set_high_watermark(log.log_end_offset)


def compact(
    files: MemoryFileSystem, log: PartitionLog, *, dirty: Offset = START, now_ms: int = NOW_MS
) -> Offset:
    compaction = plan(files, log, first_dirty_offset=dirty, now_ms=now_ms)
    assert compaction is not None
    compaction.run()
    finish(files, log, compaction)
    return compaction.end_offset


def batches_of(log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    offset = log.log_start_offset
    while (part := log.read(offset, max_bytes=500, end_offset=log.log_end_offset)) is not None:
        for header, batch in iter_batches(part.read()):
            yield header, batch
            offset = header.next_offset


def pairs_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record that is not a marker."""
    return [
        (record.offset, record.key, record.value)
        for header, batch in batches_of(log)
        if not header.is_control
        for record in iter_records(batch)
    ]


def test_last_value_of_each_key_stays_at_its_offset() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    for i in range(30):
        append(log, [(b"k%d" % (i % 3), b"v%d" % i)])
    seal(log)
    compact(files, log)
    assert pairs_of(log) == [(27, b"k0", b"v27"), (28, b"k1", b"v28"), (29, b"k2", b"v29")]
    assert log.log_end_offset == 30


def test_records_without_a_key_go() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    append(log, [(None, b"x"), (b"k", b"v")])
    seal(log)
    compact(files, log)
    assert pairs_of(log) == [(1, b"k", b"v")]


def test_tombstone_stays_for_its_retention_and_then_goes() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    append(log, [(b"k", b"v")])
    append(log, [(b"k", None)])
    append(log, [(b"other", b"v")])
    seal(log)
    dirty = compact(files, log)
    assert pairs_of(log) == [(1, b"k", None), (2, b"other", b"v")]
    append(log, [(b"new", b"v")])
    seal(log)
    dirty = compact(files, log, dirty=dirty, now_ms=NOW_MS + DELETE_RETENTION_MS - 1)
    assert (1, b"k", None) in pairs_of(log)
    append(log, [(b"newer", b"v")])
    seal(log)
    compact(files, log, dirty=dirty, now_ms=NOW_MS + DELETE_RETENTION_MS)
    assert [key for _, key, _ in pairs_of(log)] == [b"other", b"new", b"newer"]


def test_young_records_are_left_alone() -> None:
    files = new_files()
    config = LogConfig(
        segment_bytes=700,
        cleanup_policy=frozenset({"compact"}),
        min_compaction_lag_ms=5_000,
    )
    log = open_at(files, config)
    append(log, [(b"k", b"1")], now_ms=NOW_MS)
    append(log, [(b"k", b"2")], now_ms=NOW_MS)
    seal(log)
    assert plan(files, log, first_dirty_offset=START, now_ms=NOW_MS + 4_000) is None
    assert plan(files, log, first_dirty_offset=START, now_ms=NOW_MS + 6_000) is not None


def test_nothing_above_the_high_watermark_is_compacted() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    append(log, [(b"k", b"1")])
    log.roll()
    append(log, [(b"k", b"2")])
    log.roll()
    log.flush()
    log.set_high_watermark(Offset(1))
    compact(files, log)
    assert pairs_of(log) == [(0, b"k", b"1"), (1, b"k", b"2")]


def transactional(sequence: int) -> ProducerStamp:
    return ProducerStamp(
        producer_id=ProducerId(9),
        producer_epoch=ProducerEpoch(0),
        base_sequence=Sequence(sequence),
    )


def end_transaction(log: PartitionLog, *, commit: bool) -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=commit, coordinator_epoch=1),
        producer_id=ProducerId(9),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS,
    )
    log.append_as_leader(
        bytearray(marker), leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.COORDINATOR
    )


def test_aborted_records_go_and_do_not_hide_older_values() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    append(log, [(b"k", b"committed")])
    append(log, [(b"k", b"aborted")], producer=transactional(0), is_transactional=True)
    end_transaction(log, commit=False)
    append(log, [(b"other", b"v")])
    seal(log)
    compact(files, log)
    assert pairs_of(log) == [(0, b"k", b"committed"), (3, b"other", b"v")]


def test_marker_stays_while_records_of_its_transaction_stay() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    append(log, [(b"k", b"v")], producer=transactional(0), is_transactional=True)
    end_transaction(log, commit=True)
    append(log, [(b"z", b"v")])
    seal(log)
    dirty = compact(files, log)
    assert [header.is_control for header, _ in batches_of(log)] == [False, True, False]
    append(log, [(b"k", b"newer")])
    seal(log)
    dirty = compact(files, log, dirty=dirty, now_ms=NOW_MS)
    append(log, [(b"z", b"newer")])
    seal(log)
    compact(files, log, dirty=dirty, now_ms=NOW_MS + DELETE_RETENTION_MS)
    assert not any(header.is_control for header, _ in batches_of(log))


def test_open_transaction_holds_compaction_back() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    append(log, [(b"k", b"1")], producer=transactional(0), is_transactional=True)
    log.roll()
    append(log, [(b"k", b"2")])
    seal(log)
    assert plan(files, log, first_dirty_offset=START, now_ms=NOW_MS) is None


def test_duplicates_are_recognised_after_their_records_went() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    first = append(log, [(b"k", b"1")], producer=transactional(0))
    for i in range(10):
        append(log, [(b"k", b"x%d" % i)])
    seal(log)
    compact(files, log)
    log.close()
    log = open_at(files, COMPACTED, recovery_point=log.recovery_point)
    again = append(log, [(b"k", b"1")], producer=transactional(0))
    assert again.is_duplicate
    assert again.base_offset == first.base_offset


def test_reader_of_an_old_segment_may_finish() -> None:
    files = new_files()
    log = open_at(files, COMPACTED)
    for i in range(20):
        append(log, [(b"k", b"v%d" % i)])
    seal(log)
    part = log.read(Offset(0), max_bytes=300, end_offset=log.log_end_offset)
    assert part is not None
    compact(files, log)
    found = [
        record.value for _, batch in iter_batches(part.read()) for record in iter_records(batch)
    ]
    assert found[:2] == [b"v0", b"v1"]


@pytest.mark.parametrize("seed", range(120))
def test_last_values_survive_a_crash_at_any_step(seed: int) -> None:
    draw = random.Random(seed)
    files = new_files(seed)
    log = open_at(files, COMPACTED)
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    dirty, now_ms = START, NOW_MS
    for round_number in range(4):
        for i in range(30):
            pairs: list[tuple[bytes | None, bytes | None]] = []
            for j in range(draw.randint(1, 3)):
                key = b"k%d" % draw.randint(0, 8)
                value = None if draw.random() < 0.2 else b"%d-%d-%d" % (round_number, i, j)
                latest[key] = (log.log_end_offset + j, value)
                pairs.append((key, value))
            append(log, pairs, now_ms=now_ms)
        seal(log)
        now_ms += 700
        end = log.log_end_offset
        crash_at = files.operations_count + draw.randint(0, 45)

        def power_fails(operation: Operation, at: int = crash_at) -> Fault | None:
            if operation.number >= at and operation.kind in MUTATIONS:
                return CrashNow(done=draw.random())
            return None

        files.on_operation = power_fails
        try:
            dirty = compact(files, log, dirty=dirty, now_ms=now_ms)
            files.on_operation = lambda _: None
        except Crash:
            files.on_operation = lambda _: None
            files.crash()
            log = open_at(files, COMPACTED, recovery_point=end)
            log.set_high_watermark(log.log_end_offset)
        assert log.log_end_offset == end
        found = {record.key: (record.offset, record.value) for record in records_of(log)}
        for key, (offset, value) in latest.items():
            if value is None:
                assert found.get(key) in (None, (offset, None))
            else:
                assert found.get(key) == (offset, value)
