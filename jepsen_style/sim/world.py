"""Time, chance and what happens next."""

import heapq
from collections.abc import Callable
from random import Random


class Violation(BaseException):
    """A promise was broken. Carries the name of the invariant and what contradicts it.

    No `except Exception` of the code under test may swallow it.
    """

    def __init__(self, invariant: str, evidence: str) -> None:
        super().__init__(f"{invariant}: {evidence}")
        self.invariant = invariant
        self.evidence = evidence


class World:
    """A clock that jumps from event to event, and one source of randomness for everything."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now_s = 1000.0
        self.story: list[str] = []
        """What happened, in order: the same for the same seed."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_s: float, event: Callable[[], None]) -> None:
        """Lets something happen later; events of one moment happen in the order of their making."""
        self._count += 1
        heapq.heappush(self._events, (self.now_s + delay_s, self._count, event))

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass; stops early, and says so, once a condition holds."""
        end = self.now_s + seconds
        while self._events and self._events[0][0] <= end:
            self.now_s, _, event = heapq.heappop(self._events)
            event()
            if until():
                return True
        self.now_s = end
        return until()

    def tell(self, *words: object) -> None:
        self.story.append(f"{self.now_s - 1000:9.4f} {' '.join(map(str, words))}")

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability
