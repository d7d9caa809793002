"""Our voters, driven by hand: the real engine over disks in memory."""

import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from log.filesystem.memory import Crash, MemoryFileSystem
from quorum.raft import frames, journal
from quorum.raft.frames import AnyMessage
from quorum.raft.port import Entry, Leadership, Outcome, Proposal
from quorum.raft.ports import Lane, RaftConfig
from quorum.raft.pysyncobj_engine import PysyncobjEngine
from tests.quorum.raft.clusters import ACKNOWLEDGED, Clock, Cluster, Told

DIRECTORY = "/raft"
BOOM = "boom"
"""A key that the state machine cannot apply."""
Job = tuple[Lane, Callable[[], None], Callable[[Exception | None], None]]


def new_disk(seed: int = 1) -> MemoryFileSystem:
    """A disk with the directory of a voter that has never voted."""
    disk = MemoryFileSystem(Random(seed))
    disk.make_directory(DIRECTORY)
    disk.sync_directory("")
    journal.create(disk, DIRECTORY)
    return disk


class Keys:
    """The state machine: commands in order, each a key and some padding."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.entries: list[Entry] = []
        self.restored_at: list[int] = []

    @property
    def keys(self) -> list[str]:
        return [command.split(".", 1)[0] for command in self.commands]

    def apply(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry.data:
            self.commands.append(entry.data.decode())
            if self.keys[-1] == BOOM:
                raise ValueError(BOOM)

    def capture(self) -> Callable[[], Iterable[bytes]]:
        commands = list(self.commands)
        return lambda: iter([json.dumps(commands).encode()])

    def restore(self, snapshot: bytes, *, index: int, term: int) -> None:
        self.commands = json.loads(snapshot)
        self.restored_at.append(index)


@dataclass(slots=True)
class Life:
    """One life of a voter's process, with the work that its executor has not done yet."""

    engine: PysyncobjEngine
    machine: Keys
    jobs: deque[Job] = field(default_factory=deque)
    failures: list[Exception] = field(default_factory=list)
    leaderships: list[Leadership] = field(default_factory=list)
    recovered: list[bool] = field(default_factory=list)

    def leadership_changed(self, leadership: Leadership) -> None:
        self.leaderships.append(leadership)

    def submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        self.jobs.append((lane, work, done))

    @property
    def inner(self) -> Any:
        """The pysyncobj inside, for what no port shows."""
        return self.engine._voter


@dataclass(frozen=True, slots=True)
class _Sender:
    cluster: "Voters"
    voter_id: int

    def send(self, voter_id: int, frame: bytes) -> None:
        self.cluster.send(self.voter_id, voter_id, frame)


