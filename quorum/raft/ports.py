"""What a voter needs of the world: a network, somewhere to wait for the disk, and a name."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from quorum.raft.frames import MAX_COMMAND_BYTES


class Network(Protocol):
    """The connections to the other voters. Frames arrive in order or not at all."""

    def send(self, voter_id: int, frame: bytes) -> None:
        """Sends a frame if there is a connection with room for it, else drops it: the engine
        repeats whatever matters."""


class Lane(Enum):
    """Work of one lane runs in the order in which it was submitted, one at a time."""

    FLUSH = "flush"
    SNAPSHOT = "snapshot"


class Executor(Protocol):
    """Somewhere to wait for a disk without keeping the engine waiting."""

    def submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        """Runs `work` elsewhere, then `done` on the engine's thread with the error, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """A voter's place in the quorum and its patience."""

    voter_id: int
    voters: tuple[int, ...]
    election_timeout_min_ms: int = 300
    election_timeout_max_ms: int = 600
    resign_timeout_ms: int = 300
    """A leader that has not heard from a majority for so long resigns."""
    heartbeat_ms: int = 50
    snapshot_entries: int = 50_000
    """A snapshot is due after so many entries,"""
    snapshot_bytes: int = 64 << 20
    """or after so many bytes of them,"""
    snapshot_interval_ms: int | None = None
    """or after so long, if there is anything new."""
    max_command_bytes: int = MAX_COMMAND_BYTES
    append_bytes: int = MAX_COMMAND_BYTES + 1024
    """The leader sends about so many bytes of entries at once; more than one command has."""
    max_waiting_proposals: int = 100_000

    @property
    def others(self) -> tuple[int, ...]:
        return tuple(voter for voter in sorted(self.voters) if voter != self.voter_id)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1
