"""Idempotence and transactions (KIP-98): what the log knows of its producers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.records import iter_records, parse_control_record
from kafka_wire.types import Offset, ProducerId
from log.errors import DamagedFileError
from log.partition_log import PartitionLog
from log.producer_snapshot import decode_snapshot, encode_snapshot
from log.producer_state import ProducerState
from log.replay import replay
from tests.log.logs import (
    end_transaction,
    fill,
    names,
    new_files,
    open_at,
    produce,
    reopen,
)

LAST_SEQUENCE = 2**31 - 1


def refused(code: ErrorCode, call: object) -> None:
    assert callable(call)
    with pytest.raises(KafkaError) as caught:
        call()
    assert caught.value.code is code


# -------------------------------------------------------------------------------- idempotence


def test_duplicates_of_the_last_five_batches_get_their_first_offsets() -> None:
    log = open_at(new_files())
    first = [produce(log, 7, sequence * 2, 2) for sequence in range(7)]
    for number in range(2, 7):
        again = produce(log, 7, number * 2, 2)
        assert again.is_duplicate
        assert (again.base_offset, again.last_offset) == (
            first[number].base_offset,
            first[number].last_offset,
        )
    assert log.log_end_offset == 14
    for number in range(2):
        refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda n=number: produce(log, 7, n * 2, 2))


def test_gap_in_the_sequence_is_refused() -> None:
    log = open_at(new_files())
    produce(log, 7, 0, 3)
    for sequence in (1, 2, 4, 100):
        refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda s=sequence: produce(log, 7, s))
    assert not produce(log, 7, 3).is_duplicate
    assert not produce(log, 8, 55).is_duplicate, "of a producer that was forgotten"


def test_batch_of_other_length_is_no_duplicate() -> None:
    log = open_at(new_files())
    produce(log, 7, 0, 3)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda: produce(log, 7, 0, 2))


def test_new_epoch_begins_with_sequence_zero_and_fences_the_old() -> None:
    log = open_at(new_files())
    produce(log, 7, 0)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda: produce(log, 7, 1, producer_epoch=1))
    assert not produce(log, 7, 0, producer_epoch=1).is_duplicate
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, lambda: produce(log, 7, 1))
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, lambda: produce(log, 7, 0))


def test_sequences_go_on_with_zero_after_the_largest() -> None:
    log = open_at(new_files())
    produce(log, 7, LAST_SEQUENCE - 1, 2)
    assert not produce(log, 7, 0).is_duplicate
    assert produce(log, 7, LAST_SEQUENCE - 1, 2).is_duplicate
    log = open_at(new_files())
    produce(log, 7, LAST_SEQUENCE, 3)
    assert produce(log, 7, LAST_SEQUENCE, 3).is_duplicate
    assert not produce(log, 7, 2).is_duplicate
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda: produce(log, 7, 0))


def test_silent_producers_are_forgotten_but_not_those_in_a_transaction() -> None:
    log = open_at(new_files())
    produce(log, 7, 0)
    produce(log, 8, 0, is_transactional=True)
    assert log.producers.expire(before_ms=1_000) == 0
    assert log.producers.expire(before_ms=1_001) == 1
    assert log.producers.entry(ProducerId(7)) is None
    assert log.producers.entry(ProducerId(8)) is not None


# ------------------------------------------------------------------------------- transactions


def test_open_transaction_holds_readers_of_committed_records_back() -> None:
    log = open_at(new_files())
    fill(log, 2)
    produce(log, 7, 0, is_transactional=True)
    produce(log, 7, 1, is_transactional=True)
    fill(log, 2)
    log.set_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 2
    end_transaction(log, 7, commit=True)
    assert log.last_stable_offset == 2, "the marker may yet be lost"
    log.set_high_watermark(Offset(6))
    assert log.last_stable_offset == 2
    log.set_high_watermark(Offset(7))
    assert log.last_stable_offset == 7


def test_earliest_of_several_transactions_counts() -> None:
    log = open_at(new_files())
    for producer_id in (1, 2, 3):
        produce(log, producer_id, 0, is_transactional=True)
    log.set_high_watermark(log.log_end_offset)
    stable = []
    for producer_id in (2, 1, 3):
        end_transaction(log, producer_id, commit=True)
        log.set_high_watermark(log.log_end_offset)
        stable.append(log.last_stable_offset)
    assert stable == [0, 2, 6]


def test_last_stable_offset_is_not_above_the_high_watermark() -> None:
    log = open_at(new_files())
    fill(log, 3)
    log.set_high_watermark(Offset(1))
    assert log.last_stable_offset == 1


def test_aborted_transactions_are_told_to_those_who_read_in_them() -> None:
    log = open_at(new_files())
    produce(log, 1, 0, is_transactional=True)  # 0, aborted at 3
    produce(log, 2, 0, is_transactional=True)  # 1, committed at 4
    produce(log, 3, 0, is_transactional=True)  # 2, aborted at 25
    end_transaction(log, 1, commit=False)
    end_transaction(log, 2, commit=True)
    fill(log, 20)
    end_transaction(log, 3, commit=False)
    assert len(log.segments) > 2

    def told(start: int, end: int) -> list[tuple[int, int, int]]:
        found = log.aborted_transactions(Offset(start), Offset(end))
        return [(a.producer_id, a.first_offset, a.last_offset) for a in found]

    assert told(0, 26) == [(1, 0, 3), (3, 2, 25)]
    assert told(0, 2) == [(1, 0, 3)]
    assert told(4, 26) == [(3, 2, 25)]
    assert told(20, 22) == [(3, 2, 25)]
    assert told(26, 30) == []


def test_writing_outside_of_an_open_transaction_is_refused() -> None:
    log = open_at(new_files())
    produce(log, 7, 0, is_transactional=True)
    refused(ErrorCode.INVALID_TXN_STATE, lambda: produce(log, 7, 1))


def test_marker_of_a_fenced_producer_or_a_deposed_coordinator_is_refused() -> None:
    log = open_at(new_files())
    produce(log, 7, 0, producer_epoch=2, is_transactional=True)
    refused(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        lambda: end_transaction(log, 7, commit=True, producer_epoch=1),
    )
    end_transaction(log, 7, commit=False, producer_epoch=3, coordinator_epoch=5)
    refused(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        lambda: end_transaction(log, 7, commit=True, producer_epoch=3, coordinator_epoch=4),
    )
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, lambda: produce(log, 7, 1, producer_epoch=2))
    end_transaction(log, 7, commit=False, producer_epoch=3, coordinator_epoch=5)
    assert len(list(log.aborted_transactions(Offset(0), Offset(9)))) == 1
    assert not produce(log, 7, 0, producer_epoch=3, is_transactional=True).is_duplicate


def test_marker_without_a_transaction_ends_nothing() -> None:
    log = open_at(new_files())
    end_transaction(log, 7, commit=False)
    assert list(log.aborted_transactions(Offset(0), Offset(9))) == []
    log.set_high_watermark(Offset(1))
    assert log.last_stable_offset == 1


# ---------------------------------------------------------------------- snapshots and rebuilding


def known(producers: ProducerState, *, batches_count: int = 5) -> object:
    """What the state amounts to, comparable; a snapshot keeps only the last batch of each."""
    return (
        sorted(
            (
                entry.producer_id,
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_timestamp_ms,
                entry.transaction_first_offset,
                [
                    (b.first_sequence, b.last_sequence, b.first_offset, b.last_offset)
                    for b in list(entry.batches)[-batches_count:]
                ],
            )
            for entry in producers.entries()
        ),
        producers.first_open_offset,
    )


def from_scratch(log: PartitionLog) -> ProducerState:
    producers = ProducerState()
    for segment in log.segments:
        for _, header, batch in segment.batches():
            if header.producer_id is not None:
                replay(producers, None, header, batch)
    return producers


@pytest.mark.parametrize("suffix", [b"x", b""])
def test_damaged_snapshot_is_refused(suffix: bytes) -> None:
    log = open_at(new_files())
    produce(log, 7, 0)
    data = encode_snapshot(log.producers)
    bad = [data[:-1], data[:3], b"", b"\0\2" + data[2:], data[:20] + b"!" + data[21:], data + b"x"]
    for broken in bad:
        with pytest.raises(DamagedFileError, match="path"):
            decode_snapshot(broken + suffix, "path")


def test_restart_knows_the_last_batch_of_each_producer() -> None:
    files = new_files()
    log = open_at(files)
    for sequence in range(30):
        produce(log, 7, sequence)
    produce(log, 8, LAST_SEQUENCE, 3)
    log = reopen(files, log)
    assert produce(log, 7, 29).base_offset == 29
    again = produce(log, 8, LAST_SEQUENCE, 3)
    assert (again.is_duplicate, again.base_offset) == (True, 30)
    assert not produce(log, 8, 2).is_duplicate
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda: produce(log, 7, 31))


def test_snapshots_are_written_where_segments_begin() -> None:
    files = new_files()
    log = open_at(files)
    for sequence in range(30):
        produce(log, 7, sequence)
    bases = {f"{segment.base_offset:020}.snapshot" for segment in log.segments} - {
        f"{0:020}.snapshot"
    }
    assert {name for name in names(files) if name.endswith(".snapshot")} == bases


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "transactional", "commit", "abort", "fill", "bump"]),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
    max_size=40,
)


def act(log: PartitionLog, what: str, producer_id: int, count: int) -> None:
    """Something that the log may refuse; then nothing has happened."""
    entry = log.producers.entry(ProducerId(producer_id))
    epoch = 0 if entry is None else entry.producer_epoch
    batches = None if entry is None else entry.batches
    sequence = batches[-1].last_sequence + 1 if batches else 0
    try:
        match what:
            case "fill":
                fill(log, count)
            case "plain" | "transactional":
                is_transactional = what == "transactional"
                produce(
                    log,
                    producer_id,
                    sequence,
                    count,
                    producer_epoch=epoch,
                    is_transactional=is_transactional,
                )
            case "bump":
                end_transaction(log, producer_id, commit=False, producer_epoch=epoch + 1)
            case _:
                end_transaction(log, producer_id, commit=what == "commit", producer_epoch=epoch)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_TXN_STATE  # noqa: PT017 - one of several outcomes


@settings(max_examples=120, deadline=None)
@given(actions=ACTIONS, cut=st.floats(0, 1), how=st.sampled_from(["close", "crash", "cut"]))
def test_state_after_restart_recovery_or_truncation_is_that_of_a_replay(
    actions: list[tuple[str, int, int]], cut: float, how: str
) -> None:
    files = new_files()
    log = open_at(files)
    for action in actions:
        act(log, *action)
    assert known(log.producers) == known(from_scratch(log))
    before = aborted(log)
    match how:
        case "close":
            log = reopen(files, log)
        case "crash":
            point = int(log.log_end_offset * cut)
            log.flush()
            files.crash()
            log = open_at(files, recovery_point=point)
        case _:
            log.truncate_to(Offset(int(log.log_end_offset * cut)))
    assert known(log.producers, batches_count=1) == known(from_scratch(log), batches_count=1)
    assert aborted(log) == [item for item in before if item[2] < log.log_end_offset]
    log = reopen(files, log)
    assert aborted(log) == [item for item in before if item[2] < log.log_end_offset]
    state = decode_snapshot(encode_snapshot(log.producers), "path")
    assert known(state, batches_count=1) == known(log.producers, batches_count=1)


def aborted(log: PartitionLog) -> list[tuple[int, int, int, int]]:
    found = log.aborted_transactions(Offset(0), Offset(2**40))
    return [(a.producer_id, a.first_offset, a.last_offset, a.last_stable_offset) for a in found]


def aborted_by_reading(log: PartitionLog) -> list[tuple[int, int, int]]:
    """The aborted transactions of a log, by going through all of it."""
    began: dict[int, int] = {}
    found: list[tuple[int, int, int]] = []
    for segment in log.segments:
        for _, header, batch in segment.batches():
            if header.producer_id is None or not header.is_transactional:
                continue
            if not header.is_control:
                began.setdefault(header.producer_id, header.base_offset)
                continue
            first = began.pop(header.producer_id, None)
            marker = parse_control_record(next(iter(iter_records(batch))))
            if first is not None and marker is not None and not marker.is_commit:
                found.append((header.producer_id, first, header.base_offset))
    return found


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    lives=st.lists(
        st.tuples(ACTIONS, st.sampled_from(["crash", "close", "cut"]), st.floats(0, 1)),
        min_size=1,
        max_size=4,
    ),
)
def test_producers_and_aborted_transactions_survive_many_crashes(
    seed: int, lives: list[tuple[list[tuple[str, int, int]], str, float]]
) -> None:
    """Whatever is lost: what is known afterwards is what the batches on disk tell."""
    files = new_files(seed)
    point = [0]

    def lower(offset: Offset) -> None:
        point[0] = min(point[0], offset)

    log = open_at(files, before_truncation=lower)
    for actions, end, share in lives:
        for number, action in enumerate(actions):
            act(log, *action)
            if number % 7 == 6:
                log.flush()
            if number % 11 == 10:
                point[0] = log.recovery_point
        if end == "cut":
            log.truncate_to(Offset(int(log.log_end_offset * share)))
        clean = end == "close"
        if clean:
            log.close()
            point[0] = log.recovery_point
        else:
            log.write_staged()
            files.crash()
        log = open_at(files, clean=clean, recovery_point=point[0], before_truncation=lower)
        assert known(log.producers, batches_count=1) == known(from_scratch(log), batches_count=1)
        assert [item[:3] for item in aborted(log)] == aborted_by_reading(log)
