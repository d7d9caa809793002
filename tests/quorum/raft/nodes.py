"""Voters with real sockets and disks, in this process."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from floodmark.addresses import Address
from floodmark.tls import TlsFiles
from log.filesystem import OsFileSystem
from quorum.raft import journal
from quorum.raft.node import RaftNode, RaftNodeOptions
from quorum.raft.port import Entry, Leadership, Outcome, Proposal
from quorum.raft.ports import RaftConfig
from quorum.raft.transport import Peers

DEADLINE_S = 20.0


class Recorder:
    """A state machine and observer that remembers."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.leadership: Leadership | None = None

    def apply(self, entry: Entry) -> None:
        if entry.data:
            self.commands.append(entry.data)

    def capture(self) -> Callable[[], list[bytes]]:
        commands = list(self.commands)
        return lambda: [b"\n".join(commands)]

    def restore(self, snapshot: bytes, *, index: int, term: int) -> None:
        self.commands = snapshot.split(b"\n") if snapshot else []

    def leadership_changed(self, leadership: Leadership) -> None:
        self.leadership = leadership


class Voter:
    """One voter and what it has seen."""

    def __init__(self, options: RaftNodeOptions) -> None:
        self.recorder = Recorder()
        self.failures: list[BaseException] = []
        self.node = RaftNode(options, self.recorder, self.recorder, self.failures.append)


class Voters:
    """A quorum on loopback. Start the voters by `start`; they stop with the context."""

    def __init__(
        self,
        directory: Path,
        *,
        count: int = 3,
        tls: Callable[[int], TlsFiles] | None = None,
        snapshot_entries: int = 50_000,
    ) -> None:
        self.ids = tuple(range(1, count + 1))
        self.up: dict[int, Voter] = {}
        self._directory = directory
        self._tls = tls
        self._snapshot_entries = snapshot_entries
        self.addresses = dict(zip(self.ids, free_addresses(count), strict=True))
        for voter_id in self.ids:
            path = directory / str(voter_id)
            path.mkdir()
            journal.create(OsFileSystem(), str(path))

    def __enter__(self) -> "Voters":
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for voter_id in list(self.up):
                stack.callback(self.stop, voter_id)

    def start(self, *voter_ids: int) -> None:
        for voter_id in voter_ids or self.ids:
            self.up[voter_id] = Voter(self.options(voter_id))
            self.up[voter_id].node.start()

    def stop(self, voter_id: int) -> None:
        self.up.pop(voter_id).node.stop()

    def options(self, voter_id: int) -> RaftNodeOptions:
        return RaftNodeOptions(
            config=RaftConfig(
                voter_id=voter_id, voters=self.ids, snapshot_entries=self._snapshot_entries
            ),
            filesystem=OsFileSystem(),
            directory=str(self._directory / str(voter_id)),
            peers=Peers(
                voter_id=voter_id,
                cluster_id="test",
                addresses={i: a for i, a in self.addresses.items() if i != voter_id},
                tls=self._tls(voter_id) if self._tls else None,
                certificate_name=lambda other: f"quorum-{other}",
            ),
            listen=self.addresses[voter_id],
        )

    def leader(self) -> Voter:
        """Waits for an active leader."""
        found: list[Voter] = []

        def look() -> bool:
            found[:] = [
                voter
                for voter in self.up.values()
                if voter.recorder.leadership is not None and voter.recorder.leadership.is_active
            ]
            return len(found) == 1

        wait_for(look, "a leader")
        return found[0]

    def write(self, data: bytes) -> Proposal:
        """Proposes to whoever leads until it is committed; never after an unknown outcome."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            proposal = propose(self.leader().node, data)
            if proposal.outcome is not Outcome.NOT_LEADER:
                return proposal
        raise TimeoutError("nobody takes a proposal")


def propose(node: RaftNode, data: bytes) -> Proposal:
    done = threading.Event()
    proposals: list[Proposal] = []

    def finished(proposal: Proposal) -> None:
        proposals.append(proposal)
        done.set()

    node.propose(data, finished)
    if not done.wait(DEADLINE_S):
        raise TimeoutError("no outcome")
    return proposals[0]


def read_index(node: RaftNode) -> int | None:
    done = threading.Event()
    indexes: list[int | None] = []

    def finished(index: int | None) -> None:
        indexes.append(index)
        done.set()

    node.read_index(finished)
    if not done.wait(DEADLINE_S):
        raise TimeoutError("no answer to a read")
    return indexes[0]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.005)


def free_addresses(count: int) -> list[Address]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [Address("127.0.0.1", sock.getsockname()[1]) for sock in sockets]
