"""The metadata quorum in the simulator: voters on the real engine, and what must always hold.

Each voter is a `PysyncobjEngine` over a file system in memory that keeps what was synced and
tears the rest, a network that does its worst, and an executor whose disk may be slow. Its state
machine is a list of commands, so that everything that was ever applied can be compared.

Invariants, by the names that a violation carries:

* election safety: no two leaders in one term.
* leader completeness: a leader holds every entry that was applied anywhere in an earlier term.
* state machine safety: no two voters ever apply different entries at one index.
* applied once: no command is applied at two indexes.
* honest outcome: what was told to have failed for certain is never applied.
* acknowledged is kept: in the end every voter has applied every acknowledged command.
* linearizable read: a read's index covers everything acknowledged before it was asked for.
* resignation: a leader that has not heard from a majority for an election timeout no longer leads.
* restart: a voter that crashed starts again from what its disk kept.
* no failure: no voter ever stops by itself.
* convergence: once the faults are over, one leader emerges and all voters apply the same.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from floodmark.errors import UserError
from jepsen_style.sim.network import SimNetwork
from jepsen_style.sim.world import Violation, World
from log.filesystem.memory import Crash, CrashNow, Fault, MemoryFileSystem, Operation
from quorum.raft import journal
from quorum.raft.journal_format import Damaged
from quorum.raft.port import Entry, Leadership, Outcome, Proposal
from quorum.raft.ports import Lane, RaftConfig
from quorum.raft.pysyncobj_engine import PysyncobjEngine, simulated_time

TICK_S = 0.01
MAX_COMMAND_BYTES = 80
FAST_DISK_S = (0.0005, 0.002)
DIRECTORY = "/raft"


@dataclass(slots=True, kw_only=True)
class Temper:
    """How the disks and the voters behave, in this seed."""

    flush_s: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """How long each voter's disk takes."""
    crash_in_operation: float = 0.0
    snapshot_entries: int = 10**9
    paddings: tuple[int, ...] = (0, 60)
    append_bytes: int = 100
    """Small, so that the leader needs many messages for a few commands."""
    election_timeout_ms: tuple[int, int] = (300, 600)


class Commands:
    """The state machine: the commands, in order."""

    def __init__(self, applied: Callable[[Entry], None]) -> None:
        self.commands: list[str] = []
        self.index = 0
        self.restores = 0
        self._applied = applied

    def apply(self, entry: Entry) -> None:
        self.index = entry.index
        if entry.data:
            self.commands.append(entry.data.decode())
        self._applied(entry)

    def capture(self) -> Callable[[], Iterable[bytes]]:
        commands = list(self.commands)
        return lambda: iter([json.dumps(commands).encode()])

    def restore(self, snapshot: bytes, *, index: int, term: int) -> None:
        self.commands = json.loads(snapshot)
        self.index = index
        self.restores += 1


@dataclass(slots=True)
class Voter:
    """One life of a voter's process."""

    voter_id: int
    life: int
    engine: PysyncobjEngine
    machine: Commands
    restores_at_start: int
    led_since_s: float | None = None
    heard_s: dict[int, float] = field(default_factory=dict)
    """When it last took something from each of the others."""
    paused: bool = False
    inbox: list[Callable[[], None]] = field(default_factory=list)
    """What happened while it was paused."""


