"""What the files of stock pysyncobj 0.3.17 lose, and that ours do not.

As in `test_stock_bugs`: the harm is asserted of the stock library, and its absence of ours.
"""

import os
import shutil
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from pysyncobj.journal import LAST_RECORD_OFFSET_OFFSET, FileJournal, ResizableFile
from pysyncobj.node import Node

from floodmark.errors import UserError
from log.filesystem.memory import Crash, CrashNow, Fault, MemoryFileSystem, Operation
from quorum.raft.frames import RequestVote
from quorum.raft.journal import Journal
from quorum.raft.journal_format import Damaged, LogEntry
from quorum.raft.ports import Lane
from tests.quorum.raft.clusters import A, B, C
from tests.quorum.raft.lab import Lab, open_lab
from tests.quorum.raft.stock import Message, StockCluster
from tests.quorum.raft.voters import DIRECTORY, Voters, new_disk

# The stock library leaves files open; here that is the least of its bugs.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ENTRIES = 50


@pytest.fixture
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


def command(index: int) -> bytes:
    return b"VALUE%03d" % index + b"." * 40


def stock_journal(path: Path) -> FileJournal:
    """A journal of fifty entries in a file, closed."""
    journal = FileJournal(str(path))
    for index in range(1, ENTRIES + 1):
        journal.add(command(index), index, 1)
    journal._destroy()
    return journal


def our_journal() -> tuple[MemoryFileSystem, str]:
    """A journal of fifty entries that were flushed one by one, and its file."""
    disk = new_disk()
    journal = Journal(disk, DIRECTORY)
    journal.align(())
    for index in range(1, ENTRIES + 1):
        journal.append(LogEntry(command(index), index, 1))
        journal.flush()
    journal.close()
    (entry,) = disk.list(DIRECTORY)
    return disk, f"{DIRECTORY}/{entry.name}"


def overwrite(disk: MemoryFileSystem, path: str, position: int, data: bytes) -> None:
    contents = disk._contents(path)
    contents.data[position : position + len(data)] = data
    contents.safe = bytes(contents.data)


def bytes_of(disk: MemoryFileSystem, path: str) -> bytes:
    return bytes(disk._contents(path).data)


# ------------------------------------------------------------------------- nothing is synced


def test_stock_syncs_nothing_before_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    for name in ("fsync", "fdatasync", "sync"):
        monkeypatch.setattr(os, name, lambda *_, name=name: synced.append(name))
    monkeypatch.setattr(ResizableFile, "flush", lambda _: synced.append("msync"))
    journal = FileJournal(str(tmp_path / "journal"))
    journal.add(b"command", 1, 1)
    journal.setCurrentTerm(7, B)
    journal.setRaftCommitIndex(1)
    journal.onOneSecondTimer()
    assert synced == []
    journal._destroy()


def test_what_was_acknowledged_survives_the_power(lab: Lab) -> None:
    """All voters at once, and whatever their disks had not synced is gone or torn."""
    cluster = lab.ours(A, B, C)
    for number in range(20):
        cluster.put(A, f"k{number}")
    cluster.step(0.3)
    acknowledged = [key for key in cluster.outcomes if cluster.is_acknowledged(key)]
    assert len(acknowledged) == 20
    for voter in cluster.ids:
        cluster.crash(voter)
    for voter in cluster.ids:
        cluster.restart(voter)
    cluster.elect(C, cluster.ids)
    cluster.step(1.0)
    assert all(cluster.applied(voter) == acknowledged for voter in cluster.ids)


