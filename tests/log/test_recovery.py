"""What a log is after a crash, after damage, and after both."""

import pytest

from kafka_wire.records import BatchHeader, iter_batches
from kafka_wire.types import LeaderEpoch, Offset, ProducerId
from log.config import LogConfig
from log.errors import DamagedLogError
from log.filesystem.memory import Crash, Kind, MemoryFileSystem
from log.partition_log import PartitionLog
from tests.log.batches import values_of
from tests.log.logs import (
    DIRECTORY,
    FIRST,
    SMALL,
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
    read_bytes,
    write_bytes,
)

ONE_SEGMENT = LogConfig(index_interval_bytes=80)
COUNT = 20


def filled(config: LogConfig = ONE_SEGMENT, *, clean: bool = False) -> MemoryFileSystem:
    """A log of twenty synced batches whose owner has died, or has closed it."""
    files = new_files()
    log = open_at(files, config)
    fill(log, COUNT)
    if clean:
        log.close()
    else:
        log.flush()
    return files


def offsets(log: PartitionLog) -> list[int]:
    return [offset for offset, _ in values_of(log)]


def headers_in(data: bytes) -> list[BatchHeader]:
    return [header for header, _ in iter_batches(data)]


def log_names(files: MemoryFileSystem) -> list[str]:
    return [name for name in names(files) if name.endswith(".log")]


# -------------------------------------------------------------------- above the recovery point


def test_torn_tail_is_cut_at_every_byte() -> None:
    data = read_bytes(filled(), f"{FIRST}.log")
    sizes = [header.size_bytes for header in headers_in(data)]
    start, end = sum(sizes[:-2]), len(data)
    for length in range(start, end + 1):
        files = new_files()
        write_bytes(files, f"{FIRST}.log", data[:length])
        log = open_at(files, ONE_SEGMENT)
        whole = COUNT - 2 + (length >= start + sizes[-2]) + (length == end)
        assert log.log_end_offset == whole
        assert len(read_bytes(files, f"{FIRST}.log")) == sum(sizes[:whole])
        assert offsets(log) == list(range(whole))


@pytest.mark.parametrize("tail", [bytes(1), bytes(61), bytes(5000), b"\xff" * 100, b"garbage" * 90])
def test_zeros_and_garbage_at_the_end_are_cut(tail: bytes) -> None:
    files = filled()
    data = read_bytes(files, f"{FIRST}.log")
    write_bytes(files, f"{FIRST}.log", data + tail)
    log = open_at(files, ONE_SEGMENT, recovery_point=COUNT)
    assert log.log_end_offset == COUNT
    assert read_bytes(files, f"{FIRST}.log") == data
    fill(log, 3)
    assert offsets(log) == list(range(COUNT + 3))


def test_sector_of_zeros_in_the_middle_of_the_tail_cuts_what_follows_it() -> None:
    files = filled()
    data = bytearray(read_bytes(files, f"{FIRST}.log"))
    headers = headers_in(bytes(data))
    at = sum(header.size_bytes for header in headers[:7])
    data[at + 5 : at + 300] = bytes(295)
    write_bytes(files, f"{FIRST}.log", bytes(data))
    assert offsets(open_at(files, ONE_SEGMENT, recovery_point=7)) == list(range(7))


def test_bad_batch_cuts_later_segments_too() -> None:
    files = filled(SMALL)
    assert len(log_names(files)) > 3
    files.flip_bit(f"{DIRECTORY}/{log_names(files)[1]}", 70, 0)
    second = int(log_names(files)[1][:20])
    log = open_at(files, SMALL)
    assert log.log_end_offset == second
    assert log_names(files) == [f"{FIRST}.log"]
    fill(log, COUNT)
    assert offsets(log) == list(range(second + COUNT))


def test_what_recovery_found_is_synced_before_it_counts() -> None:
    for seed in range(30):
        files = new_files(seed)
        log = open_at(files)
        fill(log, COUNT)
        log.write_staged()
        log = open_at(files)
        found = log.log_end_offset
        assert log.durable_end_offset == found
        files.crash()
        assert open_at(files, recovery_point=found).log_end_offset == found


