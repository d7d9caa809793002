"""Kills and pauses voters by a seed, the leader more often than chance would."""

import random
import threading
import time
from collections.abc import Callable
from enum import Enum

from tests.quorum.fleet import Fleet

LEADER_PATIENCE_S = 4.0
PROGRESS_PATIENCE_S = 20.0
POLL_S = 0.02


class Trouble(Enum):
    """One round of trouble, healed at its end."""

    KILL_LEADER = "kill the leader"
    KILL_ANY = "kill anyone"
    PAUSE_LEADER = "pause the leader for longer than an election takes"
    PAUSE_ANY = "pause anyone"
    PAUSE_THEN_KILL = "pause a follower and kill the leader: no majority is left"
    REPLACE_PAUSED = "pause the leader and kill the next one: the old leader makes the majority"
    KILL_ALL = "kill everybody at once"


DECK = (
    Trouble.KILL_LEADER,
    Trouble.KILL_LEADER,
    Trouble.KILL_LEADER,
    Trouble.KILL_ANY,
    Trouble.PAUSE_LEADER,
    Trouble.PAUSE_LEADER,
    Trouble.PAUSE_ANY,
    Trouble.PAUSE_THEN_KILL,
    Trouble.REPLACE_PAUSED,
    Trouble.KILL_ALL,
)
"""Every deck is shuffled and played to its end, so that none of these is left to chance."""


class Nemesis:
    """`leader` says who leads as far as one can see, `acknowledged` how often clients were told
    that something was done: trouble goes on only after they were told so again."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        seed: int,
        leader: Callable[[], int | None],
        acknowledged: Callable[[], int],
    ) -> None:
        self.rounds: list[Trouble] = []
        self._fleet = fleet
        self._random = random.Random(seed)
        self._leader = leader
        self._acknowledged = acknowledged
        self._clock = threading.Event()  # never set: waiting for it is letting time pass

    def run(self, duration_s: float) -> None:
        """Until the time is over and a whole deck was played. Everybody runs when it returns."""
        end_s = time.monotonic() + duration_s
        deck: list[Trouble] = []
        while time.monotonic() < end_s or len(self.rounds) < len(DECK):
            if not deck:
                deck = self._random.sample(DECK, len(DECK))
            trouble = deck.pop()
            self.rounds.append(trouble)
            try:
                self._make(trouble)
            finally:
                self._fleet.heal()
            self._wait_for_progress(trouble)
            self._pass(0.0, 0.8)
        self._fleet.look()

    def _make(self, trouble: Trouble) -> None:
        fleet = self._fleet
        leader = self._find_leader()
        anyone = self._random.choice(fleet.ids)
        follower = self._random.choice([each for each in fleet.ids if each != leader])
        match trouble:
            case Trouble.KILL_LEADER:
                fleet.kill(leader)
                self._pass(0.0, 1.0)
            case Trouble.KILL_ANY:
                fleet.kill(anyone)
                self._pass(0.0, 1.0)
            case Trouble.PAUSE_LEADER:
                fleet.pause(leader)
                self._pass(0.7, 2.5)
            case Trouble.PAUSE_ANY:
                fleet.pause(anyone)
                self._pass(0.1, 1.5)
            case Trouble.PAUSE_THEN_KILL:
                fleet.pause(follower)
                self._pass(0.0, 0.5)
                fleet.kill(leader)
                self._pass(0.0, 0.5)
            case Trouble.REPLACE_PAUSED:
                fleet.pause(leader)
                successor = self._find_leader(unlike=leader)
                self._pass(0.0, 0.3)
                fleet.kill(successor)
                self._pass(0.0, 0.5)
            case Trouble.KILL_ALL:
                fleet.kill(*fleet.ids)

    def _find_leader(self, *, unlike: int | None = None) -> int:
        """Whoever leads; if nobody does for long, anyone."""
        deadline = time.monotonic() + LEADER_PATIENCE_S
        while time.monotonic() < deadline:
            found = self._leader()
            if found is not None and found != unlike:
                return found
            self._clock.wait(POLL_S)
        return self._random.choice([each for each in self._fleet.ids if each != unlike])

    def _wait_for_progress(self, trouble: Trouble) -> None:
        """All voters run, so something must be acknowledged again."""
        before = self._acknowledged()
        deadline = time.monotonic() + PROGRESS_PATIENCE_S
        while self._acknowledged() == before:
            if time.monotonic() > deadline:
                self._fleet.look()
                raise TimeoutError(
                    f"nothing is acknowledged after round {len(self.rounds)} ({trouble.value});"
                    f" voters that died: {self._fleet.deaths}"
                )
            self._clock.wait(POLL_S)

    def _pass(self, least_s: float, most_s: float) -> None:
        self._clock.wait(self._random.uniform(least_s, most_s))
