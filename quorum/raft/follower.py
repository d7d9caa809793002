"""The follower's side of replication: what it takes from a leader, and what it answers.

A follower appends what follows on an entry that it shares with the leader. It forgets entries of
its own only where one contradicts the leader's, never because a message is old or short, and never
what is committed (the journal refuses that).
"""

from typing import NamedTuple

from quorum.raft.frames import AppendEntries, BadFrame
from quorum.raft.journal import Journal
from quorum.raft.journal_format import LogEntry


class Appended(NamedTuple):
    """The log equals the leader's below `next_index`; or where the leader should try next."""

    success: bool
    next_index: int


def append(journal: Journal, message: AppendEntries, *, commit_index: int) -> Appended:
    """Takes a leader's entries if they follow on what is here."""
    entries = [LogEntry(*entry) for entry in message.entries]
    if any(e.index != message.prev_index + 1 + k for k, e in enumerate(entries)):
        raise BadFrame("entries with a gap")
    prev_index = message.prev_index
    if prev_index < journal.first_index:
        # What the snapshot covers is committed, so the leader has the same.
        entries = entries[journal.first_index - prev_index :]
        prev_index = journal.first_index
        if not entries:
            return Appended(False, commit_index + 1)
    elif (mine := journal.at(prev_index)) is None:
        return Appended(False, journal.last_index + 1)
    elif mine.term != message.prev_term:
        return Appended(False, start_of_term(journal, mine, commit_index=commit_index))
    accept(journal, entries)
    return Appended(True, prev_index + len(entries) + 1)


def accept(journal: Journal, entries: list[LogEntry]) -> None:
    """Appends what is new; only an entry that contradicts the leader's is truncated."""
    for position, entry in enumerate(entries):
        mine = journal.at(entry.index)
        if mine is not None and mine.term == entry.term:
            continue
        if mine is not None:
            journal.truncate_from(entry.index)
        for new in entries[position:]:
            journal.append(new)
        return


def start_of_term(journal: Journal, entry: LogEntry, *, commit_index: int) -> int:
    """The first uncommitted index of an entry's term: the leader goes back term by term."""
    index = entry.index
    while index - 1 > commit_index:
        before = journal.at(index - 1)
        if before is None or before.term != entry.term:
            break
        index -= 1
    return max(index, commit_index + 1)
