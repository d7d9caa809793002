"""The journal and its snapshots lose power at every file operation, and are compared with a model.

The model remembers the state after every change. After a crash the files must give the state after
one of the changes since the last one that was durable: nothing older, and nothing that never was.
"""

from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest

from log.filesystem.memory import Crash, CrashNow, Fault, MemoryFileSystem, Operation
from quorum.raft import snapshots
from quorum.raft.journal import Journal, Ticket
from quorum.raft.journal_format import Damaged, LogEntry
from quorum.raft.snapshots import SnapshotStore
from tests.quorum.raft.voters import DIRECTORY, new_disk

SEEDS = range(16)
STEPS = 120
Log = tuple[LogEntry, ...]
Promise = tuple[int, int | None]


@dataclass(slots=True)
class History:
    """The entries and the promise after each position of the journal."""

    logs: dict[int, Log] = field(default_factory=dict)
    promises: dict[int, Promise] = field(default_factory=dict)

    def note(self, journal: Journal, position: int | None = None) -> None:
        place = journal.position if position is None else position
        self.logs[place] = tuple(journal.entries)
        self.promises[place] = (journal.term, journal.vote)


class Driver:
    """Does to a journal what an engine does, by chance."""

    def __init__(self, disk: MemoryFileSystem, random: Random) -> None:
        self.disk = disk
        self.random = random
        self.ticket: Ticket | None = None
        self.open()

    def open(self) -> None:
        self.store = SnapshotStore(self.disk, DIRECTORY)
        self.journal = Journal(self.disk, DIRECTORY)
        self.snapshot = self.store.load()
        self.journal.align(self.snapshot.base if self.snapshot else ())
        self.ticket = None
        self.found: Log = tuple(self.journal.entries)
        """The entries that were there when the journal was opened last."""
        self.history = History()
        for position in range(self.journal.position + 1):
            self.history.note(self.journal, position)

    def step(self) -> None:
        if not self.journal.entries:
            self.append()
            return
        actions = [self.append, self.vote, self.truncate, self.commit, self.flush, self.prepare]
        actions += [self.complete, self.take_snapshot, self.install]
        weights = (8, 2, 2, 3, 3, 3, 3, 2, 0.5)
        (action,) = self.random.choices(actions, weights)
        action()

    @property
    def term(self) -> int:
        """As the engine has it: a snapshot may be safe before the term that it came in is."""
        entries = self.journal.entries
        return max(self.journal.term, entries[-1].term if entries else 0)

    def append(self) -> None:
        journal = self.journal
        if journal.term == 0:
            journal.set_vote(term=1, vote=None)
            self.history.note(journal)
        for _ in range(self.random.randint(1, 4)):
            index = journal.last_index + 1 if journal.entries else 1
            command = self.random.randbytes(self.random.choice((3, 50, 700)))
            journal.append(LogEntry(command, index, self.term))
            self.history.note(journal)

    def vote(self) -> None:
        term = self.term + self.random.randint(0, 2)
        self.journal.set_vote(term=term, vote=self.random.choice((None, 1, 2)))
        self.history.note(self.journal)

    def truncate(self) -> None:
        low = max(self.journal.commit_index, self.journal.first_index) + 1
        if low <= self.journal.last_index:
            self.journal.truncate_from(self.random.randint(low, self.journal.last_index))
            self.history.note(self.journal)

    def commit(self) -> None:
        low = max(self.journal.commit_index, 1)
        self.journal.set_commit_index(self.random.randint(low, max(low, self.journal.last_index)))

    def flush(self) -> None:
        self.complete()
        self.journal.flush()

    def prepare(self) -> None:
        self.ticket = self.journal.prepare_flush() or self.ticket

    def complete(self) -> None:
        if self.ticket is not None:
            self.ticket.run()
            self.journal.complete_flush(self.ticket)
            self.ticket = None

    def take_snapshot(self) -> None:
        journal = self.journal
        last = journal.at(min(journal.commit_index, journal.last_index))
        before = journal.at(last.index - 1) if last else None
        if last and before and (self.snapshot is None or last.index > self.snapshot.index):
            self._save((before, last))
            oldest = self.store.oldest_index()
            journal.trim(keep_from=before.index, snapshot_index=oldest)

    def install(self) -> None:
        """A leader's snapshot, of entries that this log has not."""
        journal = self.journal
        index = journal.last_index + self.random.randint(2, 9)
        term = self.term
        base = (LogEntry(b"b", index - 1, term), LogEntry(b"l", index, term))
        self._save(base)
        journal.reset(base)
        self.history.note(journal)

    def _save(self, base: tuple[LogEntry, LogEntry]) -> None:
        pieces = snapshots.encode(base, [b"state at %d" % base[1].index])
        self.store.save(base, pieces)
        self.snapshot = snapshots.decode(b"".join(pieces))

    # ------------------------------------------------------------------------------- a crash

    def crash(self) -> None:
        """Loses power, opens again, and compares."""
        durable, position = self.journal.durable, self.journal.position
        possible = range(durable, position + 1)
        history, snapshot = self.history, self.snapshot
        commit_index = self.journal.commit_index
        self.disk.crash()
        self._open_after_crash()
        now = self.journal
        assert (now.term, now.vote) in {history.promises[p] for p in possible}
        found = self.snapshot.index if self.snapshot else 0
        assert found >= (snapshot.index if snapshot else 0), "a safe snapshot is gone"
        base = self.snapshot.base if self.snapshot else ()
        expected = {expected_log(history.logs[p], base) for p in possible}
        assert self.found in expected
        assert now.commit_index <= max(commit_index, found)
        assert now.durable_index == (now.last_index if now.entries else 0)

    def _open_after_crash(self) -> None:
        """The power may fail once more while the files are opened."""
        number = self.disk.operations_count + self.random.randint(0, 8)
        self.disk.on_operation = partial(crash_at, number, 0.5)
        try:
            self.open()
        except Crash:
            self.disk.crash()
            self.open()
        self.disk.on_operation = lambda _: None


