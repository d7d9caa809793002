"""What the metadata quorum needs of a Raft engine, and what the engine needs of it.

An engine replicates commands (bytes, which it never looks into) and hands the committed ones to a
`StateMachine`, on every voter in the same order, each exactly once per life of the process. An
index and a term name an entry; no two voters ever apply different entries at one index. Entries
that the engine makes for itself (a leader's first) use up an index and carry no data.

Threads: the engine calls its state machine, its observer and every `done` on one thread of its
own, one call at a time. `propose` and `read_index` may be called from any thread. What a state
machine publishes to other threads it publishes by assigning an immutable object.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A committed entry."""

    index: int
    term: int
    data: bytes
    """Empty in an entry that the engine made for itself."""


class Outcome(Enum):
    """How a proposal ended."""

    COMMITTED = "committed"
    """It is in the log for good and has been applied here."""
    NOT_LEADER = "not leader"
    """It was never in anybody's log; ask the leader."""
    DISCARDED = "discarded"
    """Another entry was committed in its place: it did not and will never happen."""
    REFUSED = "refused"
    """It was never in anybody's log: it is too large, or too many are waiting."""
    UNKNOWN = "unknown"
    """It may have been committed, now or later. Only the state can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What became of a proposal; index and term are there once it had a place in the log."""

    outcome: Outcome
    index: int | None = None
    term: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who leads, as far as this voter knows."""

    leader_id: int | None
    term: int
    is_active: bool
    """This voter leads, and has applied the first entry of its own term: its state machine holds
    everything that any leader before it has committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterStatus:
    """A voter, as the leader sees it; the times are of the leader's monotonic clock."""

    voter_id: int
    log_end_index: int
    """Everything below is on that voter's disk (the last index that it acknowledged, plus one)."""
    last_fetch_ms: int | None
    """When it last answered; None if it has not answered this leader, or we do not lead."""
    last_caught_up_ms: int | None
    """When it last held everything that the leader then held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A voter's view of the quorum at one moment."""

    voter_id: int
    leadership: Leadership
    high_watermark: int
    """Everything below is committed, as far as this voter knows."""
    applied_index: int
    log_start_index: int
    log_end_index: int
    snapshot_index: int | None
    """The last index that the newest snapshot covers."""
    voters: tuple[VoterStatus, ...]
    """All voters in the order of their ids; the others only while this one leads."""


class StateMachine(Protocol):
    """What the log's entries are applied to."""

    def apply(self, entry: Entry) -> None:
        """Takes the next committed entry. Raising stops the voter: a state machine that cannot
        apply what was agreed on must not go on."""

    def capture(self) -> Callable[[], Iterable[bytes]]:
        """The state as it is now, to be encoded later on another thread.

        Capturing must be quick and must not copy; the function that it returns yields the
        snapshot in pieces, so that no single call keeps the interpreter to itself for long.
        """

    def restore(self, snapshot: bytes, *, index: int, term: int) -> None:
        """Replaces the state by a snapshot's, which covers everything up to `index`."""


class Observer(Protocol):
    """Who wants to know about leadership."""

    def leadership_changed(self, leadership: Leadership) -> None: ...


class RaftEngine(Protocol):
    """A voter."""

    def propose(self, data: bytes, done: Callable[[Proposal], None]) -> None:
        """Asks for an entry. `done` is called once, when the outcome is known.

        Proposals that one thread makes enter the log in the order in which it made them, if they
        enter it. An outcome may never be known: whoever cannot wait for ever has to give up, and
        must then take it for UNKNOWN. REFUSED is told at once, on the caller's thread.
        """

    def read_index(self, done: Callable[[int | None], None]) -> None:
        """Asks for an index that holds everything acknowledged before the call.

        `done` gets it once this voter has confirmed with a majority that it still leads, and has
        applied that index; None if it does not lead.
        """

    def status(self) -> Status: ...

    def snapshot(self) -> None:
        """Takes a snapshot soon, even if none is due."""
