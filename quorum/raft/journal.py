"""A voter's memory: its entries, its term and its vote, in files that survive any crash.

The journal is a write-ahead log of what happened to the log (`journal_format`). Changes take
effect in memory at once and gather in a buffer; a flush writes the buffer and syncs it. One sync
covers everything that many proposals changed before. Flushing is a ticket, as in `log.flush`:
prepared here, run by anybody, completed here; one at a time.

    position    grows with every change
    durable     everything up to this position is on disk

Files are numbered. A new one is begun when a snapshot makes old entries superfluous (and starts
with the term and the vote, so that nothing depends on older files); a file is removed once a
snapshot covers all of its entries and the next file is on disk. Since a file gets its first bytes
only when everything before them is synced, only the last one can have a torn tail.

Invariants: indexes have no gap; terms and the commit index never go back; nothing at or below the
commit index is ever truncated.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from floodmark.errors import UserError
from floodmark.invariant import invariant
from log.filesystem import File, FileSystem
from log.flush import read_file
from quorum.raft import journal_format as fmt
from quorum.raft.journal_format import Damaged, Kind, LogEntry

SUFFIX = ".journal"
_NAME = re.compile(rf"[0-9]{{20}}{re.escape(SUFFIX)}")

logger = logging.getLogger(__name__)


def create(filesystem: FileSystem, directory: str) -> None:
    """Makes the empty journal of a voter that has never voted."""
    file = filesystem.open(_path(directory, 0), create=True)
    try:
        file.append(
            fmt.encode(Kind.VOTE, fmt.vote_body(term=0, vote=None, commit_index=0), synced=0)
        )
        file.sync()
    finally:
        file.close()
    filesystem.sync_directory(directory)


def exists(filesystem: FileSystem, directory: str) -> bool:
    return bool(_numbers(filesystem, directory))


class Ticket:
    """What has to be synced before the journal is safe up to a position."""

    __slots__ = ("_directory", "_file", "_filesystem", "_is_new", "last_index", "position")

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        file: File,
        *,
        is_new: bool,
        position: int,
        last_index: int,
    ) -> None:
        self.position = position
        self.last_index = last_index
        """Lowered by a truncation that happens meanwhile."""
        self._filesystem = filesystem
        self._directory = directory
        self._file = file
        self._is_new = is_new

    def run(self) -> None:
        """Syncs. May run in any thread; an `OSError` means that this voter must stop."""
        self._file.sync()
        if self._is_new:
            self._filesystem.sync_directory(self._directory)


class Journal:
    """The entries from the newest snapshot's last two on, the term and the vote."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        """Reads what is there; `align` must follow before anything else."""
        self.entries: list[LogEntry] = []
        self.term = 0
        self.vote: int | None = None
        self.commit_index = 0
        self.position = 0
        self.durable = 0
        self.durable_index = 0
        """Every entry up to this index is on disk."""
        self._filesystem = filesystem
        self._directory = directory
        self._buffer: list[tuple[Kind, bytes]] = []
        self._ticket: Ticket | None = None
        self._begin_file = False
        self._files: dict[int, _FileFacts] = {}
        self._number = 0
        self._safe_number = 0
        """Files before this one are not needed to know the term and the vote."""
        self._reset_at = 0
        self._file = self._load()

    # ------------------------------------------------------------------------------- opening

    def _load(self) -> File:
        numbers = _numbers(self._filesystem, self._directory)
        if not numbers:
            raise UserError(
                f"{self._directory} has no journal: this voter has lost what it promised",
                "put its disk back, or see `floodmark quorum recover --help`",
            )
        if numbers != list(range(numbers[0], numbers[-1] + 1)):
            raise Damaged(
                f"{self._directory} lacks a journal between {numbers[0]} and {numbers[-1]}"
            )
        end = 0
        for number in numbers:
            self._number = number
            self._files[number] = _FileFacts()
            path = _path(self._directory, number)
            data = read_file(self._filesystem, path)
            end = 0
            for record in fmt.read_records(data, path=path, is_last=number == numbers[-1]):
                self._replay(record, path)
                end = record.end
            self._files[number].size_bytes = end
        path = _path(self._directory, self._number)
        file = self._filesystem.open(path)
        if file.size_bytes > end:
            torn = file.size_bytes - end
            logger.warning("cutting %d bytes that a crash has torn off %s", torn, path)
            file.truncate(end)
        # What was found must be safe before anything is built on it: it may be the unsynced rest
        # of a life before, which the next crash could still take away.
        file.sync()
        self._filesystem.sync_directory(self._directory)
        self._begin_file = end == 0
        self._safe_number = self._number if end else self._number - 1
        return file

    def _replay(self, record: fmt.Record, path: str) -> None:
        match record.kind:
            case Kind.VOTE:
                self.term, self.vote, self.commit_index = fmt.read_vote(record.body)
            case Kind.ENTRY:
                entry = fmt.read_entry(record.body)
                last = self.last_index if self.entries else self._reset_at
                if last and entry.index != last + 1:
                    raise Damaged(f"{path} goes from index {last} to {entry.index}")
                self.entries.append(entry)
                self._note_index(entry.index)
            case Kind.TRUNCATE:
                self._cut(fmt.read_index(record.body))
            case Kind.RESET:
                self.entries.clear()
                self._reset_at = fmt.read_index(record.body)

    def align(self, base: Sequence[LogEntry]) -> None:
        """Makes the entries go on from a snapshot, whose last two entries are `base`.

        Without a snapshot `base` is empty, and the log has to begin at its beginning.
        """
        if not base:
            if self._reset_at or (self.entries and self.entries[0].index != 1):
                raise Damaged(
                    f"{self._directory} has lost the snapshot that its journal goes on from"
                )
        else:
            last = base[-1]
            if last.index < self._reset_at:
                raise Damaged(f"{self._directory} has lost the snapshot at index {self._reset_at}")
            first = self.entries[0].index if self.entries else self._reset_at + 1
            if self.entries and first > last.index + 1:
                raise Damaged(
                    f"the journal of {self._directory} begins at index {first}, and its newest "
                    f"snapshot ends at {last.index}"
                )
            mine = self.at(last.index)
            goes_on = mine.term == last.term if mine is not None else first == last.index + 1
            tail = self.entries[last.index + 1 - first :] if goes_on else []
            if not goes_on:
                # The snapshot is safe, and the entries that led to it are not: it was installed,
                # or taken of entries that were not on this disk yet.
                self._write(Kind.RESET, fmt.index_body(last.index))
            self.entries = [*base, *tail]
            self.commit_index = max(self.commit_index, last.index)
        if self.entries:
            self.commit_index = min(self.commit_index, self.last_index)
        self.durable_index = self.last_index if self.entries else 0

    # ------------------------------------------------------------------------------- reading

    @property
    def size_bytes(self) -> int:
        """Of all files, without what is still in the buffer."""
        return sum(file.size_bytes for file in self._files.values())

    @property
    def first_index(self) -> int:
        return self.entries[0].index

    @property
    def last_index(self) -> int:
        return self.entries[-1].index

    def at(self, index: int) -> LogEntry | None:
        if not self.entries:
            return None
        slot = index - self.entries[0].index
        return self.entries[slot] if 0 <= slot < len(self.entries) else None

    # ------------------------------------------------------------------------------ changing

    def append(self, entry: LogEntry) -> None:
        if self.entries:
            invariant(
                entry.index == self.last_index + 1 and entry.term >= self.entries[-1].term,
                "an entry does not follow the last one",
                entry=entry[1:],
                last=self.entries[-1][1:],
            )
        self.entries.append(entry)
        self._write(Kind.ENTRY, fmt.entry_body(entry))

    def truncate_from(self, index: int) -> None:
        """Forgets an uncommitted suffix, which a leader contradicts."""
        invariant(
            index > self.commit_index,
            "truncating what is committed",
            index=index,
            commit_index=self.commit_index,
        )
        self._cut(index)
        self.durable_index = min(self.durable_index, index - 1)
        if self._ticket is not None:
            self._ticket.last_index = min(self._ticket.last_index, index - 1)
        self._write(Kind.TRUNCATE, fmt.index_body(index))

    def set_vote(self, *, term: int, vote: int | None) -> None:
        invariant(term >= self.term, "the term goes back", term=term, current=self.term)
        self.term, self.vote = term, vote
        self._write(Kind.VOTE, self._vote_body())

    def set_commit_index(self, index: int) -> None:
        """Remembers what is committed; it reaches the disk with the next vote or file.

        Losing it is harmless: it is learned again from the leader."""
        self.commit_index = max(self.commit_index, index)

    def trim(self, *, keep_from: int, snapshot_index: int) -> None:
        """Drops what snapshots cover: from memory what is below `keep_from`, from the disk whole
        files with nothing above `snapshot_index` (that of the oldest snapshot that is kept)."""
        if self.entries and keep_from > self.first_index:
            del self.entries[: keep_from - self.first_index]
        # One file at a time: the next removal comes after the directory was synced again, so that
        # a crash cannot bring back an older file without its successor.
        oldest = min(self._files)
        if oldest < self._safe_number and self._files[oldest].last_index <= snapshot_index:
            del self._files[oldest]
            self._filesystem.remove(_path(self._directory, oldest))
        self._begin_file = True

    def reset(self, base: Sequence[LogEntry]) -> None:
        """Forgets all entries for a snapshot, whose last two entries are `base`."""
        self.entries = list(base)
        self.durable_index = base[-1].index
        if self._ticket is not None:
            self._ticket.last_index = 0
        self.commit_index = max(self.commit_index, base[-1].index)
        self._write(Kind.RESET, fmt.index_body(base[-1].index))

    # ------------------------------------------------------------------------------ flushing

    def prepare_flush(self) -> Ticket | None:
        """Writes what has changed; None if nothing has, or a ticket is still out."""
        if self._ticket is not None or not self._buffer:
            return None
        is_new = self._begin_file
        if is_new:
            self._begin_next_file()
        synced = self._file.size_bytes
        data = b"".join(fmt.encode(kind, body, synced=synced) for kind, body in self._buffer)
        for kind, body in self._buffer:
            if kind is Kind.ENTRY:
                self._note_index(fmt.read_index(body[:8]))
        self._buffer.clear()
        self._file.append(data)
        self._files[self._number].size_bytes += len(data)
        self._ticket = Ticket(
            self._filesystem,
            self._directory,
            self._file,
            is_new=is_new,
            position=self.position,
            last_index=self.last_index if self.entries else 0,
        )
        return self._ticket

    def complete_flush(self, ticket: Ticket) -> None:
        """Takes note of a ticket that was run."""
        invariant(ticket is self._ticket, "a ticket that is not out")
        self._ticket = None
        self._safe_number = self._number
        self.durable = ticket.position
        self.durable_index = max(self.durable_index, ticket.last_index)

    def flush(self) -> None:
        """Writes and syncs everything, here and now; no ticket may be out."""
        invariant(self._ticket is None, "a flush while a ticket is out")
        ticket = self.prepare_flush()
        if ticket is not None:
            ticket.run()
            self.complete_flush(ticket)

    def close(self) -> None:
        self._file.close()

    # ------------------------------------------------------------------------------- helpers

    def _write(self, kind: Kind, body: bytes) -> None:
        self.position += 1
        self._buffer.append((kind, body))

    def _vote_body(self) -> bytes:
        return fmt.vote_body(term=self.term, vote=self.vote, commit_index=self.commit_index)

    def _cut(self, index: int) -> None:
        if self.entries:
            del self.entries[max(0, index - self.entries[0].index) :]

    def _note_index(self, index: int) -> None:
        facts = self._files[self._number]
        facts.last_index = max(facts.last_index, index)

    def _begin_next_file(self) -> None:
        """Everything so far is synced: no ticket is out, and only flushes write."""
        self._begin_file = False
        self._file.close()
        self._number += 1
        self._files[self._number] = _FileFacts()
        self._file = self._filesystem.open(_path(self._directory, self._number), create=True)
        self._buffer.insert(0, (Kind.VOTE, self._vote_body()))


@dataclass(slots=True)
class _FileFacts:
    last_index: int = 0
    """The largest index of an entry in the file."""
    size_bytes: int = 0


def _path(directory: str, number: int) -> str:
    return f"{directory}/{number:020d}{SUFFIX}"


def _numbers(filesystem: FileSystem, directory: str) -> list[int]:
    names = (entry.name for entry in filesystem.list(directory))
    return [int(name.removesuffix(SUFFIX)) for name in names if _NAME.fullmatch(name)]
