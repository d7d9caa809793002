"""Finding records by time, against going through all of them."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.compression import Compression
from kafka_wire.records import Record, build_batch
from kafka_wire.types import LeaderEpoch, Offset
from log.filesystem.memory import Kind, Operation
from log.lookup import TimedOffset
from log.partition_log import PartitionLog
from tests.log.logs import (
    NOW_MS,
    SMALL,
    append,
    end_transaction,
    fill,
    new_files,
    open_at,
    produce,
    reopen,
)

TIMES = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), max_size=25)


def append_timed(log: PartitionLog, times: Sequence[int], compression: Compression) -> None:
    records = [Record(Offset(i), time, None, b"." * 30) for i, time in enumerate(times)]
    log.append_as_leader(
        bytearray(build_batch(records, compression=compression)),
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
    )


@settings(max_examples=150, deadline=None)
@given(
    batches=TIMES,
    start=st.floats(0, 1),
    end=st.floats(0, 1),
    compression=st.sampled_from([Compression.NONE, Compression.GZIP]),
    restart=st.booleans(),
)
def test_first_record_not_older_and_newest_record_are_found(
    batches: list[list[int]], start: float, end: float, compression: Compression, restart: bool
) -> None:
    files = new_files()
    log = open_at(files)
    for times in batches:
        append_timed(log, times, compression)
    if restart:
        log = reopen(files, log)
    times = [time for batch in batches for time in batch]
    end_offset = int(end * len(times))
    log.set_high_watermark(Offset(end_offset))
    log.advance_log_start(Offset(int(start * end_offset)))
    seen = [(t, o) for o, t in enumerate(times) if log.log_start_offset <= o < end_offset]
    for wanted in range(42):
        expected = next(((time, offset) for time, offset in seen if time >= wanted), None)
        found = log.offset_at(wanted, end_offset=Offset(end_offset))
        assert (found and found[:2]) == expected
    newest = log.newest_record(end_offset=Offset(end_offset))
    largest = max((time for time, _ in seen), default=None)
    assert (newest and newest[:2]) == next((item for item in seen if item[0] == largest), None)


def test_found_record_has_its_epoch() -> None:
    log = open_at(new_files())
    append(log, b"a", timestamp_ms=5)
    append(log, b"b", epoch=3, timestamp_ms=9)
    found = log.offset_at(6, end_offset=Offset(2))
    assert found == TimedOffset(9, Offset(1), LeaderEpoch(3))


def test_markers_are_not_found() -> None:
    log = open_at(new_files())
    produce(log, 7, 0, is_transactional=True)
    end_transaction(log, 7, commit=True)
    assert log.offset_at(NOW_MS, end_offset=Offset(2)) is None
    newest = log.newest_record(end_offset=Offset(2))
    assert newest is not None
    assert newest.offset == 0


def test_empty_log_has_no_records() -> None:
    log = open_at(new_files())
    assert log.offset_at(0, end_offset=Offset(0)) is None
    assert log.newest_record(end_offset=Offset(0)) is None


@pytest.mark.parametrize("invisible", [0, 5])
def test_newest_record_costs_the_same_in_a_long_log(invisible: int) -> None:
    """Also if the very newest records may not be seen yet, as is usual."""
    costs = []
    for count in (50, 800):
        files = new_files()
        log = open_at(files, SMALL)
        fill(log, count)
        log.write_staged()
        reads: list[Operation] = []
        files.on_operation = lambda o, reads=reads: (  # type: ignore[misc]
            reads.append(o) if o.kind is Kind.READ else None
        )
        newest = log.newest_record(end_offset=Offset(count - invisible))
        assert newest is not None
        assert newest.offset == count - invisible - 1
        costs.append(len(reads))
    assert costs[1] <= 2 * costs[0] + 10