def test_crash_at_any_operation_of_recovery_is_survived() -> None:
    for number in range(60):
        files = new_files(number)
        log = open_at(files)
        fill(log, COUNT, epoch=1)
        produce(log, 7, 0, is_transactional=True, epoch=1)
        end_transaction(log, 7, commit=False, epoch=1)
        log.flush()
        synced = log.log_end_offset
        fill(log, 10, epoch=2)
        log.write_staged()
        files.crash()
        files.on_operation = crash_from(files.operations_count + number, done=0.5)
        try:
            open_at(files, recovery_point=10)
        except Crash:
            files.on_operation = no_fault
            files.crash()
        files.on_operation = no_fault
        log = open_at(files, recovery_point=10)
        assert log.log_end_offset >= synced
        assert log.epochs.entries[0] == (1, 0)
        assert [a.first_offset for a in log.aborted_transactions(Offset(0), Offset(99))] == [COUNT]


# -------------------------------------------------------------------- below the recovery point


@pytest.mark.parametrize("position", [0, 5, 9, 14, 16, 17, 23, 35, 62, 100])
def test_damage_below_the_recovery_point_is_told_and_nothing_is_shortened(position: int) -> None:
    files = filled()
    data = read_bytes(files, f"{FIRST}.log")
    bad = 4
    at = sum(header.size_bytes for header in headers_in(data)[:bad])
    files.flip_bit(f"{DIRECTORY}/{FIRST}.log", at + position, 2)
    damaged = read_bytes(files, f"{FIRST}.log")
    for _ in range(2):
        with pytest.raises(DamagedLogError) as caught:
            open_at(files, ONE_SEGMENT, recovery_point=COUNT)
        assert caught.value.path == f"{DIRECTORY}/{FIRST}.log"
        assert caught.value.offset == bad
        assert caught.value.position == at
        assert f"{FIRST}.log" in str(caught.value)
        assert read_bytes(files, f"{FIRST}.log") == damaged
    files.flip_bit(f"{DIRECTORY}/{FIRST}.log", at + position, 2)
    assert offsets(open_at(files, ONE_SEGMENT, recovery_point=COUNT)) == list(range(COUNT))


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("bad", range(20))
@pytest.mark.parametrize("position", [4, 6, 7])
def test_flipped_bit_in_an_offset_is_not_taken_for_a_gap(
    policy: str, bad: int, position: int
) -> None:
    """The checksum does not cover it, and compaction leaves gaps."""
    config = LogConfig(index_interval_bytes=80, cleanup_policy=frozenset({policy}))
    files = filled(config)
    data = read_bytes(files, f"{FIRST}.log")
    at = sum(header.size_bytes for header in headers_in(data)[:bad])
    files.flip_bit(f"{DIRECTORY}/{FIRST}.log", at + position, 5)
    with pytest.raises(DamagedLogError) as caught:
        open_at(files, config, recovery_point=COUNT)
    assert (caught.value.offset, caught.value.position) == (bad, at)
    assert len(read_bytes(files, f"{FIRST}.log")) == len(data)


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("recovery_point", [0, 11, 50, 55, 100, 191])
def test_gaps_of_compaction_stay_whatever_the_policy_is_now(
    policy: str, recovery_point: int
) -> None:
    source = open_at(new_files())
    fill(source, 1)
    part = source.read(Offset(0), max_bytes=1, end_offset=Offset(1))
    assert part is not None
    batch = bytearray(part.read())
    files = new_files()
    config = LogConfig(segment_bytes=700, cleanup_policy=frozenset({policy}))
    log = open_at(files, config)
    for offset in range(0, 200, 10):
        batch[:8] = offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(batch), now_ms=1_000)
    log.flush()
    assert len(log.segments) > 2
    log = open_at(files, config, recovery_point=recovery_point)
    assert offsets(log) == list(range(0, 200, 10))


def test_missing_end_of_what_was_synced_is_told() -> None:
    files = filled()
    data = read_bytes(files, f"{FIRST}.log")
    for length in (0, len(data) - 1, sum(h.size_bytes for h in headers_in(data)[:-1])):
        write_bytes(files, f"{FIRST}.log", data[:length])
        for clean in (False, True):
            with pytest.raises(DamagedLogError) as caught:
                open_at(files, ONE_SEGMENT, clean=clean, recovery_point=COUNT)
            assert caught.value.offset <= COUNT - 1
            assert len(read_bytes(files, f"{FIRST}.log")) == length


