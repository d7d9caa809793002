"""Proposals on their way: first in a queue, then at an index of the log."""

import logging
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from quorum.raft.port import Outcome, Proposal

logger = logging.getLogger(__name__)

T = TypeVar("T")
Done = Callable[[Proposal], None]


def call(done: Callable[[T], None], value: T) -> None:
    """Tells somebody who must not be able to stop the engine."""
    try:
        done(value)
    except Exception:  # whatever a caller's code does is its own affair
        logger.exception("a callback failed")


class Proposals:
    """Who waits for which entry."""

    def __init__(self, *, max_waiting: int, max_command_bytes: int) -> None:
        self._max_waiting = max_waiting
        self._max_command_bytes = max_command_bytes
        self._queue: deque[tuple[bytes, Done]] = deque()
        self._placed: dict[int, tuple[int, Done]] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, data: bytes, done: Done) -> None:
        """Takes a proposal, from any thread."""
        if len(data) > self._max_command_bytes or len(self._queue) >= self._max_waiting:
            call(done, Proposal(outcome=Outcome.REFUSED))
        else:
            self._queue.append((data, done))

    def take(self) -> tuple[bytes, Done] | None:
        return self._queue.popleft() if self._queue else None

    def refuse_all(self, outcome: Outcome) -> None:
        while self._queue:
            _, done = self._queue.popleft()
            call(done, Proposal(outcome=outcome))

    def place(self, index: int, term: int, done: Done) -> None:
        self._placed[index] = (term, done)

    def applied(self, index: int, term: int) -> None:
        """An entry was committed and applied at an index."""
        placed = self._placed.pop(index, None)
        if placed is not None:
            proposed_term, done = placed
            outcome = Outcome.COMMITTED if proposed_term == term else Outcome.DISCARDED
            call(done, Proposal(outcome=outcome, index=index, term=proposed_term))

    def skipped_to(self, index: int) -> None:
        """A snapshot took the place of everything up to an index: who knows what was there."""
        for placed in sorted(i for i in self._placed if i <= index):
            term, done = self._placed.pop(placed)
            call(done, Proposal(outcome=Outcome.UNKNOWN, index=placed, term=term))

    def forget_all(self) -> None:
        """The voter stops: what is in the log may be committed by others."""
        self.refuse_all(Outcome.NOT_LEADER)
        for index, (term, done) in sorted(self._placed.items()):
            call(done, Proposal(outcome=Outcome.UNKNOWN, index=index, term=term))
        self._placed.clear()