class SimQuorum:
    """Some voters, clients that use them, and the memory of everything that happened."""

    def __init__(self, world: World, *, voters: int, temper: Temper) -> None:
        self.world = world
        self.temper = temper
        self.ids = tuple(range(1, voters + 1))
        self.network = SimNetwork(world, self.ids, self._deliver)
        self.up: dict[int, Voter] = {}
        self.on_acknowledged: Callable[[int], None] = lambda voter_id: None
        self.on_leader: Callable[[int], None] = lambda voter_id: None
        self.on_vote: Callable[[int], None] = lambda voter_id: None
        self.on_append: Callable[[int, bytes], None] = lambda voter_id, frame: None
        self.acknowledged: dict[str, int] = {}
        self.acknowledged_to = 0
        self.counts = dict.fromkeys(
            (
                "acknowledged",
                "reads",
                "crashes",
                "crashes in disk operations",
                "leaders",
                "lost disks",
                "installs",
            ),
            0,
        )
        self._disks: dict[int, MemoryFileSystem] = {}
        self._lives = dict.fromkeys(self.ids, 0)
        self._applied: dict[int, tuple[int, bytes]] = {}
        self._applied_to = 0
        self._indexes: dict[bytes, int] = {}
        self._refused: set[bytes] = set()
        self._leaders: dict[int, int] = {}
        self._sequence = 0
        self._recovering: int | None = None
        for voter_id in self.ids:
            self._new_disk(voter_id)
            self.start(voter_id)

    # -------------------------------------------------------------------------- life and death

    def start(self, voter_id: int) -> None:
        """Starts a voter from what its disk holds."""
        disk = self._disks[voter_id]
        disk.on_operation = lambda _: None
        self._lives[voter_id] += 1
        life = self._lives[voter_id]
        machine = Commands(lambda entry: self._check_applied(voter_id, entry))
        low, high = self.temper.election_timeout_ms
        try:
            engine = PysyncobjEngine(
                RaftConfig(
                    voter_id=voter_id,
                    voters=self.ids,
                    election_timeout_min_ms=low,
                    election_timeout_max_ms=high,
                    resign_timeout_ms=low,
                    heartbeat_ms=min(50, low // 4),
                    snapshot_entries=self.temper.snapshot_entries,
                    max_command_bytes=MAX_COMMAND_BYTES,
                    append_bytes=self.temper.append_bytes,
                ),
                filesystem=disk,
                directory=DIRECTORY,
                network=_Sender(self.network, voter_id),
                executor=_SimExecutor(self, voter_id, life),
                machine=machine,
                observer=_Observer(self, voter_id),
                on_failure=partial(self._failed, voter_id),
                is_recovering=voter_id == self._recovering,
                on_recovered=self._recovered,
            )
        except (Damaged, UserError) as error:
            raise Violation("restart", f"voter {voter_id} does not start: {error}") from error
        disk.on_operation = self._on_operation
        voter = self.up[voter_id] = Voter(voter_id, life, engine, machine, machine.restores)
        self.world.tell("start", voter_id)
        for other in self.ids:
            if other != voter_id:
                engine.connected(other)
        self.world.after(self.world.random.uniform(0, TICK_S), partial(self._tick, voter))

    def crash(self, voter_id: int) -> None:
        """Kills a voter's process and cuts its machine's power."""
        voter = self.up.pop(voter_id, None)
        if voter is not None:
            self.counts["crashes"] += 1
            self.counts["installs"] += voter.machine.restores - voter.restores_at_start
            self.world.tell("crash", voter_id)
            self._disks[voter_id].crash()

    def lose_disk(self, voter_id: int) -> bool:
        """Kills a voter, and gives it a new disk, from which it has to recover.

        Only if no other recovers: what a majority has lost, nobody can bring back.
        """
        if self._recovering is not None:
            return False
        self.crash(voter_id)
        self.world.tell("lose the disk of", voter_id)
        self.counts["lost disks"] += 1
        self._recovering = voter_id
        self._new_disk(voter_id)
        return True

    def _new_disk(self, voter_id: int) -> None:
        disk = self._disks[voter_id] = MemoryFileSystem(self.world.random)
        disk.make_directory(DIRECTORY)
        disk.sync_directory("")
        journal.create(disk, DIRECTORY)

    def _recovered(self) -> None:
        self.world.tell("recovered", self._recovering)
        self._recovering = None

    def pause(self, voter_id: int, seconds: float) -> None:
        """Stops a voter's process for a while, as SIGSTOP would."""
        voter = self.up[voter_id]
        if voter.paused:
            return
        voter.paused = True
        self.world.tell("pause", voter_id, f"{seconds:.3f}")
        self.world.after(seconds, partial(self._resume, voter))

    def _resume(self, voter: Voter) -> None:
        voter.paused = False
        if self._is_up(voter):
            # Its clock went on meanwhile. What its sockets still hold may come first.
            inbox, voter.inbox = voter.inbox, []
            if self.world.chance(0.5):
                self.act(voter, voter.engine.tick)
            for happened in inbox:
                self.act(voter, happened)

    def act(self, voter: Voter, action: Callable[[], None]) -> None:
        """Lets a voter do something; its disk may lose its power meanwhile."""
        if not self._is_up(voter):
            return
        if voter.paused:
            voter.inbox.append(action)
            return
        try:
            action()
        except Crash:
            self.counts["crashes in disk operations"] += 1
            self.crash(voter.voter_id)

    def _is_up(self, voter: Voter) -> bool:
        return self.up.get(voter.voter_id) is voter

    def _on_operation(self, _: Operation) -> Fault | None:
        if self.world.chance(self.temper.crash_in_operation):
            return CrashNow(done=self.world.random.random())
        return None

    def _failed(self, voter_id: int, error: Exception) -> None:
        raise Violation("no failure", f"voter {voter_id} stopped: {error!r}")

    # ------------------------------------------------------------------------------- time passes

    def _tick(self, voter: Voter) -> None:
        if not self._is_up(voter):
            return
        self.world.after(TICK_S, partial(self._tick, voter))
        if not voter.paused:
            self.act(voter, voter.engine.tick)
            self._check_resignation(voter)

    def _deliver(self, sender: int, receiver: int, frame: bytes) -> None:
        voter = self.up.get(receiver)
        if voter is None:
            return

        def take() -> None:
            voter.heard_s[sender] = self.world.now_s
            voter.engine.received(sender, frame[4:])

        self.act(voter, take)
        if b"\xa4vote" in frame[:16]:
            self.on_vote(sender)
        elif b"\xa6append" in frame[:16]:
            self.on_append(sender, frame)
        if self.world.chance(0.5):
            self.act(voter, voter.engine.tick)

    # --------------------------------------------------------------------------------- clients

    def leaders(self) -> list[Voter]:
        """Those that believe to lead."""
        return [v for _, v in sorted(self.up.items()) if v.led_since_s is not None and not v.paused]

    def write(self, voter: Voter, count: int) -> None:
        """A client's commands, all at once."""
        for _ in range(count):
            self._sequence += 1
            padding = self.world.random.choice(self.temper.paddings)
            data = f"c{self._sequence}".encode() + b"." * padding
            self.act(
                voter, partial(voter.engine.propose, data, partial(self._written, voter, data))
            )

    def _written(self, voter: Voter, data: bytes, proposal: Proposal) -> None:
        if proposal.outcome is Outcome.COMMITTED:
            if proposal.index is None or self._indexes.get(data) != proposal.index:
                raise Violation("honest outcome", f"{data!r} is not at {proposal.index}")
            self.acknowledged[data.decode()] = proposal.index
            self.acknowledged_to = max(self.acknowledged_to, proposal.index)
            self.counts["acknowledged"] += 1
            self.world.after(0, partial(self.on_acknowledged, voter.voter_id))
        elif proposal.outcome is not Outcome.UNKNOWN:
            if data in self._indexes:
                raise Violation("honest outcome", f"{data!r} was {proposal.outcome}, and applied")
            self._refused.add(data)

    def read(self, voter: Voter) -> None:
        """A client's linearizable read."""
        before = self.acknowledged_to

        def answered(index: int | None) -> None:
            if index is None:
                return
            self.counts["reads"] += 1
            if index < before or voter.machine.index < before:
                raise Violation(
                    "linearizable read",
                    f"voter {voter.voter_id} read at {index}, {before} was acknowledged before",
                )

        self.act(voter, partial(voter.engine.read_index, answered))

    # ------------------------------------------------------------------------------- invariants

    def _check_applied(self, voter_id: int, entry: Entry) -> None:
        applied = (entry.term, entry.data)
        first = self._applied.setdefault(entry.index, applied)
        if first != applied:
            raise Violation(
                "state machine safety",
                f"voter {voter_id} applies {applied} at {entry.index}, another applied {first}",
            )
        self._applied_to = max(self._applied_to, entry.index)
        if entry.data:
            if self._indexes.setdefault(entry.data, entry.index) != entry.index:
                raise Violation(
                    "applied once", f"{entry.data!r} at {self._indexes[entry.data]}, {entry.index}"
                )
            if entry.data in self._refused:
                raise Violation("honest outcome", f"{entry.data!r} was refused, and is applied")

    def leadership_changed(self, voter_id: int, leadership: Leadership) -> None:
        voter = self.up.get(voter_id)
        if voter is None:
            return
        if leadership.leader_id != voter_id:
            voter.led_since_s = None
            return
        if voter.led_since_s is not None:
            return
        voter.led_since_s = self.world.now_s
        self.counts["leaders"] += 1
        self.world.tell("leader", voter_id, "term", leadership.term)
        other = self._leaders.setdefault(leadership.term, voter_id)
        if other != voter_id:
            raise Violation(
                "election safety", f"{other} and {voter_id} lead in term {leadership.term}"
            )
        self._check_complete(voter, leadership.term)
        self.world.after(0, partial(self.on_leader, voter_id))

    def _check_complete(self, voter: Voter, term: int) -> None:
        """By the log matching property the last such entry stands for all before it."""
        last = self._applied_to
        if not last or self._applied[last][0] >= term:
            return
        status = voter.engine.status()
        if last < status.log_start_index:
            return
        held = voter.engine.term_at(last)
        if held != self._applied[last][0]:
            raise Violation(
                "leader completeness",
                f"voter {voter.voter_id} leads in term {term} with an entry of term {held} at "
                f"{last}; one of term {self._applied[last][0]} was applied there",
            )

    def _check_resignation(self, voter: Voter) -> None:
        if voter.led_since_s is None or len(self.ids) == 1:
            return
        patience_s = self.temper.election_timeout_ms[0] / 1000 + 3 * TICK_S
        deadline_s = self.world.now_s - patience_s
        heard = sum(
            max(voter.heard_s.get(other, 0.0), voter.led_since_s) > deadline_s
            for other in self.ids
            if other != voter.voter_id
        )
        if heard + 1 <= len(self.ids) // 2:
            raise Violation(
                "resignation",
                f"voter {voter.voter_id} still leads, having heard from {heard} of the others",
            )

    # ------------------------------------------------------------------------------- the end

    def end(self) -> None:
        """Ends all faults, and waits for the voters to agree."""
        self.temper.crash_in_operation = 0.0
        self.on_acknowledged = self.on_vote = self.on_leader = lambda voter_id: None
        self.on_append = lambda voter_id, frame: None
        self.network.is_calm = True
        self.network.weather.drop = 0.0
        self.network.weather.double = 0.0
        for voter_id in self.ids:
            if voter_id not in self.up:
                self.start(voter_id)
        self.world.tell("calm")
        if not self.world.run(60, self._agree):
            states = {v.voter_id: v.engine.status() for v in self.up.values()}
            raise Violation("convergence", f"no agreement after 60 s: {states}")
        for voter in self.up.values():
            have = set(voter.machine.commands)
            lost = [command for command in self.acknowledged if command not in have]
            if lost:
                raise Violation(
                    "acknowledged is kept", f"voter {voter.voter_id} lacks {len(lost)}: {lost[:3]}"
                )

    def _agree(self) -> bool:
        leaders = self.leaders()
        if len(leaders) != 1 or not leaders[0].engine.leadership.is_active:
            return False
        end = leaders[0].engine.status().log_end_index
        voters = self.up.values()
        return (
            all(v.machine.index == end - 1 for v in voters)
            and len({tuple(v.machine.commands) for v in voters}) == 1
        )


@dataclass(slots=True)
class _Sender:
    network: SimNetwork
    voter_id: int

    def send(self, voter_id: int, frame: bytes) -> None:
        self.network.send(self.voter_id, voter_id, frame)


@dataclass(slots=True)
class _Observer:
    quorum: SimQuorum
    voter_id: int

    def leadership_changed(self, leadership: Leadership) -> None:
        self.quorum.leadership_changed(self.voter_id, leadership)


class _SimExecutor:
    """Does the work when its time has come; what a crash finds undone stays undone."""

    def __init__(self, quorum: SimQuorum, voter_id: int, life: int) -> None:
        self._quorum = quorum
        self._voter_id = voter_id
        self._life = life
        self._free_s = dict.fromkeys(Lane, 0.0)

    def submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        quorum, world = self._quorum, self._quorum.world

        def finish() -> None:
            voter = quorum.up.get(self._voter_id)
            if voter is None or voter.life != self._life:
                return

            def act() -> None:
                work()
                done(None)

            quorum.act(voter, act)

        start_s = max(world.now_s, self._free_s[lane])
        self._free_s[lane] = start_s + world.random.choice(
            quorum.temper.flush_s.get(self._voter_id, FAST_DISK_S)
        )
        world.after(self._free_s[lane] - world.now_s, finish)


__all__ = ["SimQuorum", "Temper", "Voter", "simulated_time"]
