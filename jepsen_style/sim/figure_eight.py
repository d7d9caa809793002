"""Figure 8 of the Raft paper as a nemesis: why a leader may not count entries of earlier terms.

1. A leader and one friend are cut off just as they store two commands: `first`.
2. The others elect a rival. It is cut off the moment it leads, with nothing but its own first
   entry on its own disk, whose term is later than that of the two commands.
3. One of the first two leads again, and passes the commands on: a majority has them. It falls
   silent before an entry of its own term gets through.
4. It and its friend lose their power, and the rival is back. It may lead now, and replaces the two
   commands: whoever took them for committed has been wrong.
"""

from collections.abc import Callable
from functools import partial

from jepsen_style.sim.quorum import SimQuorum
from quorum.raft import frames

ROUND_S = 3.0


class FigureEight:
    """Plays the figure again and again."""

    def __init__(self, quorum: SimQuorum, start: Callable[[int], None]) -> None:
        self._quorum = quorum
        self._start = start
        self._first: set[int] = set()
        self._step = 0
        self._round = 0
        temper = quorum.temper
        temper.append_bytes = 82
        temper.paddings = (72,)  # two commands fill a message
        temper.crash_in_operation = 0.0
        temper.snapshot_entries = 10**9
        temper.flush_s = {}

    def begin(self) -> None:
        """Begins a round if somebody leads; ends the one before."""
        quorum = self._quorum
        quorum.network.heal()
        for voter_id in quorum.ids:
            self._start(voter_id)
        leaders = quorum.leaders()
        if len(leaders) != 1 or not leaders[0].engine.leadership.is_active:
            return
        leader = leaders[0]
        friend = next(i for i in quorum.ids if i != leader.voter_id)
        self._first = {leader.voter_id, friend}
        quorum.world.tell("figure 8:", sorted(self._first), "are cut off")
        quorum.network.isolate(self._first)
        quorum.write(leader, 2)
        self._step = 1

    def at_leader(self, voter_id: int) -> None:
        if self._step == 1 and voter_id not in self._first:
            self._quorum.world.tell("figure 8: rival", voter_id)
            self._quorum.network.isolate({voter_id})
            self._step = 2

    def at_append(self, leader_id: int, frame: bytes) -> None:
        if self._step != 2 or leader_id not in self._first:
            return
        message = frames.decode(frame[4:])
        if not isinstance(message, frames.AppendEntries) or not message.entries:
            return
        if message.entries[-1][2] < message.term:
            quorum = self._quorum
            quorum.world.tell("figure 8:", leader_id, "falls silent")
            others = set(quorum.ids) - self._first
            quorum.network.block({(a, b) for a in self._first for b in others})
            quorum.world.after(0.08, self._swap)
            self._step = 3

    def _swap(self) -> None:
        for voter_id in sorted(self._first):
            self._quorum.crash(voter_id)
            self._quorum.world.after(2.0, partial(self._start, voter_id))
        self._quorum.network.heal()