class Voters(Cluster[bytes]):
    """Voters of ours, with the timeouts that are pysyncobj's default."""

    def __init__(self, clock: Clock, ids: Iterable[int], **settings: Any) -> None:
        super().__init__(clock, ids)
        self.disks = {voter_id: new_disk(voter_id) for voter_id in self.ids}
        self.lives: dict[int, Life] = {}
        self.held: set[tuple[int, Lane]] = set()
        """The voters whose disk is slow: their work waits until a test runs it."""
        self._settings = settings
        for voter_id in self.ids:
            self.start(voter_id)

    # ------------------------------------------------------------------------ life and death

    def start(self, voter_id: int, *, is_recovering: bool = False) -> Life:
        config = RaftConfig(
            voter_id=voter_id,
            voters=self.ids,
            **{
                "election_timeout_min_ms": 400,
                "election_timeout_max_ms": 1400,
                "resign_timeout_ms": 400,
                "heartbeat_ms": 100,
                "snapshot_entries": 10**9,
                **self._settings,
            },
        )
        machine, failures, recovered = Keys(), list[Exception](), list[bool]()
        holder: list[Life] = []
        engine = PysyncobjEngine(
            config,
            filesystem=self.disks[voter_id],
            directory=DIRECTORY,
            network=_Sender(self, voter_id),
            executor=_Submit(holder),
            machine=machine,
            observer=_Observe(holder),
            on_failure=failures.append,
            is_recovering=is_recovering,
            on_recovered=partial(recovered.append, True),
        )
        life = Life(engine, machine, failures=failures, recovered=recovered)
        holder.append(life)
        self.lives[voter_id] = life
        return life

    def crash(self, voter_id: int) -> None:
        """Power is lost: the disk keeps what it must, and the connections end."""
        self.isolate(voter_id)
        self.disks[voter_id].crash()
        del self.lives[voter_id]

    def restart(self, voter_id: int, *, is_recovering: bool = False) -> Life:
        life = self.start(voter_id, is_recovering=is_recovering)
        for other in self.lives:
            if other != voter_id:
                self.connect(voter_id, other)
        return life

    def act(self, voter_id: int, action: Callable[[], None]) -> None:
        """Lets a voter do something, and its executor what follows from it."""
        life = self.lives.get(voter_id)
        if life is None:
            return
        try:
            action()
            self.work(voter_id)
        except Crash:
            self.crash(voter_id)

    def work(self, voter_id: int) -> None:
        """Does the work that has been submitted, but for lanes that are held."""
        life = self.lives[voter_id]
        while job := next((job for job in life.jobs if (voter_id, job[0]) not in self.held), None):
            life.jobs.remove(job)
            self.run(job)

    def run(self, job: Job) -> None:
        _, work, done = job
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the engine decides
            done(error)
        else:
            done(None)

    # ------------------------------------------------------------------------- the scenario's

    def tick(self, node: int) -> None:
        if node in self.lives:
            self.act(node, self.lives[node].engine.tick)

    def put(self, node: int, key: str, *, size_bytes: int = 1, told: Told | None = None) -> None:
        tell = self.note(key, told)

        def done(proposal: Proposal) -> None:
            is_committed = proposal.outcome is Outcome.COMMITTED
            tell(ACKNOWLEDGED if is_committed else f"failed: {proposal.outcome.value}")

        command = f"{key}.{'x' * size_bytes}".encode()
        self.act(node, partial(self.lives[node].engine.propose, command, done))

    def applied(self, node: int) -> list[str]:
        return self.lives[node].machine.keys

    def leads(self, node: int) -> bool:
        return self.lives[node].engine.leadership.leader_id == node

    def last_index(self, node: int) -> int:
        return self.lives[node].engine.status().log_end_index - 1

    def elect(self, node: int, group: Iterable[int]) -> None:
        """Time passes until the others in the group would vote, and only the candidate asks."""
        self.clock.now_s += 1.5
        others = [other for other in group if other != node and other in self.lives]
        for other in others:
            self.lives[other].inner._SyncObj__raftElectionDeadline = self.clock.now_s + 2
            self.tick(other)
        self.lives[node].inner._SyncObj__raftElectionDeadline = 0
        for _ in range(4):
            self.tick(node)
            self.deliver_all()
        assert self.leads(node)

    def compact(self, node: int) -> None:
        self.lives[node].engine.snapshot()

    def say(self, sender: int, receiver: int, message: AnyMessage) -> None:
        """A message that the test makes up."""
        self._receive(sender, receiver, frames.encode(message))

    def heard(self, sender: int, receiver: int) -> list[AnyMessage]:
        """What waits on a link."""
        return [frames.decode(frame[4:]) for frame in self.waiting(sender, receiver)]

    def _receive(self, sender: int, receiver: int, message: bytes) -> None:
        if receiver in self.lives:
            received = self.lives[receiver].engine.received
            self.act(receiver, partial(received, sender, message[4:]))

    def _told_connected(self, node: int, other: int, connected: bool) -> None:
        if node in self.lives:
            engine = self.lives[node].engine
            (engine.connected if connected else engine.disconnected)(other)


@dataclass(frozen=True, slots=True)
class _Submit:
    """The executor of a life that begins once its engine has been made."""

    holder: list[Life]

    def submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        self.holder[0].submit(lane, work, done)


@dataclass(frozen=True, slots=True)
class _Observe:
    holder: list[Life]

    def leadership_changed(self, leadership: Leadership) -> None:
        self.holder[0].leadership_changed(leadership)
