"""Commands through Raft: a quorum of three processes whose leader is this one, and its peers.

Commands are proposed inside the leader's process, as the active controller proposes them. The two
followers are processes of their own, patient enough that this one wins every election.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated

from bench.results import ROOT
from floodmark.addresses import Address
from log.filesystem import OsFileSystem
from quorum.raft import journal
from quorum.raft.node import RaftNode, RaftNodeOptions
from quorum.raft.port import Entry, Leadership, Outcome, Proposal
from quorum.raft.ports import RaftConfig
from quorum.raft.transport import Peers

RAFT_VOTER = "--raft-voter"
STOCK_VOTER = "--stock-voter"
COMMAND = bytes(100)
LEADER = 1
VOTERS = (1, 2, 3)
PATIENT_MS = 20_000
"""The election timeout of a follower that is not to lead."""
DEADLINE_S = 30.0
LOOPBACK = "127.0.0.1"

Told = Callable[[bool], None]
Propose = Callable[[Told], None]


# ------------------------------------------------------------------------- how commands are given


def sequential(propose: Propose, count: int = 1) -> None:
    """Each command after the one before is committed."""
    committed = threading.Event()

    def told(success: bool) -> None:
        if success:
            committed.set()

    for _ in range(count):
        committed.clear()
        propose(told)
        if not committed.wait(DEADLINE_S):
            raise TimeoutError("a command was not committed")


def pipelined(propose: Propose, count: int, *, window: int = 1000) -> None:
    """As many commands at a time as the window holds."""
    room = threading.Semaphore(window)
    failed: list[bool] = []

    def told(success: bool) -> None:
        if not success:
            failed.append(success)
        room.release()

    for _ in range(count):
        if not room.acquire(timeout=DEADLINE_S):
            raise TimeoutError("commands were not committed")
        propose(told)
    for _ in range(window):
        if not room.acquire(timeout=DEADLINE_S):
            raise TimeoutError("commands were not committed")
    assert not failed, f"{len(failed)} of {count} commands were not committed"


# ------------------------------------------------------------------------------------------- ours


class Counter:
    """A state machine that counts, and the observer that knows when its voter leads."""

    def __init__(self) -> None:
        self.applied = 0
        self.is_active = threading.Event()

    def apply(self, entry: Entry) -> None:
        self.applied += 1

    def capture(self) -> Callable[[], Iterable[bytes]]:
        state = str(self.applied).encode()
        return lambda: (state,)

    def restore(self, snapshot: bytes, *, index: int, term: int) -> None:
        self.applied = int(snapshot)

    def leadership_changed(self, leadership: Leadership) -> None:
        if leadership.is_active:
            self.is_active.set()


def raft_node(voter_id: int, directory: Path, ports: list[int], counter: Counter) -> RaftNode:
    addresses = {voter: Address(LOOPBACK, port) for voter, port in zip(VOTERS, ports, strict=True)}
    patience = (
        {}
        if voter_id == LEADER
        else {"election_timeout_min_ms": PATIENT_MS, "election_timeout_max_ms": 2 * PATIENT_MS}
    )
    options = RaftNodeOptions(
        config=RaftConfig(voter_id=voter_id, voters=VOTERS, **patience),
        filesystem=OsFileSystem(),
        directory=str(directory),
        peers=Peers(
            voter_id=voter_id,
            cluster_id="bench",
            addresses={voter: at for voter, at in addresses.items() if voter != voter_id},
        ),
        listen=addresses[voter_id],
    )
    return RaftNode(options, counter, counter, _give_up)


def _give_up(error: BaseException) -> None:
    sys.stderr.write(f"a voter has failed: {error!r}\n")
    os._exit(1)


@contextmanager
def our_leader(place: Path) -> Iterator[Propose]:
    """Proposes a command to a quorum of ours."""
    ports = free_ports(len(VOTERS))
    with ExitStack() as stack:
        for voter_id in VOTERS:
            directory = place / f"raft-{voter_id}"
            directory.mkdir()
            journal.create(OsFileSystem(), str(directory))
            if voter_id != LEADER:
                stack.enter_context(_follower(RAFT_VOTER, voter_id, directory, ports))
        counter = Counter()
        node = raft_node(LEADER, place / f"raft-{LEADER}", ports, counter)
        node.start()
        stack.callback(node.stop)
        if not counter.is_active.wait(DEADLINE_S):
            raise TimeoutError("no leader")

        def propose(told: Told) -> None:
            def done(proposal: Proposal) -> None:
                told(proposal.outcome is Outcome.COMMITTED)

            node.propose(COMMAND, done)

        yield propose


# -------------------------------------------------------------------------------------- its peers


class StockVoter(SyncObj):  # type: ignore[misc]
    """pysyncobj as it is shipped, with its journal, which it never syncs."""

    def __init__(self, voter_id: int, directory: Path, ports: list[int]) -> None:
        addresses = dict(zip(VOTERS, (f"{LOOPBACK}:{port}" for port in ports), strict=True))
        patience_s = 1.0 if voter_id == LEADER else PATIENT_MS / 1000
        super().__init__(
            addresses[voter_id],
            [address for voter, address in addresses.items() if voter != voter_id],
            SyncObjConf(
                journalFile=str(directory / "journal"),
                appendEntriesUseBatch=False,  # with it, a command takes 100 ms
                raftMinTimeout=patience_s,
                raftMaxTimeout=2 * patience_s,
                connectionTimeout=2 * patience_s + 3.5,
                bindAddress=addresses[voter_id],
                logCompactionMinEntries=10**9,
                logCompactionMinTime=10**9,
            ),
        )
        self.applied = 0

    @replicated  # type: ignore[untyped-decorator]
    def add(self, command: bytes) -> None:
        self.applied += 1


@contextmanager
def stock_leader(place: Path) -> Iterator[Propose]:
    """Proposes a command to a quorum of stock pysyncobj."""
    ports = free_ports(len(VOTERS))
    with ExitStack() as stack:
        for voter_id in VOTERS:
            directory = place / f"stock-{voter_id}"
            directory.mkdir()
            if voter_id != LEADER:
                stack.enter_context(_follower(STOCK_VOTER, voter_id, directory, ports))
        voter: Any = StockVoter(LEADER, place / f"stock-{LEADER}", ports)
        stack.callback(voter.destroy)
        deadline = time.monotonic() + DEADLINE_S
        while not (voter._isLeader() and voter.isReady()):
            if time.monotonic() > deadline:
                raise TimeoutError("stock pysyncobj has no leader")
            time.sleep(0.01)

        def propose(told: Told) -> None:
            voter.add(COMMAND, callback=lambda _, reason: told(reason == 0))

        yield propose


class SyncedFile:
    """A command's bytes on one disk, once: the least that a durable command can cost."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self) -> None:
        os.write(self._descriptor, COMMAND)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


# -------------------------------------------------------------------------------------- followers


@contextmanager
def _follower(
    kind: str, voter_id: int, directory: Path, ports: list[int]
) -> Iterator[subprocess.Popen[str]]:
    """A follower in a process of its own, which ends with its standard input."""
    command = [sys.executable, "-m", "bench.quorum", kind, str(voter_id), str(directory)]
    process = subprocess.Popen(
        [*command, *map(str, ports)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("a follower does not start")
        yield process
    finally:
        process.kill()
        process.communicate()


def run_follower(kind: str, voter_id: int, directory: Path, ports: list[int]) -> None:
    """What a follower's process does until its standard input ends."""
    if kind == RAFT_VOTER:
        raft_node(voter_id, directory, ports, Counter()).start()
    else:
        StockVoter(voter_id, directory, ports)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)


def free_ports(count: int) -> list[int]:
    """Ports that nobody had a moment ago: a voter must know the others' before they start."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports
