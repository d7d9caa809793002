"""Deleting from the start of a log: by time, by size, and on request."""

import pytest

from floodmark.invariant import InvariantViolation
from kafka_wire.error_codes import KafkaError
from kafka_wire.types import Offset
from log.config import LogConfig
from log.filesystem.memory import Kind
from log.partition_log import PartitionLog
from tests.log.batches import values_of
from tests.log.logs import (
    append,
    failing,
    fill,
    names,
    new_files,
    no_fault,
    open_at,
    reopen,
)


def configured(
    *, ms: int | None = None, size_bytes: int | None = None, policy: str = "delete"
) -> LogConfig:
    return LogConfig(
        segment_bytes=700,
        index_interval_bytes=80,
        retention_ms=ms,
        retention_bytes=size_bytes,
        cleanup_policy=frozenset(policy.split(",")),
    )


def filled(config: LogConfig, count: int = 30) -> PartitionLog:
    """Record i has timestamp 1000 + i; all are committed."""
    log = open_at(new_files(), config)
    fill(log, count)
    log.set_high_watermark(log.log_end_offset)
    return log


def test_segments_whose_records_are_all_older_go() -> None:
    log = filled(configured(ms=100))
    bases = [segment.base_offset for segment in log.segments]
    third = bases[2]
    assert log.delete_expired(1_000 + third - 1 + 100) == 1
    assert log.log_start_offset == bases[1]
    assert log.delete_expired(1_000 + third + 100) == 1
    assert log.log_start_offset == third
    assert [offset for offset, _ in values_of(log)] == list(range(third, 30))


def test_active_segment_goes_too_once_it_is_too_old() -> None:
    log = filled(configured(ms=100))
    count = len(log.segments)
    assert log.delete_expired(10_000) == count
    assert log.log_start_offset == log.log_end_offset == 30
    assert [segment.base_offset for segment in log.segments] == [30]
    assert log.delete_expired(10_000) == 0
    assert append(log).base_offset == 30
    log.flush()
    assert log.recovery_point == 31


def test_oldest_segments_go_while_the_log_is_too_large() -> None:
    log = filled(configured(size_bytes=1500))
    before = log.segments.size_bytes
    log.delete_expired(0)
    assert 1500 <= log.segments.size_bytes < before
    assert log.segments.size_bytes - log.segments.first.size_bytes < 1500


@pytest.mark.parametrize("config", [configured(), configured(ms=0, size_bytes=0, policy="compact")])
def test_nothing_goes_without_a_limit_or_where_the_policy_is_compact(config: LogConfig) -> None:
    log = filled(config)
    assert log.delete_expired(10**12) == 0
    assert log.log_start_offset == 0


def test_nothing_above_the_high_watermark_goes() -> None:
    log = filled(configured(ms=0))
    log.set_high_watermark(Offset(12))
    log.delete_expired(10**12)
    assert log.log_start_offset <= 12
    assert [offset for offset, _ in values_of(log)] == list(range(log.log_start_offset, 30))


def test_segment_without_timestamps_is_not_too_old() -> None:
    log = open_at(new_files(), configured(ms=0))
    append(log, timestamp_ms=-1)
    log.set_high_watermark(Offset(1))
    assert log.delete_expired(10**12) == 0


def test_one_young_record_keeps_its_segment() -> None:
    log = open_at(new_files(), configured(ms=100))
    append(log, timestamp_ms=9_000)
    fill(log, 20)
    log.set_high_watermark(log.log_end_offset)
    assert log.delete_expired(9_050) == 0
    assert log.delete_expired(9_101) > 0


def test_files_and_snapshots_go_with_their_segments_for_good() -> None:
    files = new_files()
    log = open_at(files, configured(ms=100))
    fill(log, 30)
    log.flush()
    log.set_high_watermark(Offset(30))
    log.delete_expired(1_115)
    first = log.log_start_offset
    assert first > 0
    files.crash()
    assert all(int(name[:20]) >= first for name in names(files) if name[0].isdigit())
    log = open_at(files, configured(ms=100), recovery_point=30)
    assert log.log_start_offset == first
    assert [*log.epochs.entries] == [(0, first)]


def test_deletion_on_request_moves_the_log_start_and_frees_whole_segments() -> None:
    log = filled(configured())
    second, third = [segment.base_offset for segment in log.segments][1:3]
    assert log.advance_log_start(Offset(second - 1)) == 0
    assert log.advance_log_start(Offset(third + 1)) == 2
    assert log.log_start_offset == third + 1
    assert [offset for offset, _ in values_of(log)] == list(range(third + 1, 30))
    assert log.advance_log_start(Offset(1)) == 0
    assert log.log_start_offset == third + 1


def test_deletion_up_to_the_end_leaves_an_empty_log_that_goes_on() -> None:
    files = new_files()
    log = open_at(files, configured())
    fill(log, 10)
    log.set_high_watermark(Offset(10))
    log.advance_log_start(Offset(10))
    assert values_of(log) == []
    log = reopen(files, log)
    assert log.log_start_offset == log.log_end_offset == 10
    assert append(log).base_offset == 10


def test_deletion_of_uncommitted_records_is_ruled_out() -> None:
    log = open_at(new_files())
    fill(log, 3)
    with pytest.raises(InvariantViolation):
        log.advance_log_start(Offset(1))


def test_deletion_under_a_ticket_does_no_harm() -> None:
    log = filled(configured())
    ticket = log.prepare_flush()
    assert ticket is not None
    assert log.advance_log_start(Offset(25)) > 2
    ticket.run()
    assert log.complete_flush(ticket) == 30


def test_deletion_that_fails_takes_the_log_offline() -> None:
    files = new_files()
    log = open_at(files, configured(ms=0))
    fill(log, 30)
    log.flush()
    log.set_high_watermark(Offset(30))
    files.on_operation = failing(Kind.REMOVE)
    with pytest.raises(KafkaError):
        log.delete_expired(10**12)
    files.on_operation = no_fault
    assert log.failure is not None
    assert [offset for offset, _ in values_of(log)] == list(range(log.log_start_offset, 30))
