"""A seed's life of a quorum: which faults, how bad, when; then calm, and the final checks.

Every seed draws its own mix (swarm testing): a fault that is always on hides what only shows in
its absence. Some faults aim: the power fails at the moment of an acknowledgement, or a voter
restarts the moment its vote arrives. Those are the moments that a promise made too early dies in.
"""

from collections.abc import Callable
from functools import partial
from random import Random

from jepsen_style.sim import figure_eight, stale_leader
from jepsen_style.sim.figure_eight import FigureEight
from jepsen_style.sim.network import Weather
from jepsen_style.sim.quorum import FAST_DISK_S, SimQuorum, Temper, simulated_time
from jepsen_style.sim.stale_leader import StaleLeader
from jepsen_style.sim.world import Violation, World


def run_seed(seed: int, *, seconds: float = 10.0) -> SimQuorum:
    """Lives through a seed; raises `Violation` with the story's end if a promise is broken."""
    world = World(seed)
    with simulated_time(lambda: world.now_s, Random(seed)):
        voters = world.random.choice((3, 3, 5))
        quorum = SimQuorum(world, voters=voters, temper=_temper(world.random, voters))
        quorum.network.weather = _weather(world.random)
        nemesis = _Nemesis(quorum)
        if voters == 5 and world.chance(0.4):
            nemesis.play_figure_eight()
        elif voters == 3 and world.chance(0.15):
            nemesis.play_stale_leader()
        try:
            nemesis.live(seconds)
            quorum.end()
        except Violation as violation:
            tail = "\n".join(world.story[-12:])
            raise Violation(
                violation.invariant,
                f"{violation.evidence}\nseed {seed}; before that:\n{tail}",
            ) from violation
    return quorum


def _temper(random: Random, voters: int) -> Temper:
    disks = (FAST_DISK_S, FAST_DISK_S, (0.001, 0.005, 0.02), (0.01, 0.05, 0.15))
    disk = random.choice(disks)
    is_mixed = random.random() < 0.5
    return Temper(
        flush_s={
            voter_id: random.choice(disks) if is_mixed else disk
            for voter_id in range(1, voters + 1)
        },
        crash_in_operation=random.choice((0.0, 0.0005, 0.003)),
        snapshot_entries=random.choice((10, 40, 10**9)),
        append_bytes=random.choice((82, 200, 100_000)),
        election_timeout_ms=random.choice(((300, 600), (150, 200))),
    )


def _weather(random: Random) -> Weather:
    return Weather(
        delays_s=random.choice(((0.001, 0.002), (0.001, 0.005, 0.02), (0.001, 0.02, 0.06))),
        drop=random.choice((0.0, 0.0, 0.02, 0.1)),
        double=random.choice((0.0, 0.05, 0.2)),
        late_s=random.choice((0.05, 0.5)),
    )