def expected_log(log: Log, base: tuple[LogEntry, ...]) -> Log:
    """What a log has to be once it goes on from a snapshot."""
    if not base:
        return log
    last = base[-1]
    goes_on = any((each.index, each.term) == (last.index, last.term) for each in log)
    return (*base, *[each for each in log if goes_on and each.index > last.index])


def crash_at(number: int, done: float, operation: Operation) -> Fault | None:
    return CrashNow(done=done) if operation.number == number else None


def run(seed: int, crash_number: int) -> bool:
    """Whether the crash was reached."""
    disk = new_disk(seed + 1000 * crash_number)
    random = Random(seed)
    driver = Driver(disk, random)
    number = disk.operations_count + crash_number
    disk.on_operation = partial(crash_at, number, random.random())
    crashed = False
    for _ in range(STEPS):
        try:
            driver.step()
        except Crash:
            crashed = True
            driver.crash()
    driver.crash()
    driver.journal.flush()
    entries = list(driver.journal.entries)
    driver.open()
    assert driver.journal.entries == entries
    return crashed


def crash_everywhere(seed: int) -> int:
    """How many operations there were to crash at."""
    number = 0
    while run(seed, number):
        number += 1
    return number


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crash_at_any_operation_leaves_what_was_durable(seed: int) -> None:
    assert crash_everywhere(seed) > 30


def test_the_model_notices_a_journal_that_does_not_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ticket, "run", lambda _: None)
    with pytest.raises((AssertionError, Damaged)):
        sum(map(crash_everywhere, SEEDS))


def test_the_model_notices_a_vote_that_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_vote(self: Journal, *, term: int, vote: int | None) -> None:
        self.position += 1
        self.term, self.vote = term, vote

    monkeypatch.setattr(Journal, "set_vote", set_vote)
    with pytest.raises(AssertionError):
        sum(map(crash_everywhere, SEEDS))


def test_the_model_notices_a_file_that_is_removed_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SnapshotStore, "oldest_index", lambda _: 10**9)
    with pytest.raises((AssertionError, Damaged)):
        sum(map(crash_everywhere, SEEDS))
