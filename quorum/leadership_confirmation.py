"""Raft's word that this voter leads, asked for once for everyone who waits at the time.

An answer that writes nothing (most heartbeats) proves by itself only that its controller once led.
A ReadIndex round after the command came in proves that it still did. A round costs the quorum a
message to each voter, so whoever comes while one is on its way shares the next: with a thousand
brokers there is still one round at a time. Nobody joins a round that has begun, as it may have
been confirmed before they came.
"""

from collections.abc import Callable
from typing import TypeAlias

from quorum.loop_inbox import LoopInbox
from quorum.raft.port import RaftEngine

Settle: TypeAlias = Callable[[bool], None]


class LeadershipConfirmation:
    """On the event loop."""

    def __init__(self, engine: RaftEngine, inbox: LoopInbox) -> None:
        self.rounds = 0
        self._engine = engine
        self._inbox = inbox
        self._asking: list[Settle] | None = None
        self._next: list[Settle] = []

    @property
    def waiting(self) -> int:
        return len(self._next) + len(self._asking or ())

    def ask(self, settle: Settle) -> None:
        """Calls `settle` later, with True if this voter led after now."""
        self._next.append(settle)
        if self._asking is None:
            self._begin()

    def reset(self) -> None:
        """This voter leads no more: everyone who waits is told so."""
        waiting = (self._asking or []) + self._next
        self._asking = None
        self._next = []
        for settle in waiting:
            settle(False)

    def _begin(self) -> None:
        asking, self._next = self._next, []
        self._asking = asking
        self.rounds += 1
        self._engine.read_index(lambda index: self._inbox.post(lambda: self._end(asking, index)))

    def _end(self, asking: list[Settle], index: int | None) -> None:
        if asking is not self._asking:
            return  # was told already, by a reset
        self._asking = None
        if self._next:
            self._begin()
        for settle in asking:
            settle(index is not None)