class _Nemesis:
    """Clients and misfortune."""

    def __init__(self, quorum: SimQuorum) -> None:
        self._quorum = quorum
        self._world = quorum.world
        random = self._world.random
        faults: list[Callable[[], None]] = [
            self._crash_one,
            self._crash_leader,
            self._crash_all,
            self._partition,
            self._pause,
            self._lose_disk,
            self._heal,
            self._start_all,
        ]
        self._faults = random.sample(faults, random.randint(2, len(faults)))
        self._pace_s = random.choice((0.2, 0.6, 1.5))
        self._restart_s = random.choice(((0.005, 0.1), (0.1, 1.0), (0.5, 3.0)))
        self._strikes = random.choice((0.0, 0.01, 0.05))
        self._vote_strikes = random.choice((0.0, 0.3))
        self._leader_strikes = random.choice((0.0, 0.3, 0.6))
        self._replaced_s: dict[int, float] = {}
        self._figure: FigureEight | None = None
        self._stale: StaleLeader | None = None
        self._churn = random.random() < 0.3

    def play_figure_eight(self) -> None:
        figure = self._figure = FigureEight(self._quorum, self._start)
        self._play_only(figure.begin, figure_eight.ROUND_S)

    def play_stale_leader(self) -> None:
        stale = self._stale = StaleLeader(self._quorum)
        self._play_only(stale.begin, stale_leader.ROUND_S)

    def _play_only(self, begin: Callable[[], None], pace_s: float) -> None:
        """One aimed fault instead of all others."""
        self._faults = [begin]
        self._pace_s = pace_s
        self._strikes = self._vote_strikes = self._leader_strikes = 0.0
        self._churn = False

    def live(self, seconds: float) -> None:
        world, quorum = self._world, self._quorum
        end_s = world.now_s + seconds
        quorum.on_acknowledged = self._at_acknowledgement
        quorum.on_vote = self._at_vote
        quorum.on_leader = self._at_leader
        quorum.on_append = self._at_append

        def use() -> None:
            for leader in quorum.leaders():
                if world.chance(0.6):
                    quorum.write(leader, world.random.choice((1, 1, 3, 12)))
                if world.chance(0.4):
                    quorum.read(leader)
                if self._churn and world.chance(0.15):
                    world.after(
                        world.random.uniform(0, 0.03), partial(self._crash, leader.voter_id)
                    )
            if world.now_s < end_s:
                world.after(world.random.uniform(0.01, 0.08), use)

        def misfortune() -> None:
            if world.now_s < end_s:
                world.random.choice(self._faults)()
                world.after(world.random.expovariate(1 / self._pace_s), misfortune)

        world.after(0.1, use)
        world.after(1.0, misfortune)
        world.run(seconds)

    # -------------------------------------------------------------------------------- aimed

    def _at_acknowledgement(self, leader_id: int) -> None:
        """Somebody else who believes to lead is asked at once, for it must not answer; or the
        whole quorum loses its power, and the leader comes back last."""
        for other in self._quorum.leaders():
            if other.voter_id != leader_id:
                self._quorum.read(other)
        if not self._world.chance(self._strikes):
            return
        quorum = self._quorum
        self._world.tell("strike at an acknowledgement of", leader_id)
        for voter_id in quorum.ids:
            quorum.crash(voter_id)
        for voter_id in quorum.ids:
            delay_s = self._world.random.uniform(2, 4) if voter_id == leader_id else 0.01
            self._world.after(delay_s, partial(self._start, voter_id))

    def _at_leader(self, voter_id: int) -> None:
        """A new leader dies young: with its first entry on its own disk, and perhaps on another.

        So terms pile up in the logs in which nothing else was ever agreed on.
        """
        random, ids = self._world.random, self._quorum.ids
        if self._figure is not None:
            self._figure.at_leader(voter_id)
        if not self._world.chance(self._leader_strikes):
            return
        if self._world.chance(0.5):
            self._world.after(random.uniform(0, 0.02), partial(self._crash, voter_id))
        else:
            friends = random.sample([i for i in ids if i != voter_id], random.randint(0, 1))
            self._quorum.network.isolate({voter_id, *friends})
            self._world.after(random.uniform(0.1, 1.0), self._heal)

    def _at_append(self, leader_id: int, frame: bytes) -> None:
        if self._figure is not None:
            self._figure.at_append(leader_id, frame)
        if self._stale is not None:
            self._stale.at_append(leader_id, frame)

    def _at_vote(self, voter_id: int) -> None:
        """A voter whose vote has just arrived restarts at once."""
        if self._world.chance(self._vote_strikes) and voter_id in self._quorum.up:
            self._quorum.crash(voter_id)
            self._world.after(0.002, partial(self._start, voter_id))

    # ------------------------------------------------------------------------------- at random

    def _crash(self, voter_id: int) -> None:
        if voter_id in self._quorum.up:
            self._quorum.crash(voter_id)
            self._world.after(
                self._world.random.uniform(*self._restart_s), partial(self._start, voter_id)
            )

    def _start(self, voter_id: int) -> None:
        is_there = self._replaced_s.get(voter_id, 0.0) <= self._world.now_s
        if is_there and voter_id not in self._quorum.up:
            self._quorum.start(voter_id)

    def _crash_one(self) -> None:
        self._crash(self._world.random.choice(self._quorum.ids))

    def _crash_leader(self) -> None:
        for leader in self._quorum.leaders():
            self._crash(leader.voter_id)

    def _crash_all(self) -> None:
        for voter_id in self._quorum.ids:
            self._crash(voter_id)

    def _lose_disk(self) -> None:
        """A disk is not replaced so soon that what its voter had said could still be on its way."""
        voter_id = self._world.random.choice(self._quorum.ids)
        if voter_id in self._quorum.up and self._quorum.lose_disk(voter_id):
            self._replaced_s[voter_id] = self._world.now_s + 1.5
            self._world.after(1.6, partial(self._start, voter_id))

    def _start_all(self) -> None:
        for voter_id in self._quorum.ids:
            self._start(voter_id)

    def _heal(self) -> None:
        self._world.tell("heal")
        self._quorum.network.heal()

    def _pause(self) -> None:
        random = self._world.random
        up = sorted(self._quorum.up)
        if up:
            self._quorum.pause(random.choice(up), random.choice((0.1, 0.5, 2.0)))

    def _partition(self) -> None:
        random, network, ids = self._world.random, self._quorum.network, self._quorum.ids
        kind = random.choice(("halves", "leader", "one way", "bridge", "ring", "motley"))
        self._world.tell("partition:", kind)
        one = random.choice(ids)
        if kind == "halves":
            network.isolate(set(random.sample(ids, random.randint(1, len(ids) // 2))))
        elif kind == "leader":
            network.isolate({leader.voter_id for leader in self._quorum.leaders()})
        elif kind == "one way":
            others = [other for other in ids if other != one]
            network.block_one_way(one, set(random.sample(others, random.randint(1, len(others)))))
        elif kind == "bridge":
            network.bridge(one)
        elif kind == "ring":
            network.ring()
        else:
            network.motley(random.choice((0.2, 0.5)))