def test_no_acknowledgement_leaves_before_its_sync(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.held = {(B, Lane.FLUSH)}
    cluster.put(A, "k")
    cluster.tick(A)
    cluster.deliver(A, B)
    assert cluster.waiting(B, A) == []
    cluster.held = set()
    cluster.work(B)
    assert cluster.waiting(B, A) != []


# ------------------------------------------------------------------------------- damage is noticed


def test_stock_a_flipped_bit_is_applied(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    stock_journal(path)
    data = bytearray(path.read_bytes())
    data[data.index(command(10))] ^= 1
    path.write_bytes(data)
    journal = FileJournal(str(path))
    assert len(journal) == ENTRIES
    assert journal[9][0] != command(10)
    journal._destroy()


def test_a_flipped_bit_stops_the_voter() -> None:
    disk, path = our_journal()
    disk.flip_bit(path, bytes_of(disk, path).index(command(10)), 0)
    with pytest.raises(Damaged, match=rf"{path} is damaged at byte \d+"):
        Journal(disk, DIRECTORY)


def test_stock_a_page_of_zeros_crashes_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    stock_journal(path)
    data = bytearray(path.read_bytes())
    start = data.index(command(20)) & ~511
    data[start : start + 512] = bytes(512)
    path.write_bytes(data)
    with pytest.raises(struct.error):
        FileJournal(str(path))


def test_a_page_of_zeros_in_what_was_synced_is_told() -> None:
    disk, path = our_journal()
    overwrite(disk, path, bytes_of(disk, path).index(command(20)) & ~511, bytes(512))
    with pytest.raises(Damaged, match=path):
        Journal(disk, DIRECTORY)


def test_stock_an_old_first_page_empties_the_log(tmp_path: Path) -> None:
    """The page with the end of the log did not reach the disk, those with the entries did."""
    path = tmp_path / "journal"
    FileJournal(str(path))._destroy()
    old = path.read_bytes()[: LAST_RECORD_OFFSET_OFFSET + 4]
    stock_journal(path)
    path.write_bytes(old + path.read_bytes()[len(old) :])
    journal = FileJournal(str(path))
    assert len(journal) == 0
    journal._destroy()


def test_an_old_first_page_is_told() -> None:
    disk, path = our_journal()
    old = bytes_of(new_disk(), path)
    overwrite(disk, path, 0, old + bytes(512 - len(old)))
    with pytest.raises(Damaged, match=path):
        Journal(disk, DIRECTORY)


# --------------------------------------------------------------------------------- trimming


def test_stock_a_kill_while_it_trims_loses_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    stock_journal(path)
    journal = FileJournal(str(path))

    def die(*_: object) -> None:
        raise Crash("killed")

    monkeypatch.setattr(FileJournal, "add", die)
    with pytest.raises(Crash):
        journal.deleteEntriesTo(10)
    journal._destroy()
    monkeypatch.undo()
    journal = FileJournal(str(path))
    assert len(journal) == 0
    journal._destroy()


@pytest.mark.parametrize("seed", range(10))
def test_a_kill_while_trimming_loses_nothing(seed: int) -> None:
    """At every file operation of a trim and of the flush after it."""
    base = (LogEntry(command(29), 29, 1), LogEntry(command(30), 30, 1))
    operation = 0
    while True:
        disk, _ = our_journal()
        disk._random = Random(seed)
        journal = Journal(disk, DIRECTORY)
        journal.align(())
        disk.on_operation = partial(_crash_at, disk.operations_count + operation)
        try:
            for snapshot_index in (10, 20, 30):
                journal.trim(keep_from=snapshot_index - 1, snapshot_index=snapshot_index)
                journal.set_vote(term=snapshot_index, vote=None)
                journal.flush()
        except Crash:
            disk.on_operation = lambda _: None
            disk.crash()
        else:
            break
        journal = Journal(disk, DIRECTORY)
        journal.align(base)
        assert [entry.index for entry in journal.entries] == list(range(29, ENTRIES + 1))
        operation += 1
    assert operation > 5


def _crash_at(number: int, operation: Operation) -> Fault | None:
    return CrashNow(done=0.5) if operation.number == number else None


# -------------------------------------------------------------------- a snapshot and a kill


def test_stock_a_dump_that_outlives_its_parent_clears_the_journal(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forked child finishes the dump after the parent has acknowledged more, and was killed:
    the files are the dump of then and the journal of now."""
    files = {"journalFile": str(tmp_path / "journal"), "fullDumpFile": str(tmp_path / "dump")}
    cluster = lab.stock(A, **files)
    cluster.put(A, "before")
    cluster.step(0.3)
    cluster.compact(A)
    cluster.tick(A)
    assert (tmp_path / "dump").exists()
    # The parent has not heard of the child's end, so it trims nothing yet.
    monkeypatch.setattr(type(cluster.nodes[A]), "_SyncObj__tryLogCompaction", lambda _: None)
    keys = [f"k{number}" for number in range(ENTRIES)]
    for key in keys:
        cluster.put(A, key)
    cluster.step(2.0)
    assert all(cluster.is_acknowledged(key) for key in keys)
    monkeypatch.undo()
    after = tmp_path / "after"
    after.mkdir()
    for name in ("journal", "journal.meta", "dump"):
        shutil.copy(tmp_path / name, after / name)
    cluster.nodes[A].destroy()
    files = {"journalFile": str(after / "journal"), "fullDumpFile": str(after / "dump")}
    again = lab.stock(A, **files)
    assert again.applied(A) == ["before"]
    again.nodes[A].destroy()


def test_a_snapshot_finished_right_before_a_kill_costs_nothing(lab: Lab) -> None:
    cluster = lab.ours(A)
    cluster.put(A, "before")
    cluster.step(0.3)
    cluster.held = {(A, Lane.SNAPSHOT)}
    cluster.compact(A)
    cluster.tick(A)
    keys = [f"k{number}" for number in range(ENTRIES)]
    for key in keys:
        cluster.put(A, key)
    cluster.step(0.5)
    assert all(cluster.is_acknowledged(key) for key in keys)
    ((_, save, _),) = cluster.lives[A].jobs
    save()
    cluster.crash(A)
    life = cluster.start(A)
    assert life.machine.restored_at
    cluster.elect(A, (A,))
    cluster.step(0.3)
    assert cluster.applied(A) == ["before", *keys]


# --------------------------------------------------------------------------------- double votes


def stock_votes(cluster: StockCluster, candidate: int) -> list[Message]:
    """What a node sends to a candidate that asks for its vote."""
    sent: list[Message] = []
    cluster._transport_of(C).send = lambda _, message: sent.append(message)
    request = {"type": "request_vote", "term": 70, "last_log_index": 99, "last_log_term": 60}
    cluster.nodes[C]._SyncObj__onMessageReceived(Node(candidate), request)
    return [message for message in sent if message["type"] == "response_vote"]


def test_stock_votes_twice_when_its_meta_file_is_lost(tmp_path: Path, lab: Lab) -> None:
    votes: list[Message] = []
    for candidate in (A, B):
        cluster = StockCluster(lab.clock, (C,), journalFile=str(tmp_path / "journal"))
        votes += stock_votes(cluster, candidate)
        cluster.nodes[C].destroy()
        (tmp_path / "journal.meta").write_bytes(b"")
    assert len(votes) == 2


def request() -> RequestVote:
    return RequestVote(term=70, last_index=99, last_term=60, poll=False)


def test_a_vote_that_was_sent_is_never_given_to_another(lab: Lab) -> None:
    """Whenever the power fails while it is written down."""
    crashes = 0
    for operation in range(20):
        cluster = Voters(lab.clock, (A, B, C))
        cluster.connect_all()
        disk = cluster.disks[C]
        disk.on_operation = partial(_crash_at, disk.operations_count + operation)
        given: list[int] = []
        cluster.send = _spy(cluster.send, given)  # type: ignore[method-assign]
        cluster.say(A, C, request())
        disk.on_operation = lambda _: None
        crashes += C not in cluster.lives
        if C in cluster.lives:
            cluster.crash(C)
        cluster.restart(C)
        cluster.say(B, C, request())
        assert len(given) <= 1
        assert given, "nobody ever gets the vote"
    assert crashes >= 2


def _spy(send: Callable[[int, int, bytes], None], given: list[int]) -> Callable[..., None]:
    def spy(sender: int, receiver: int, message: bytes) -> None:
        if b"\xa4vote" in message[:16]:
            given.append(receiver)
        send(sender, receiver, message)

    return spy


def test_a_voter_whose_journal_is_lost_does_not_start(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    disk = cluster.disks[C]
    for entry in disk.list(DIRECTORY):
        disk.remove(f"{DIRECTORY}/{entry.name}")
    with pytest.raises(UserError, match="has lost what it promised"):
        cluster.start(C)
