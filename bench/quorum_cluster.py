"""Three voters as processes, which can be killed and watched.

A voter's process is `floodmark-quorum` itself with an engine that can be watched: commands on its
standard input make it take a snapshot and tell how long it was silent meanwhile.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import grpc

from bench.quorum_commands import LOOPBACK, VOTERS, free_ports
from bench.results import ROOT
from log.filesystem import OsFileSystem
from quorum import server
from quorum.api import quorum_pb2 as pb
from quorum.api.quorum_pb2_grpc import QuorumServiceStub
from quorum.raft import journal
from quorum.raft.node import RaftNode
from quorum.storage import format_storage

WATCHED_VOTER = "--voter"
CLUSTER_ID = "bench"
SESSION_TIMEOUT_MS = 120_000
"""So long that a busy machine fences nobody: fencing a broker of a large cluster is much work."""
DEADLINE_S = 60.0
POLL_S = 0.002

CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 50),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


# ---------------------------------------------------------------------------- a voter's process


class LongestGap:
    """Between events that should come regularly."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last_s = time.monotonic()

    def begin(self) -> None:
        self.longest_s = 0.0

    def note(self) -> None:
        now_s = time.monotonic()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s


class WatchedNode(RaftNode):
    """The engine, under commands of the benchmark."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ticked = LongestGap()
        self._heard = LongestGap()

    def start(self) -> None:
        super().start()
        threading.Thread(target=self._obey, name="bench", daemon=True).start()

    def tick_soon(self) -> None:
        """Called for every frame of another voter; only the leader sends a follower any."""
        self._heard.note()
        super().tick_soon()

    def _tick(self) -> None:
        self._ticked.note()
        super()._tick()

    def _obey(self) -> None:
        try:
            self._answer_commands()
        except TimeoutError as error:
            sys.stderr.write(f"{error}\n")
            os._exit(1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _answer_commands(self) -> None:
        for line in sys.stdin:
            answer = {}
            match line.strip():
                case "watch":
                    self._ticked.begin()
                    self._heard.begin()
                case "snapshot":
                    answer = {"snapshot_s": self._snapshot_s()}
                case "watched":
                    answer = {
                        "tick_ms": self._ticked.longest_s * 1000,
                        "heard_ms": self._heard.longest_s * 1000,
                    }
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()

    def _snapshot_s(self) -> float:
        """Without a change since the last one, none would be taken."""
        before = self.status().snapshot_index or 0
        _wait(lambda: self.status().applied_index > before, "a change")
        start = time.perf_counter()
        self.snapshot()
        _wait(lambda: (self.status().snapshot_index or 0) > before, "a snapshot")
        return time.perf_counter() - start


def _wait(condition: Callable[[], bool], what: str, *, pause_s: float = POLL_S) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(pause_s)


def run_voter(file: Path) -> int:
    """What a voter's process does."""
    with patch.object(server, "RaftNode", WatchedNode):
        return server.run(server.Sources(path=file, environment={}))


class VoterProcess:
    """One voter, through its lives."""

    def __init__(self, voter_id: int, file: Path, address: str) -> None:
        self.voter_id = voter_id
        self.address = address
        self._file = file
        self._process: subprocess.Popen[str] | None = None
        self._channel: grpc.Channel | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.quorum", WATCHED_VOTER, str(self._file)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._channel = grpc.insecure_channel(
            self.address,
            options=CHANNEL_OPTIONS,
        )

    def kill(self) -> None:
        """As a crash does."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._end()

    def _end(self) -> None:
        assert self._process is not None
        assert self._channel is not None
        self._channel.close()
        self._process.communicate(timeout=DEADLINE_S)
        self._process = None

    def describe(self) -> pb.DescribeQuorumResponse | None:
        """None if it does not answer."""
        if self._channel is None or self._process is None:
            return None
        try:
            stub = QuorumServiceStub(self._channel)
            return stub.DescribeQuorum(pb.DescribeQuorumRequest(), timeout=1)
        except grpc.RpcError:
            return None

    @property
    def is_active(self) -> bool:
        found = self.describe()
        return found is not None and found.is_controller_active

    def term(self) -> int:
        found = self.describe()
        if found is None:
            raise RuntimeError(f"voter {self.voter_id} does not answer")
        return found.leader_epoch

    def tell(self, command: str) -> None:
        self._pipe("stdin").write(command + "\n")
        self._pipe("stdin").flush()

    def told(self) -> dict[str, float]:
        answer: dict[str, float] = json.loads(self._pipe("stdout").readline())
        return answer

    def _pipe(self, name: str) -> IO[str]:
        pipe: IO[str] | None = getattr(self._process, name)
        assert pipe is not None
        return pipe

    def memory_mb(self, field: str = "VmRSS") -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) / 1024
        raise LookupError(field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """How the voters did while they were watched."""

    silence_ms: float
    """The longest time for which a follower heard nothing of its leader."""
    tick_ms: float
    """The longest time between two ticks of any voter's engine."""
    new_terms: int


