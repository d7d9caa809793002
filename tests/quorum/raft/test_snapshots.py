"""Snapshots on disk: whole or not there, and the one before stays until the next is safe."""

import re
from functools import partial

import pytest

from log.filesystem.memory import Crash, CrashNow, Fail, Fault, Kind, MemoryFileSystem, Operation
from quorum.raft import snapshots
from quorum.raft.journal_format import Damaged, LogEntry
from quorum.raft.snapshots import SnapshotStore
from tests.quorum.raft.voters import DIRECTORY, new_disk

STATE = [b"first piece ", b"", b"second piece " * 100]


def base(index: int, term: int = 3) -> tuple[LogEntry, LogEntry]:
    return LogEntry(b"before", index - 1, term - 1), LogEntry(b"last", index, term)


def save(store: SnapshotStore, index: int) -> None:
    store.save(base(index), snapshots.encode(base(index), [b"state at %d" % index, *STATE]))


def store_with(*indexes: int) -> tuple[MemoryFileSystem, SnapshotStore]:
    disk = new_disk()
    store = SnapshotStore(disk, DIRECTORY)
    for index in indexes:
        save(store, index)
    return disk, store


def names(disk: MemoryFileSystem) -> list[str]:
    return [each.name for each in disk.list(DIRECTORY) if not each.name.endswith(".journal")]


def path(index: int) -> str:
    return f"{DIRECTORY}/{index:020d}-{3:010d}.checkpoint"


def loaded(disk: MemoryFileSystem) -> int | None:
    snapshot = SnapshotStore(disk, DIRECTORY).load()
    return snapshot.index if snapshot else None


# ------------------------------------------------------------------------------------- bytes


def test_a_snapshot_comes_back_as_it_was() -> None:
    snapshot = snapshots.decode(b"".join(snapshots.encode(base(9), STATE)))
    assert snapshot.base == base(9)
    assert (snapshot.index, snapshot.term) == (9, 3)
    assert snapshot.state == b"".join(STATE)


def test_the_state_stays_in_its_pieces() -> None:
    """A piece is never joined with others: a state of gigabytes is not copied."""
    pieces = snapshots.encode(base(9), (piece for piece in STATE))
    assert [id(piece) for piece in pieces[1:-1]] == [id(piece) for piece in STATE]


def test_any_changed_byte_is_damage() -> None:
    data = b"".join(snapshots.encode(base(9), [b"state"]))
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        with pytest.raises(Damaged):
            snapshots.decode(bytes(changed))


def test_any_cut_is_damage() -> None:
    data = b"".join(snapshots.encode(base(9), [b"state"]))
    for end in range(len(data)):
        with pytest.raises(Damaged):
            snapshots.decode(data[:end])


# --------------------------------------------------------------------------------- the store


def test_no_snapshot_is_no_error() -> None:
    disk, store = store_with()
    assert store.load() is None
    assert store.oldest_index() == 0
    with pytest.raises(Damaged):
        store.read(5)
    assert names(disk) == []


def test_the_newest_two_are_kept() -> None:
    disk, store = store_with(5, 9, 12, 100)
    assert names(disk) == [path(index).removeprefix(f"{DIRECTORY}/") for index in (12, 100)]
    assert loaded(disk) == 100
    assert store.oldest_index() == 12


def test_with_one_snapshot_the_whole_journal_is_the_second_generation() -> None:
    _, store = store_with(5)
    assert store.oldest_index() == 0


def test_a_file_can_be_read_to_be_sent() -> None:
    _, store = store_with(5, 9)
    assert snapshots.decode(store.read(9)).index == 9
    with pytest.raises(Damaged):
        store.read(7)


def test_a_damaged_snapshot_falls_back_to_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    disk, _ = store_with(5, 9)
    disk.flip_bit(path(9), 40, 3)
    assert loaded(disk) == 5
    assert path(9) in caplog.text


def test_when_both_are_damaged_the_voter_is_told_so() -> None:
    disk, _ = store_with(5, 9)
    for index in (5, 9):
        disk.flip_bit(path(index), 40, 3)
    with pytest.raises(Damaged, match=f"every snapshot in {re.escape(DIRECTORY)} is damaged"):
        loaded(disk)
    assert len(names(disk)) == 2, "the evidence is left as it is"


def test_what_was_not_finished_is_removed() -> None:
    disk, _ = store_with(5)
    disk.open(f"{path(9)}.part", create=True).append(b"half a snapsh")
    assert loaded(disk) == 5
    assert names(disk) == [path(5).removeprefix(f"{DIRECTORY}/")]


def test_a_leftover_is_overwritten_and_not_added_to() -> None:
    disk, store = store_with(5)
    disk.open(f"{path(9)}.part", create=True).append(b"half a snapsh")
    save(store, 9)
    assert loaded(disk) == 9


def crash_at(number: int, done: float, operation: Operation) -> Fault | None:
    return CrashNow(done=done) if operation.number == number else None


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_at_any_operation_leaves_the_newest_that_is_whole(seed: int) -> None:
    """Never a damaged one, and never fewer than there were."""
    number = 0
    while True:
        disk, store = store_with(5, 9)
        disk._random.seed(seed)
        number += 1
        disk.on_operation = partial(crash_at, disk.operations_count + number - 1, 0.6)
        try:
            save(store, 12)
        except Crash:
            disk.on_operation = lambda _: None
            disk.crash()
        else:
            break
        again = SnapshotStore(disk, DIRECTORY)
        snapshot = again.load()
        assert snapshot is not None
        assert snapshot.index in (9, 12)
        assert snapshot.state.startswith(b"state at %d" % snapshot.index)
        assert len(names(disk)) >= 2
        save(again, 20)
        assert loaded(disk) == 20
    assert number > 6


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.APPEND, Kind.SYNC, Kind.RENAME])
def test_an_error_of_the_disk_leaves_the_old_ones(kind: Kind) -> None:
    disk, store = store_with(5, 9)
    disk.on_operation = lambda operation: Fail() if operation.kind is kind else None
    with pytest.raises(OSError, match="nput/output"):
        save(store, 12)
    disk.on_operation = lambda _: None
    assert loaded(disk) == 9
    assert len(names(disk)) == 2
