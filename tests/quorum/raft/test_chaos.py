"""Three voters, each a process, killed and paused under load: nothing acknowledged is lost.

A failing run prints its seed; CHAOS_SEED=<seed> plays the same faults again, though real processes
do not repeat themselves exactly. The simulation is where a failure replays.
"""

import os
import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from jepsen_style.checkers.register import check_register
from jepsen_style.checkers.verdict import Validity
from jepsen_style.operations import Operation, Status
from log.filesystem import OsFileSystem
from quorum.raft import journal
from tests.quorum.fleet import Deed, Fault, Fleet
from tests.quorum.leadership_events import LeadershipEvent, count_kills, newest_leader
from tests.quorum.nemesis import Nemesis
from tests.quorum.raft.nodes import free_addresses, wait_for
from tests.quorum.raft.register_clients import KEYS, RegisterClient, ask_states, merged
from tests.quorum.raft.register_judgement import judge, judge_writes
from tests.quorum.raft.voter_process import Answer, Setup

VOTERS = (1, 2, 3)
CLIENTS = 4
CHAOS_S = 60.0
SNAPSHOT_ENTRIES = 300
HEALING_S = 20.0
MIN_KILLS = 10
MIN_LEADER_KILLS = 5
MIN_PAUSES = 5
MIN_ACKNOWLEDGED = 1000


class Cluster:
    """Where the voters of one test are, and what they have said."""

    def __init__(self, directory: Path) -> None:
        ports = [address.port for address in free_addresses(2 * len(VOTERS))]
        raft_ports = dict(zip(VOTERS, ports[: len(VOTERS)], strict=True))
        self.control_ports = dict(zip(VOTERS, ports[len(VOTERS) :], strict=True))
        commands = {}
        for voter_id in VOTERS:
            home = directory / str(voter_id)
            home.mkdir()
            journal.create(OsFileSystem(), str(home))
            setup = Setup(
                voter_id=voter_id,
                directory=str(home),
                control_port=self.control_ports[voter_id],
                raft_ports=raft_ports,
                snapshot_entries=SNAPSHOT_ENTRIES,
            )
            module = "tests.quorum.raft.voter_process"
            commands[voter_id] = [sys.executable, "-m", module, msgspec.json.encode(setup).decode()]
        self.fleet = Fleet(commands, directory)

    def events(self) -> list[LeadershipEvent]:
        """What all voters have said of leadership, in the order of time."""
        decoder = msgspec.json.Decoder(LeadershipEvent)
        lines = [
            line
            for voter_id in VOTERS
            for line in self.fleet.output(voter_id).read_bytes().splitlines(keepends=True)
        ]
        # A voter may be about to write its last line.
        whole = [decoder.decode(line) for line in lines if line.endswith(b"\n")]
        return sorted(whole, key=lambda event: event.t_ns)

    def leader(self) -> int | None:
        return newest_leader(self.events(), self.fleet)

    def complaints(self) -> list[str]:
        """Errors in the voters' logs."""
        return [
            f"voter {voter_id}: {line}"
            for voter_id in VOTERS
            for line in self.fleet.errors(voter_id).read_text(errors="replace").splitlines()
            if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")
        ]


