"""Cutting a log at its end: what goes is gone for good, what stays is whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import Offset
from log.filesystem.memory import Crash, Kind
from log.partition_log import PartitionLog
from tests.log.batches import values_of
from tests.log.logs import (
    DIRECTORY,
    FIRST,
    NOW_MS,
    append,
    crash_from,
    end_transaction,
    failing,
    fill,
    names,
    new_files,
    no_fault,
    open_at,
    produce,
    reopen,
)


def offsets(log: PartitionLog) -> list[int]:
    return [offset for offset, _ in values_of(log)]


@pytest.mark.parametrize("end", range(31))
def test_truncation_leaves_what_lies_before_it(end: int) -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 30)
    log.truncate_to(Offset(end))
    assert log.log_end_offset == end
    assert offsets(log) == list(range(end))
    fill(log, 10, epoch=1)
    assert offsets(log) == list(range(end + 10))
    log = reopen(files, log)
    assert offsets(log) == list(range(end + 10))
    assert log.epochs.end_of(log.epochs.entries[0].epoch, log.log_end_offset) is not None


def test_truncation_behind_the_end_does_nothing() -> None:
    log = open_at(new_files())
    fill(log, 3)
    log.truncate_to(Offset(3))
    log.truncate_to(Offset(100))
    assert log.log_end_offset == 3


def test_batch_is_never_cut_in_two() -> None:
    files = new_files()
    log = open_at(files)
    append(log, b"a", b"b")
    append(log, b"c", b"d", b"e")
    log.flush()
    log.truncate_to(Offset(3))
    assert log.log_end_offset == 2
    assert log.recovery_point == 2
    assert reopen(files, log).log_end_offset == 2


def test_truncation_within_a_gap_ends_the_log_before_the_gap() -> None:
    source = open_at(new_files())
    fill(source, 1)
    part = source.read(Offset(0), max_bytes=1, end_offset=Offset(1))
    assert part is not None
    batch = bytearray(part.read())
    files = new_files()
    points: list[int] = []
    log = open_at(files, before_truncation=points.append)
    for offset in (0, 20, 40):
        batch[:8] = offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(batch), now_ms=NOW_MS)
    log.flush()
    log.truncate_to(Offset(30))
    assert points == [21]
    assert log.log_end_offset == 21
    log.roll()
    fill(log, 3)
    log.flush()
    assert open_at(files, recovery_point=24).log_end_offset == 24


def test_truncation_below_the_log_start_takes_it_along() -> None:
    log = open_at(new_files())
    fill(log, 4)
    log.set_high_watermark(Offset(4))
    log.advance_log_start(Offset(3))
    log.truncate_to(Offset(2))
    assert log.log_start_offset == log.high_watermark == log.log_end_offset == 2


def test_truncation_lowers_high_watermark_recovery_point_and_epochs() -> None:
    log = open_at(new_files())
    fill(log, 10)
    fill(log, 10, epoch=1)
    log.flush()
    log.set_high_watermark(Offset(15))
    log.truncate_to(Offset(8))
    assert (log.high_watermark, log.recovery_point) == (8, 8)
    assert [*log.epochs.entries] == [(0, 0)]


def test_what_was_cut_does_not_come_back() -> None:
    for seed in range(30):
        for end in (0, 3, 7, 12, 17):
            files = new_files(seed)
            log = open_at(files)
            fill(log, 20)
            log.flush()
            log.truncate_to(Offset(end))
            files.crash()
            assert offsets(open_at(files)) == list(range(end))


def test_crash_at_any_operation_of_a_truncation_leaves_a_prefix() -> None:
    for number in range(30):
        files = new_files(number)
        log = open_at(files)
        fill(log, 20)
        log.flush()
        files.on_operation = crash_from(files.operations_count + number)
        try:
            log.truncate_to(Offset(4))
            ended = True
        except Crash:
            ended = False
        files.on_operation = no_fault
        files.crash()
        log = open_at(files, recovery_point=4)
        assert offsets(log) == list(range(log.log_end_offset))
        assert log.log_end_offset >= 4
        assert log.log_end_offset == 4 or not ended


def test_truncation_under_a_ticket_lowers_what_the_ticket_is_worth() -> None:
    log = open_at(new_files())
    fill(log, 20)
    ticket = log.prepare_flush()
    assert ticket is not None
    log.truncate_to(Offset(5))
    fill(log, 10, epoch=1)
    ticket.run()
    assert log.complete_flush(ticket) == 5
    assert log.flush() == 15


def test_old_epochs_that_a_ticket_wrote_late_are_corrected_by_the_next() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 5)
    fill(log, 5, epoch=1)
    ticket = log.prepare_flush()
    assert ticket is not None
    log.truncate_to(Offset(3))
    fill(log, 5, epoch=2)
    ticket.run()
    log.complete_flush(ticket)
    log.flush()
    log = open_at(files, recovery_point=8)
    assert [*log.epochs.entries] == [(0, 0), (2, 3)]


def test_truncating_fully_forgets_records_epochs_and_producers() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 20)
    produce(log, 7, 0)
    log.flush()
    log.truncate_fully_and_start_at(Offset(50))
    assert log.log_start_offset == log.log_end_offset == log.high_watermark == 50
    assert log.epochs.entries == ()
    assert len(log.producers) == 0
    assert [name for name in names(files) if name.endswith(".log")] == [f"{50:020}.log"]
    assert append(log, epoch=3).base_offset == 50
    log.flush()
    log = open_at(files, recovery_point=log.recovery_point, log_start_offset=50)
    assert offsets(log) == [50]
    assert [*log.epochs.entries] == [(3, 50)]


def test_log_goes_on_where_it_was_told_to_after_a_crash() -> None:
    for seed in range(20):
        files = new_files(seed)
        log = open_at(files)
        fill(log, 20)
        log.flush()
        log.truncate_fully_and_start_at(Offset(50))
        files.crash()
        log = open_at(files)
        assert (log.log_start_offset, log.log_end_offset) == (50, 50)
        log.truncate_to(Offset(50))
        fill(log, 2)
        log.flush()
        log.truncate_to(Offset(50))
        files.crash()
        assert open_at(files).log_end_offset == 50


def test_truncating_fully_may_start_lower() -> None:
    files = new_files()
    log = open_at(files, log_start_offset=100)
    fill(log, 3)
    log.flush()
    log.truncate_to(Offset(40))
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)
    fill(log, 2)
    assert offsets(reopen(files, log)) == [40, 41]


def test_truncation_reopens_a_transaction_whose_marker_it_cut() -> None:
    log = open_at(new_files())
    fill(log, 2)
    produce(log, 7, 0, is_transactional=True)
    fill(log, 12)
    marker = end_transaction(log, 7, commit=False)
    log.set_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset
    log.truncate_to(marker.base_offset)
    assert log.last_stable_offset == 2
    assert list(log.aborted_transactions(Offset(0), Offset(99))) == []
    end_transaction(log, 7, commit=True)
    assert list(log.aborted_transactions(Offset(0), Offset(99))) == []


def test_decided_transactions_stay_decided_after_a_truncation() -> None:
    log = open_at(new_files())
    produce(log, 7, 0, is_transactional=True)
    end_transaction(log, 7, commit=True)
    log.set_high_watermark(Offset(2))
    fill(log, 3)
    log.truncate_to(Offset(3))
    assert log.last_stable_offset == 2


@pytest.mark.parametrize("kind", [Kind.TRUNCATE, Kind.REMOVE, Kind.SYNC_DIRECTORY, Kind.SYNC])
def test_truncation_that_fails_takes_the_log_offline(kind: Kind) -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 20)
    log.flush()
    files.on_operation = failing(kind)
    with pytest.raises(KafkaError) as caught:
        log.truncate_to(Offset(3))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
    files.on_operation = no_fault
    assert offsets(open_at(files, recovery_point=3))[:3] == [0, 1, 2]


def test_damage_that_a_truncation_meets_takes_the_log_offline() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 20)
    log.close()
    log = open_at(files, clean=True, recovery_point=20)
    files.flip_bit(f"{DIRECTORY}/{FIRST}.log", 9, 3)
    with pytest.raises(KafkaError) as caught:
        log.truncate_to(Offset(2))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert f"{FIRST}.log" in str(caught.value)
    assert log.failure is not None


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["append", "cut", "roll", "flush", "reopen"]), st.integers(0, 9)),
        max_size=25,
    )
)
def test_log_equals_a_list_under_appends_and_cuts(steps: list[tuple[str, int]]) -> None:
    files = new_files()
    log = open_at(files)
    expected: list[int] = []
    for epoch, (what, number) in enumerate(steps):
        match what:
            case "append":
                fill(log, number, epoch=epoch)
                expected += [epoch] * number
            case "cut":
                end = len(expected) * number // 9
                log.truncate_to(Offset(end))
                del expected[end:]
            case "roll":
                log.roll()
            case "flush":
                log.flush()
            case _:
                log = reopen(files, log)
    assert offsets(log) == list(range(len(expected)))
    assert [log.epochs.epoch_at(Offset(i)) for i in range(len(expected))] == expected
