"""Bugs to plant in the engine, each the absence of one thing that keeps a promise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from quorum.raft import follower, frames, journal, outbox, reads
from quorum.raft.frames import AnyMessage
from quorum.raft.journal import Journal
from quorum.raft.journal_format import LogEntry
from quorum.raft.pysyncobj_engine import adapters, voter
from quorum.raft.pysyncobj_engine.voter import Voter

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A bug, and the invariants that may catch it."""

    name: str
    plant: Patch
    caught_by: frozenset[str]


def _no_fsync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journal.Ticket, "run", lambda ticket: None)


def _ack_before_fsync(patch: pytest.MonkeyPatch) -> None:
    def send(self: outbox.Outbox, voter_id: int, message: AnyMessage) -> None:
        self._network.send(voter_id, frames.encode(message))

    patch.setattr(outbox.Outbox, "send", send)


def _vote_not_persisted(patch: pytest.MonkeyPatch) -> None:
    def set_vote(self: Journal, *, term: int, vote: int | None) -> None:
        self.term, self.vote = term, vote

    patch.setattr(Journal, "set_vote", set_vote)


def _always_truncate(patch: pytest.MonkeyPatch) -> None:
    def accept(own: Journal, entries: list[LogEntry]) -> None:
        if entries:
            first = max(entries[0].index, own.commit_index + 1)
            if first <= own.last_index:
                own.truncate_from(first)
        for entry in entries:
            if entry.index > own.last_index:
                own.append(entry)

    patch.setattr(follower, "accept", accept)


def _read_without_asking(patch: pytest.MonkeyPatch) -> None:
    original = reads.Reads.begin

    def begin(self: reads.Reads, *, term: int, commit_index: int) -> bool:
        begun = original(self, term=term, commit_index=commit_index)
        sequence = self.probe
        if sequence is not None:
            for voter_id in range(1, 6):
                self.confirm(voter_id, term=term, sequence=sequence)
        return begun

    patch.setattr(reads.Reads, "begin", begin)


def _commit_old_terms(patch: pytest.MonkeyPatch) -> None:
    original = Voter._onTick

    def on_tick(self: Any, time_to_wait: float = 0.0) -> None:
        if self._isLeader():
            stored = sorted([self._journal.durable_index, *self._SyncObj__raftMatchIndex.values()])
            self._commit(stored[(len(stored) - 1) // 2])
        original(self, time_to_wait)

    patch.setattr(Voter, "_onTick", on_tick)


def _trim_past_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    original = Journal.trim

    def trim(self: Journal, *, keep_from: int, snapshot_index: int) -> None:
        original(self, keep_from=keep_from, snapshot_index=self.last_index)

    patch.setattr(Journal, "trim", trim)


def _no_resignation(patch: pytest.MonkeyPatch) -> None:
    original = adapters.stock_config

    def config(*arguments: Any) -> Any:
        made = original(*arguments)
        made.leaderFallbackTimeout = 30.0
        return made

    patch.setattr(voter, "stock_config", config)


def _leader_counts_itself_early(patch: pytest.MonkeyPatch) -> None:
    def count(self: Any, node: Any) -> None:
        progress = self._progress.get(node.id)
        if progress is not None and self._isLeader():
            self._SyncObj__raftMatchIndex[node] = progress.match_index

    patch.setattr(Voter, "_count", count)


def _no_recovery(patch: pytest.MonkeyPatch) -> None:
    original = Voter.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **{**named, "is_recovering": False})
        if named["is_recovering"]:
            named["on_recovered"]()

    patch.setattr(Voter, "__init__", init)


LOSS = frozenset({"state machine safety", "acknowledged is kept", "leader completeness"})
INSIDE = frozenset({"no failure"})
"""An `invariant()` of the engine itself stopped a voter."""

MUTANTS = (
    Mutant(name="no fsync", plant=_no_fsync, caught_by=LOSS | {"election safety", "restart"}),
    Mutant(name="ack before fsync", plant=_ack_before_fsync, caught_by=LOSS | {"election safety"}),
    Mutant(
        name="vote not persisted",
        plant=_vote_not_persisted,
        caught_by=LOSS | INSIDE | {"election safety"},
    ),
    Mutant(name="always truncate", plant=_always_truncate, caught_by=LOSS | INSIDE),
    Mutant(
        name="read without ReadIndex",
        plant=_read_without_asking,
        caught_by=frozenset({"linearizable read"}),
    ),
    Mutant(name="old-term commit", plant=_commit_old_terms, caught_by=LOSS | INSIDE),
    Mutant(
        name="prefix trimmed past the snapshot",
        plant=_trim_past_the_snapshot,
        caught_by=frozenset({"restart"}),
    ),
    Mutant(name="no resignation", plant=_no_resignation, caught_by=frozenset({"resignation"})),
    Mutant(name="a new disk is trusted", plant=_no_recovery, caught_by=LOSS | {"election safety"}),
    Mutant(name="leader counts itself early", plant=_leader_counts_itself_early, caught_by=LOSS),
)
