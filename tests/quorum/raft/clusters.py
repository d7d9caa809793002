"""Some nodes in one process, driven by hand: the same scenario runs on stock pysyncobj and on ours.

Time stands still unless a test moves it, and a message waits in its link until a test delivers
it. So a test can tell a story message by message: this one arrives, that one is late, this node
dies here. `stock` and `voters` have the two implementations.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

M = TypeVar("M")
A, B, C, D, E = 1, 2, 3, 4, 5
ACKNOWLEDGED = "acknowledged"
Told = Callable[[str], None]


@dataclass(slots=True)
class Clock:
    """The time of everything in a test."""

    now_s: float = 1000.0


class Cluster(ABC, Generic[M]):
    """Nodes and the links between them."""

    def __init__(self, clock: Clock, ids: Iterable[int]) -> None:
        self.ids = tuple(ids)
        self.clock = clock
        self.outcomes: dict[str, str] = {}
        """What the clients were told, by key; a key that is missing still waits."""
        self.frozen: set[tuple[int, int]] = set()
        self._links: dict[tuple[int, int], list[M]] = {}
        self._connected: set[frozenset[int]] = set()

    # ----------------------------------------------------------------------------- the nodes

    @abstractmethod
    def tick(self, node: int) -> None: ...

    @abstractmethod
    def put(self, node: int, key: str, *, size_bytes: int = 1, told: Told | None = None) -> None:
        """A client asks a node to add a key; `told` may raise."""

    @abstractmethod
    def applied(self, node: int) -> list[str]:
        """The keys in a node's state, in the order in which they were applied."""

    @abstractmethod
    def leads(self, node: int) -> bool: ...

    @abstractmethod
    def last_index(self, node: int) -> int: ...

    @abstractmethod
    def elect(self, node: int, group: Iterable[int]) -> None:
        """Makes a node the leader of those that it can reach, which are in `group`."""

    @abstractmethod
    def compact(self, node: int) -> None: ...

    @abstractmethod
    def _receive(self, sender: int, receiver: int, message: M) -> None: ...

    @abstractmethod
    def _told_connected(self, node: int, other: int, connected: bool) -> None: ...

    def is_acknowledged(self, key: str) -> bool:
        return self.outcomes.get(key) == ACKNOWLEDGED

    def note(self, key: str, told: Told | None) -> Told:
        """What to do with an outcome: remember it, then tell the client."""

        def tell(outcome: str) -> None:
            self.outcomes[key] = outcome
            if told is not None:
                told(outcome)

        return tell

    # ----------------------------------------------------------------------------- the links

    def connect(self, a: int, b: int) -> None:
        if frozenset((a, b)) not in self._connected:
            self._connected.add(frozenset((a, b)))
            self._told_connected(a, b, True)
            self._told_connected(b, a, True)

    def cut(self, a: int, b: int) -> None:
        """Ends a connection, with everything that is on its way."""
        if frozenset((a, b)) in self._connected:
            self._connected.remove(frozenset((a, b)))
            self._links.pop((a, b), None)
            self._links.pop((b, a), None)
            self._told_connected(a, b, False)
            self._told_connected(b, a, False)

    def isolate(self, node: int) -> None:
        """The node is cut off; for the others that is the same as its death."""
        for other in self.ids:
            if other != node:
                self.cut(node, other)

    def rejoin(self, node: int) -> None:
        for other in self.ids:
            if other != node:
                self.connect(node, other)

    def connect_all(self) -> None:
        for node in self.ids:
            self.rejoin(node)

    def send(self, sender: int, receiver: int, message: M) -> None:
        if frozenset((sender, receiver)) in self._connected:
            self.waiting(sender, receiver).append(message)

    def waiting(self, sender: int, receiver: int) -> list[M]:
        """The messages on a link, the next one first."""
        return self._links.setdefault((sender, receiver), [])

    def deliver(self, sender: int, receiver: int, count: int = 10**9) -> None:
        link = self.waiting(sender, receiver)
        for _ in range(min(count, len(link))):
            self._receive(sender, receiver, link.pop(0))

    def deliver_again(self, sender: int, receiver: int, message: M) -> None:
        """A message arrives a second time, as over an older connection."""
        self._receive(sender, receiver, message)

    def deliver_all(self) -> None:
        while links := [k for k in sorted(self._links) if self._links[k] and k not in self.frozen]:
            for sender, receiver in links:
                self.deliver(sender, receiver)

    # ------------------------------------------------------------------------------ the time

    def step(self, seconds: float, group: Iterable[int] | None = None, dt: float = 0.05) -> None:
        """Lets time pass for some nodes, with a network that delivers at once."""
        nodes = sorted(self.ids if group is None else group)
        end_s = self.clock.now_s + seconds
        while self.clock.now_s < end_s:
            self.clock.now_s += dt
            for node in nodes:
                self.tick(node)
            self.deliver_all()