def test_missing_segment_below_the_recovery_point_is_told() -> None:
    files = filled(SMALL)
    gone = log_names(files)[1]
    files.remove(f"{DIRECTORY}/{gone}")
    before = log_names(files)
    with pytest.raises(DamagedLogError) as caught:
        open_at(files, SMALL, recovery_point=COUNT)
    assert caught.value.path == f"{DIRECTORY}/{FIRST}.log"
    assert caught.value.offset == int(gone[:20])
    assert log_names(files) == before


def test_shortened_segment_below_the_recovery_point_is_told() -> None:
    files = filled(SMALL)
    name = log_names(files)[1]
    data = read_bytes(files, name)
    write_bytes(files, name, data[: headers_in(data)[0].size_bytes])
    with pytest.raises(DamagedLogError) as caught:
        open_at(files, SMALL, recovery_point=COUNT)
    assert caught.value.path == f"{DIRECTORY}/{name}"
    assert caught.value.offset == int(name[:20]) + 1


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_hole_between_segments_above_the_recovery_point_is_cut(policy: str) -> None:
    files = filled(SMALL)
    gone = int(log_names(files)[2][:20])
    files.remove(f"{DIRECTORY}/{log_names(files)[2]}")
    config = LogConfig(segment_bytes=700, cleanup_policy=frozenset({policy}))
    assert offsets(open_at(files, config, recovery_point=1)) == list(range(gone))


def test_all_segments_missing_is_told() -> None:
    files = filled()
    files.remove(f"{DIRECTORY}/{FIRST}.log")
    with pytest.raises(DamagedLogError):
        open_at(files, ONE_SEGMENT, recovery_point=COUNT)


def test_recovery_point_is_lowered_before_anything_is_cut() -> None:
    lowered: list[int] = []
    for number in range(40):
        files = new_files(number)
        point = [0]

        def lower(offset: Offset, point: list[int] = point) -> None:
            point[0] = min(point[0], offset)
            lowered.append(offset)

        log = open_at(files, before_truncation=lower)
        fill(log, COUNT)
        point[0] = log.flush()
        files.on_operation = crash_from(files.operations_count + number)
        try:
            log.truncate_to(Offset(5))
        except Crash:
            pass
        files.on_operation = no_fault
        files.crash()
        log = open_at(files, recovery_point=point[0])
        assert log.log_end_offset >= 5
        assert offsets(log) == list(range(log.log_end_offset))
    assert set(lowered) == {5}


# ------------------------------------------------------------------------------------ indexes


DAMAGES = {
    "missing": None,
    "empty": lambda data: b"",
    "halved": lambda data: data[: len(data) // 2],
    "short of a byte": lambda data: data[:-1],
    "zero": lambda data: bytes(len(data)),
    "flipped": lambda data: bytes([data[0] ^ 0x40]) + data[1:],
    "flipped at the end": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "garbage": lambda data: b"\x01" * len(data),
    "foreign": lambda data: data[len(data) // 2 :] * 2,
}


def damage(files: MemoryFileSystem, name: str, how: str) -> None:
    change = DAMAGES[how]
    if change is None:
        files.remove(f"{DIRECTORY}/{name}")
    else:
        write_bytes(files, name, change(read_bytes(files, name)))


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("config", [ONE_SEGMENT, SMALL])
def test_damaged_index_is_made_anew(how: str, suffix: str, clean: bool, config: LogConfig) -> None:
    files = filled(config, clean=clean)
    for name in names(files):
        if name.endswith(suffix) and len(read_bytes(files, name)) > 1:
            damage(files, name, how)
    log = open_at(files, config, clean=clean, recovery_point=COUNT)
    for offset in range(COUNT):
        assert values_of(log, Offset(offset))[0][0] == offset
        found = log.offset_at(1_000 + offset, end_offset=log.log_end_offset)
        assert found is not None
        assert found.offset == offset
    newest = log.newest_record(end_offset=log.log_end_offset)
    assert newest is not None
    assert newest.offset == COUNT - 1
    times = [segment.indexes.max_timestamp for segment in log.segments]
    ends = [*[segment.base_offset for segment in log.segments][1:], COUNT]
    assert times == [(1_000 + end - 1, end - 1) for end in ends]


@pytest.mark.parametrize(
    # Kafka's format cannot tell an index that lost whole entries from one that never had them.
    "how",
    [how for how in DAMAGES if how not in ("missing", "empty", "halved")],
)
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_transaction_index_is_made_anew(how: str, clean: bool) -> None:
    files = new_files()
    log = open_at(files)
    expected = []
    for i in range(12):
        first = produce(log, 1 + i % 3, i // 3 * 2, 2, is_transactional=True)
        last = end_transaction(log, 1 + i % 3, commit=i % 2 == 0)
        if i % 2:
            expected.append((first.base_offset, last.base_offset))
    end = log.log_end_offset
    if clean:
        log.close()
    else:
        log.flush()
    for name in names(files):
        if name.endswith(".txnindex") and read_bytes(files, name):
            damage(files, name, how)
    log = open_at(files, clean=clean, recovery_point=end)
    found = [(a.first_offset, a.last_offset) for a in log.aborted_transactions(Offset(0), end)]
    assert found == expected


def test_aborted_transactions_survive_recovery_and_a_clean_restart() -> None:
    for seed in range(30):
        files = new_files(seed)
        log = open_at(files)
        expected = []
        for i in range(8):
            first = produce(log, 1, i * 2, 2, is_transactional=True)
            last = end_transaction(log, 1, commit=False)
            expected.append((first.base_offset, last.base_offset))
        log.write_staged()
        log.flush()
        end = log.log_end_offset
        files.crash()
        for clean in (False, True, False):
            log = open_at(files, clean=clean, recovery_point=0)
            aborted = log.aborted_transactions(Offset(0), end)
            assert [(a.first_offset, a.last_offset) for a in aborted] == expected
            log.close()


def test_snapshot_that_survived_without_its_transaction_index_is_not_believed() -> None:
    files = new_files()
    log = open_at(files)
    produce(log, 1, 0, 2, is_transactional=True)
    end_transaction(log, 1, commit=False)
    log.flush()
    fill(log, 10)
    assert len(log.segments) > 1
    log.write_staged()
    assert read_bytes(files, f"{FIRST}.txnindex")
    write_bytes(files, f"{FIRST}.txnindex", b"")
    log = open_at(files, recovery_point=3)
    assert [a.first_offset for a in log.aborted_transactions(Offset(0), Offset(99))] == [0]


@pytest.mark.parametrize("how", [how for how in DAMAGES if how != "missing"])
def test_damaged_snapshot_is_passed_over(how: str) -> None:
    files = new_files()
    log = open_at(files)
    for sequence in range(10):
        produce(log, 7, sequence)
    log.close()
    for name in names(files):
        if name.endswith(".snapshot"):
            damage(files, name, how)
    log = open_at(files, clean=True, recovery_point=10)
    assert produce(log, 7, 9).is_duplicate
    assert not produce(log, 7, 10).is_duplicate


def test_stale_snapshot_does_not_come_back_after_a_truncation() -> None:
    for seed in range(40):
        files = new_files(seed)
        log = open_at(files)
        for sequence in range(30):
            produce(log, 7, sequence)
        log.flush()
        second = [segment.base_offset for segment in log.segments][1]
        log.truncate_to(Offset(2))
        append(log, *[b"x"] * second)
        assert log.log_end_offset > second
        log.flush()
        files.crash()
        log = open_at(files, recovery_point=log.recovery_point)
        entry = log.producers.entry(ProducerId(7))
        assert entry is not None
        assert entry.batches[-1].last_sequence == 1


# ------------------------------------------------------------------------------------- epochs


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"0\n2\n0 0\n",
        b"0\n1\nx y\n",
        b"9\n0\n",
        b"\0\0\0",
        b"0\n2\n3 5\n2 9\n",
        b"\xff",
    ],
)
def test_damaged_epoch_checkpoint_is_made_anew(data: bytes) -> None:
    for clean in (True, False):
        files = new_files()
        log = open_at(files)
        fill(log, 3)
        fill(log, 9, epoch=2)
        fill(log, 1, epoch=5)
        log.close()
        write_bytes(files, "leader-epoch-checkpoint", data)
        log = open_at(files, clean=clean, recovery_point=13)
        assert log.epochs.entries == ((0, 0), (2, 3), (5, 12))
        assert read_bytes(files, "leader-epoch-checkpoint") == b"0\n3\n0 0\n2 3\n5 12\n"


def test_epochs_of_batches_that_were_cut_do_not_come_back() -> None:
    """The checkpoint still has them when the log has grown over their offsets again."""
    files = new_files()
    log = open_at(files, ONE_SEGMENT)
    fill(log, 10)
    fill(log, 5, epoch=1)
    log.flush()
    log.truncate_to(Offset(5))
    fill(log, 20, epoch=2)
    log.write_staged()
    assert b"1 10" in read_bytes(files, "leader-epoch-checkpoint")
    log = open_at(files, ONE_SEGMENT, recovery_point=5)
    assert log.epochs.entries == ((0, 0), (2, 5))


def test_epoch_that_began_without_a_batch_is_gone_after_a_crash() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 3)
    log.begin_epoch(LeaderEpoch(4))
    assert [*log.epochs.entries] == [(0, 0), (4, 3)]
    log.flush()
    log = open_at(files, recovery_point=3)
    assert [*log.epochs.entries] == [(0, 0)]
    append(log, epoch=2)
    assert [*log.epochs.entries] == [(0, 0), (2, 3)]


# ---------------------------------------------------------------------------------- leftovers


def test_remains_of_unfinished_work_are_removed() -> None:
    files = filled(clean=True)
    leftovers = [
        "leader-epoch-checkpoint.tmp",
        f"{FIRST}.log.cleaned",
        "00000000000000000500.index",
        "00000000000000000500.timeindex",
        "00000000000000000500.txnindex",
        "00000000000000000500.snapshot",
    ]
    for name in leftovers:
        write_bytes(files, name, b"whatever")
    log = open_at(files, ONE_SEGMENT, clean=True, recovery_point=COUNT)
    assert not set(leftovers) & set(names(files))
    assert offsets(log) == list(range(COUNT))


def test_finished_compaction_takes_its_place() -> None:
    files = filled(clean=True)
    data = read_bytes(files, f"{FIRST}.log")
    last = headers_in(data)[-1].size_bytes
    write_bytes(files, f"{FIRST}.log.swap", data[-last:])
    log = open_at(files, ONE_SEGMENT, clean=True, recovery_point=COUNT)
    assert offsets(log) == [COUNT - 1]
    assert not [name for name in names(files) if name.endswith(".swap")]


def test_snapshots_of_clean_stops_do_not_pile_up() -> None:
    files = new_files()
    log = open_at(files, ONE_SEGMENT)
    for sequence in range(10):
        produce(log, 7, sequence)
        log.close()
        log = open_at(files, ONE_SEGMENT, clean=True, recovery_point=sequence + 1)
    assert len([name for name in names(files) if name.endswith(".snapshot")]) <= 2


def test_reading_a_log_that_nobody_wrote_makes_one() -> None:
    files = new_files()
    log = open_at(files, log_start_offset=42)
    assert (log.log_start_offset, log.log_end_offset) == (42, 42)
    assert append(log).base_offset == 42


def test_segment_that_went_away_is_not_made_again_by_a_reader() -> None:
    files = filled(SMALL, clean=True)
    log = open_at(files, SMALL, clean=True, recovery_point=COUNT)
    files.remove(f"{DIRECTORY}/{FIRST}.log")
    with pytest.raises(FileNotFoundError):
        log.read(Offset(0), max_bytes=10, end_offset=log.log_end_offset)
    assert f"{FIRST}.log" not in names(files)


# ------------------------------------------------------------------------------ deleted records


def test_log_start_survives_if_it_was_written_down_or_the_epochs_were() -> None:
    files = new_files()
    log = open_at(files, ONE_SEGMENT)
    fill(log, 10)
    fill(log, 10, epoch=1)
    log.set_high_watermark(Offset(20))
    log.advance_log_start(Offset(15))
    log.flush()
    assert (
        open_at(files, ONE_SEGMENT, recovery_point=20, log_start_offset=15).log_start_offset == 15
    )
    log = open_at(files, ONE_SEGMENT, recovery_point=20, log_start_offset=0)
    assert log.log_start_offset == 15
    assert log.epochs.entries == ((1, 15),)


def test_log_start_is_within_the_log_that_a_crash_left() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 3)
    log.flush()
    log = open_at(files, recovery_point=3, log_start_offset=9)
    assert log.log_start_offset == log.log_end_offset == 3


def test_disk_that_fails_during_recovery_is_an_error_and_cuts_nothing() -> None:
    files = filled()
    data = read_bytes(files, f"{FIRST}.log")
    files.on_operation = failing(Kind.READ)
    with pytest.raises(OSError, match=r"."):
        open_at(files, ONE_SEGMENT)
    files.on_operation = no_fault
    assert read_bytes(files, f"{FIRST}.log") == data