@contextmanager
def under_load(clients: list[RegisterClient]) -> Iterator[None]:
    """The clients work until the end of the context, which raises what any of them ran into."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(clients)) as pool:
        running = [pool.submit(client.run, stop) for client in clients]
        try:
            yield
        finally:
            stop.set()
    for future in running:
        future.result()


def converged(cluster: Cluster) -> dict[int, Answer]:
    """The states of all voters, once they have applied equally much."""
    found: dict[int, Answer] = {}

    def look() -> bool:
        found.clear()
        found.update(ask_states(cluster.control_ports))
        return len(found) == len(VOTERS) and len({s.applied_index for s in found.values()}) == 1

    wait_for(look, "all voters to hold the same")
    return found


def final_operations(clients: int, cluster: Cluster, *, seed: int) -> RegisterClient:
    """On each register a read, a write and a read, each until it is acknowledged."""
    last = RegisterClient(clients, cluster.control_ports, seed=seed, clients=clients + 1)
    try:
        for key in KEYS:
            for f in ("read", "write", "read"):
                last.until_ok(f, key, deadline_s=HEALING_S)
    finally:
        last.close()
    return last


@pytest.mark.live
def test_no_acknowledged_write_is_lost_when_voters_are_killed_and_paused(tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"CHAOS_SEED={seed}")
    cluster = Cluster(tmp_path)
    clients = [
        RegisterClient(number, cluster.control_ports, seed=seed, clients=CLIENTS + 1)
        for number in range(CLIENTS)
    ]
    with cluster.fleet as fleet:
        fleet.start()
        nemesis = Nemesis(
            fleet,
            seed=seed,
            leader=cluster.leader,
            acknowledged=lambda: sum(client.acknowledged for client in clients),
        )
        wait_for(lambda: cluster.leader() is not None, "a leader")
        with under_load(clients):
            nemesis.run(CHAOS_S)
        last = final_operations(CLIENTS, cluster, seed=seed)
        states = converged(cluster)
        fleet.look()

    history = merged([*clients, last])
    kills = count_kills(fleet.faults, cluster.events())
    statuses = {status: sum(op.status is status for op in history) for status in Status}
    pauses = sum(fault.deed is Deed.PAUSE for fault in fleet.faults)
    print(f"{len(nemesis.rounds)} rounds, {kills}, {pauses} pauses, {statuses}")

    assert judge(history, {voter_id: state.writes for voter_id, state in states.items()}) == []
    assert [promise for client in [*clients, last] for promise in client.broken_promises] == []
    assert fleet.deaths == []
    assert cluster.complaints() == []
    assert kills.total >= MIN_KILLS
    assert kills.of_leaders >= MIN_LEADER_KILLS
    assert pauses >= MIN_PAUSES
    assert statuses[Status.OK] >= MIN_ACKNOWLEDGED
    assert any(state.snapshot_index for state in states.values())
    # The same history with one acknowledged write taken back at its end must not pass.
    assert check_register(with_the_last_write_lost(history)).validity is Validity.INVALID


def with_the_last_write_lost(history: list[Operation]) -> list[Operation]:
    """The final read of a register returns what the final read but one did."""
    told = [op for op in history if op.key == KEYS[0] and op.status is Status.OK]
    read, write, last = told[-3:]
    assert (read.f, write.f, last.f) == ("read", "write", "read")
    return [*(op for op in history if op is not last), replace(last, output=read.output)]


# --------------------------------------------------------------- the judges can find fault


def op(f: str, value: int, time: int, status: Status = Status.OK) -> Operation:
    """An operation on x that takes from `time` to `time` + 5."""
    return Operation(
        process=0,
        f=f,
        key="x",
        value=value if f == "write" else None,
        output=value if f == "read" else None,
        t_invoke_ns=time,
        t_return_ns=time + 5,
        status=status,
    )


HISTORY = [
    op("write", 1, 10),
    op("read", 1, 20),
    op("write", 2, 30, Status.INFO),
    op("write", 3, 40, Status.FAIL),
    op("write", 4, 50),
    op("read", 4, 60),
]


def test_judges_accept_a_true_history() -> None:
    assert judge(HISTORY, {1: {"x": [1, 4]}, 2: {"x": [1, 4]}}) == []
    assert judge(HISTORY, {1: {"x": [1, 2, 4]}}) == []


def test_lost_acknowledged_write_is_refuted_by_what_clients_read() -> None:
    lost = [*HISTORY, op("read", 1, 70)]
    assert check_register(lost).validity is Validity.INVALID
    assert with_the_last_write_lost([*HISTORY[:4], op("read", 1, 45), *HISTORY[4:]])[-1].output == 1
    (problem,) = judge(lost, {1: {"x": [1, 4]}})
    assert problem.startswith("the history is invalid")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([4], "1 writes acknowledged and lost"),
        ([1, 3, 4], "1 writes failed and there"),
        ([1, 4, 4], "1 writes there twice"),
        ([1, 4, 9], "1 writes there and never written"),
        ([4, 1], "1 writes applied after a later one"),
    ],
)
def test_wrong_state_of_a_voter_is_found(values: list[int], words: str) -> None:
    (problem,) = judge_writes(HISTORY, {"x": values})
    assert problem.startswith(words)


def test_voters_that_hold_different_writes_are_found() -> None:
    problems = judge(HISTORY, {1: {"x": [1, 2, 4]}, 2: {"x": [1, 4]}})
    assert problems == ["the voters [1, 2] do not hold the same"]


def test_kill_counts_as_a_leaders_only_while_it_led() -> None:
    def event(t_ns: int, voter_id: int, term: int, is_active: bool) -> LeadershipEvent:
        return LeadershipEvent(
            t_ns=t_ns,
            pid=100 + voter_id,
            voter_id=voter_id,
            term=term,
            is_active=is_active,
        )

    def kill(t_ns: int, voter_id: int) -> Fault:
        return Fault(t_ns=t_ns, deed=Deed.KILL, voter_id=voter_id, pid=100 + voter_id)

    events = [event(10, 1, 1, True), event(20, 2, 2, True), event(30, 2, 2, False)]
    for fault, led in [
        (kill(5, 1), 0),  # before it led
        (kill(15, 1), 1),
        (kill(25, 1), 0),  # another one led by then
        (kill(25, 2), 1),
        (kill(35, 2), 0),  # it had resigned
        (kill(35, 3), 0),
    ]:
        kills = count_kills([fault], events)
        assert (kills.total, kills.of_leaders) == (1, led), fault
