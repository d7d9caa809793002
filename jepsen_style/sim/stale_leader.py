"""A leader that sleeps through its successor's election, as a nemesis: why reads have to ask.

1. A leader's process stops while the answers to its last heartbeat are on their way.
2. It hears nothing after them; the others elect somebody else and go on.
3. It wakes up. The first that it finds are those answers: from its own point of view a majority
   has just spoken to it. Whoever reads from it now must not get an answer.
"""

from jepsen_style.sim.quorum import SimQuorum
from quorum.raft import frames

ROUND_S = 2.5


class StaleLeader:
    """Plays this again and again."""

    def __init__(self, quorum: SimQuorum) -> None:
        self._quorum = quorum
        self._victim: int | None = None
        quorum.temper.crash_in_operation = 0.0
        quorum.temper.flush_s = {}

    def begin(self) -> None:
        self._quorum.network.heal()
        for leader in self._quorum.leaders():
            if leader.engine.leadership.is_active:
                self._victim = leader.voter_id

    def at_append(self, leader_id: int, frame: bytes) -> None:
        if leader_id != self._victim or leader_id not in self._quorum.up:
            return
        message = frames.decode(frame[4:])
        if isinstance(message, frames.AppendEntries) and message.entries:
            return
        self._victim = None
        quorum = self._quorum
        quorum.world.tell("stale leader:", leader_id)
        quorum.pause(leader_id, quorum.world.random.uniform(1.0, 1.5))
        links = {(other, leader_id) for other in quorum.ids if other != leader_id}
        quorum.world.after(0.1, lambda: quorum.network.block(links))