class Cluster:
    """Three voters on loopback, with fsync, and all but the brokers' session at its default."""

    def __init__(self, place: Path) -> None:
        raft, grpc_ports, http = (free_ports(len(VOTERS)) for _ in range(3))
        self.voters = []
        for slot, voter_id in enumerate(VOTERS):
            directory = place / f"voter-{voter_id}"
            file = place / f"voter-{voter_id}.properties"
            lines = {
                "node.id": voter_id,
                "controller.quorum.voters": _listed(raft),
                "controller.quorum.endpoints": _listed(grpc_ports),
                "metadata.log.dir": directory,
                "listeners": f"CONTROLLER://{LOOPBACK}:{grpc_ports[slot]},"
                f"HTTP://{LOOPBACK}:{http[slot]}",
                "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
                "logging.level": "WARNING",
            }
            file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            format_storage(
                OsFileSystem(),
                str(directory),
                node_id=voter_id,
                cluster_id=CLUSTER_ID,
                create_journal=journal.create,
            )
            self.voters.append(VoterProcess(voter_id, file, f"{LOOPBACK}:{grpc_ports[slot]}"))

    @property
    def addresses(self) -> list[str]:
        return [voter.address for voter in self.voters]

    def start(self) -> None:
        for voter in self.voters:
            voter.start()
        self.wait_until_whole()

    def stop(self) -> None:
        for voter in self.voters:
            voter.stop()

    def kill(self) -> None:
        for voter in self.voters:
            voter.kill()

    def leader(self) -> VoterProcess:
        """Waits for one."""
        found: list[VoterProcess] = []

        def look() -> bool:
            found[:] = [voter for voter in self.voters if voter.is_active]
            return bool(found)

        _wait(look, "a leader")
        return found[0]

    def wait_until_whole(self) -> None:
        """Until the leader says that every voter has everything."""

        def look() -> bool:
            found = self.leader().describe()
            voters = [] if found is None else found.voters
            return len(voters) == len(self.voters) and all(map(_has_caught_up, voters))

        _wait(look, "voters that have caught up", pause_s=0.05)

    def failover_ms(self) -> float:
        """From the leader's death until another voter takes commands."""
        self.wait_until_whole()
        leader = self.leader()
        others = [voter for voter in self.voters if voter is not leader]
        start = time.perf_counter()
        leader.kill()
        _wait(lambda: any(voter.is_active for voter in others), "a new leader")
        taken_ms = (time.perf_counter() - start) * 1000
        leader.start()
        self.wait_until_whole()
        return taken_ms

    def watch(self) -> Callable[[], Watched]:
        """Begins to watch; the function that it returns tells what was seen."""
        term_before = self.leader().term()
        self._ask("watch")

        def end() -> Watched:
            leader = self.leader()
            found = self._ask("watched")
            followers = (
                seen for voter, seen in zip(self.voters, found, strict=True) if voter is not leader
            )
            return Watched(
                silence_ms=max(seen["heard_ms"] for seen in followers),
                tick_ms=max(seen["tick_ms"] for seen in found),
                new_terms=leader.term() - term_before,
            )

        return end

    def take_snapshots(self) -> float:
        """Of all voters at once; the seconds until the slowest has one."""
        return max(taken["snapshot_s"] for taken in self._ask("snapshot"))

    def _ask(self, command: str) -> list[dict[str, float]]:
        for voter in self.voters:
            voter.tell(command)
        return [voter.told() for voter in self.voters]


def _has_caught_up(voter: pb.DescribeQuorumResponse.Replica) -> bool:
    return voter.lag == 0 and voter.HasField("last_caught_up_timestamp_ms")


def _listed(ports: list[int]) -> str:
    return ",".join(f"{voter}@{LOOPBACK}:{port}" for voter, port in zip(VOTERS, ports, strict=True))


@contextmanager
def running(place: Path) -> Iterator[Cluster]:
    place.mkdir()
    cluster = Cluster(place)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
