"""Linearizable reads without writing: ReadIndex (section 6.4 of Ongaro's thesis).

A leader that answers from its own state may have been replaced without knowing it. So it notes
what is committed, asks a majority whether it still leads, and answers once it has applied what it
noted. Whoever asks while a round is under way waits for the next one: a round may only serve
those who came before it began.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from quorum.raft.proposals import call

Done = Callable[[int | None], None]


@dataclass(slots=True)
class _Round:
    sequence: int
    term: int
    index: int
    readers: list[Done]
    confirmed_by: set[int] = field(default_factory=set)


class Reads:
    """Who waits to read, and the round that will tell them what."""

    def __init__(self, *, voter_id: int, majority: int) -> None:
        self._voter_id = voter_id
        self._majority = majority
        self._waiting: deque[Done] = deque()
        self._round: _Round | None = None
        self._sequence = 0
        self._confirmed: deque[_Round] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, done: Done) -> None:
        """Takes a reader, from any thread."""
        self._waiting.append(done)

    @property
    def probe(self) -> int | None:
        """The sequence number to ask the others about."""
        return self._round.sequence if self._round is not None else None

    def begin(self, *, term: int, commit_index: int) -> bool:
        """Begins a round if somebody waits and none is under way."""
        if self._round is not None or not self._waiting:
            return False
        self._sequence += 1
        readers = [self._waiting.popleft() for _ in range(len(self._waiting))]
        self._round = _Round(self._sequence, term, commit_index, readers)
        self.confirm(self._voter_id, term=term, sequence=self._sequence)
        return True

    def confirm(self, voter_id: int, *, term: int, sequence: int) -> None:
        """A voter says that the leader of a term still led when it was asked."""
        current = self._round
        if current is None or (current.term, current.sequence) != (term, sequence):
            return
        current.confirmed_by.add(voter_id)
        if len(current.confirmed_by) >= self._majority:
            self._confirmed.append(current)
            self._round = None

    def applied(self, index: int) -> None:
        """Answers those whose index has been applied."""
        while self._confirmed and self._confirmed[0].index <= index:
            confirmed = self._confirmed.popleft()
            for done in confirmed.readers:
                call(done, confirmed.index)

    def fail_all(self) -> None:
        """This voter does not lead."""
        rounds = [*self._confirmed, *([self._round] if self._round is not None else [])]
        self._confirmed.clear()
        self._round = None
        readers = [done for round_ in rounds for done in round_.readers]
        readers += [self._waiting.popleft() for _ in range(len(self._waiting))]
        for done in readers:
            call(done, None)
