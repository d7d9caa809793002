"""Links between nodes that lose, delay, double and overtake.

A link has a direction. Messages on it arrive in order, unless they were sent over an older
connection (connections are doubled when they are made anew, and the old one's bytes may still
arrive). A link may be blocked in one direction only: what is sent into it vanishes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jepsen_style.sim.world import World

Link = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class Weather:
    """How bad a network is, in this seed."""

    delays_s: tuple[float, ...] = (0.001, 0.002, 0.005)
    drop: float = 0.0
    double: float = 0.0
    """How often a message arrives a second time, later, as if over an older connection."""
    late_s: float = 0.3


class SimNetwork:
    """All links between some nodes."""

    def __init__(
        self, world: World, nodes: tuple[int, ...], deliver: Callable[[int, int, bytes], None]
    ) -> None:
        self.weather = Weather()
        self.blocked: set[Link] = set()
        self.is_calm = False
        """Nothing is blocked any more, whoever tries."""
        self._world = world
        self._nodes = nodes
        self._deliver = deliver
        self._last_arrival_s: dict[Link, float] = {}

    def send(self, sender: int, receiver: int, frame: bytes) -> None:
        world, weather = self._world, self.weather
        link = (sender, receiver)
        if self._is_blocked(link) or world.chance(weather.drop):
            return
        arrival_s = world.now_s + world.random.choice(weather.delays_s)
        arrival_s = max(arrival_s, self._last_arrival_s.get(link, 0.0))
        self._last_arrival_s[link] = arrival_s
        self._arrive(link, frame, arrival_s - world.now_s)
        if world.chance(weather.double):
            self._arrive(
                link, frame, arrival_s - world.now_s + world.random.uniform(0, weather.late_s)
            )

    def _arrive(self, link: Link, frame: bytes, delay_s: float) -> None:
        def arrive() -> None:
            if not self._is_blocked(link):
                self._deliver(*link, frame)

        self._world.after(delay_s, arrive)

    def _is_blocked(self, link: Link) -> bool:
        return link in self.blocked and not self.is_calm

    # --------------------------------------------------------------------------- partitions

    def heal(self) -> None:
        self.blocked.clear()

    def block(self, links: set[Link]) -> None:
        self.blocked |= links

    def isolate(self, group: set[int]) -> None:
        """Cuts a group off, both ways."""
        self.blocked = {
            (a, b) for a in self._nodes for b in self._nodes if (a in group) != (b in group)
        }

    def block_one_way(self, sender: int, receivers: set[int]) -> None:
        """What one node sends no longer arrives; it still hears the others."""
        self.blocked = {(sender, receiver) for receiver in receivers}

    def bridge(self, node: int) -> None:
        """Two halves that only one node can talk to."""
        others = [other for other in self._nodes if other != node]
        half = set(others[: len(others) // 2])
        self.blocked = {(a, b) for a in others for b in others if (a in half) != (b in half)}

    def ring(self) -> None:
        """Every node talks to its neighbours only; each sees another majority."""
        count = len(self._nodes)
        near = {(i, (i + step) % count) for i in range(count) for step in (-1, 0, 1)}
        self.blocked = {
            (self._nodes[i], self._nodes[j])
            for i in range(count)
            for j in range(count)
            if (i, j) not in near
        }

    def motley(self, share: float) -> None:
        """Any link may be blocked, in any direction."""
        self.blocked = {
            (a, b) for a in self._nodes for b in self._nodes if a != b and self._world.chance(share)
        }
