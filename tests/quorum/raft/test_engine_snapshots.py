"""A voter's snapshots, taken and sent, and what it shows of itself."""

from collections.abc import Iterator

import pytest

from log.filesystem.memory import Fail, Kind
from quorum.raft.ports import Lane
from quorum.raft.pysyncobj_engine.voter import SNAPSHOT_PAUSE_S
from tests.quorum.raft.clusters import A, B, C
from tests.quorum.raft.lab import Lab, open_lab
from tests.quorum.raft.voters import DIRECTORY, Voters


@pytest.fixture
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


# ------------------------------------------------------------------------------- snapshots


def behind_a_snapshot(lab: Lab) -> Voters:
    """A voter was away while the others wrote, and trimmed what it lacks."""
    cluster = lab.ours(A, B, C)
    cluster.put(A, "k0")
    cluster.step(0.3)
    cluster.isolate(C)
    for number in range(1, 200):
        cluster.put(A, f"k{number}", size_bytes=4000)
    cluster.step(0.5, (A, B))
    cluster.compact(A)
    cluster.step(0.3, (A, B))
    assert cluster.lives[A].engine.status().log_start_index > 100
    return cluster


def test_a_voter_far_behind_gets_a_snapshot_and_goes_on(lab: Lab) -> None:
    cluster = behind_a_snapshot(lab)
    cluster.rejoin(C)
    cluster.step(3.0)
    cluster.put(A, "after")
    cluster.step(0.5)
    assert cluster.applied(C) == cluster.applied(A)
    assert cluster.applied(C)[-1] == "after"
    assert len(cluster.lives[C].machine.restored_at) == 1
    snapshot_index = cluster.lives[A].engine.status().snapshot_index
    assert cluster.lives[C].engine.status().snapshot_index == snapshot_index
    for node in cluster.ids:
        cluster.crash(node)
    for node in cluster.ids:
        cluster.restart(node)
    cluster.elect(C, cluster.ids)
    cluster.step(1.0)
    assert {tuple(cluster.applied(node)) for node in cluster.ids} == {
        (*(f"k{number}" for number in range(200)), "after")
    }


def test_a_voter_that_dies_while_it_installs_gets_the_snapshot_again(lab: Lab) -> None:
    cluster = behind_a_snapshot(lab)
    cluster.held = {(C, Lane.SNAPSHOT)}
    cluster.rejoin(C)
    cluster.step(2.0)
    assert len(cluster.lives[C].jobs) == 1
    assert cluster.leads(A), "the installing voter no longer answers its leader"
    cluster.crash(C)
    cluster.held = set()
    cluster.restart(C)
    cluster.step(3.0)
    assert cluster.applied(C) == cluster.applied(A)


def test_a_snapshot_that_cannot_be_saved_costs_nothing_but_the_snapshot(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.put(A, "k1")
    cluster.step(0.3)
    cluster.disks[A].on_operation = lambda op: Fail() if op.kind is Kind.RENAME else None
    cluster.compact(A)
    cluster.put(A, "k2")
    cluster.step(0.5)
    assert cluster.lives[A].failures == []
    assert cluster.lives[A].engine.status().snapshot_index is None
    assert cluster.is_acknowledged("k2")
    cluster.disks[A].on_operation = lambda _: None
    cluster.step(1.0)
    assert cluster.lives[A].engine.status().snapshot_index is None  # it waits before it tries again
    cluster.compact(A)
    cluster.step(SNAPSHOT_PAUSE_S)
    assert cluster.lives[A].engine.status().snapshot_index is not None


def test_snapshots_are_taken_as_entries_and_bytes_demand(lab: Lab) -> None:
    for settings in ({"snapshot_entries": 20}, {"snapshot_bytes": 2000}):
        cluster = lab.ours(A, **settings)
        for number in range(60):
            cluster.put(A, f"k{number}", size_bytes=50)
            cluster.step(0.05)
        snapshots = [e.name for e in cluster.disks[A].list(DIRECTORY) if "checkpoint" in e.name]
        assert len(snapshots) == 2
        status = cluster.lives[A].engine.status()
        assert status.log_start_index > 20


def test_a_damaged_snapshot_falls_back_without_loss(lab: Lab) -> None:
    cluster = lab.ours(A, snapshot_entries=20)
    keys = [f"k{number}" for number in range(100)]
    for key in keys:
        cluster.put(A, key)
        cluster.step(0.05)
    disk = cluster.disks[A]
    newest = [each.name for each in disk.list(DIRECTORY) if "checkpoint" in each.name][-1]
    cluster.crash(A)
    disk.flip_bit(f"{DIRECTORY}/{newest}", 60, 1)
    life = cluster.start(A)
    assert life.machine.restored_at < [int(newest.split("-")[0])]
    cluster.elect(A, (A,))
    cluster.step(0.3)
    assert cluster.applied(A) == keys


# ------------------------------------------------------------------------------- the status


def test_the_status_tells_how_far_everybody_is(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.put(A, "k1")
    cluster.step(0.5)
    status = cluster.lives[A].engine.status()
    last = cluster.last_index(A)
    assert (status.voter_id, status.leadership) == (A, cluster.lives[A].engine.leadership)
    assert status.leadership.leader_id == A
    assert (status.high_watermark, status.log_end_index) == (last + 1, last + 1)
    assert (status.applied_index, status.log_start_index, status.snapshot_index) == (last, 1, None)
    assert [(each.voter_id, each.log_end_index) for each in status.voters] == [
        (voter, last + 1) for voter in (A, B, C)
    ]
    me, *others = status.voters
    assert (me.last_fetch_ms, me.last_caught_up_ms) == (None, None)
    now_ms = int(lab.clock.now_s * 1000)
    for other in others:
        assert other.last_fetch_ms is not None
        assert other.last_caught_up_ms is not None
        assert now_ms - 300 <= other.last_caught_up_ms <= other.last_fetch_ms <= now_ms


def test_a_follower_is_not_counted_beyond_what_the_leader_has_on_disk(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.isolate(C)
    cluster.held = {(A, Lane.FLUSH)}
    cluster.put(A, "k1")
    cluster.step(0.3, (A, B))
    assert cluster.last_index(B) == cluster.last_index(A)
    assert not cluster.is_acknowledged("k1"), "one of three disks has it"
    cluster.held = set()
    cluster.work(A)
    assert cluster.is_acknowledged("k1")


def test_the_status_shows_who_is_behind(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.isolate(C)
    away_ms = int(lab.clock.now_s * 1000)
    for number in range(5):
        cluster.put(A, f"k{number}")
    cluster.step(2.0, (A, B))
    _, b, c = cluster.lives[A].engine.status().voters
    assert b.log_end_index - c.log_end_index == 5
    assert c.last_caught_up_ms is not None
    assert c.last_caught_up_ms <= away_ms
    assert b.last_caught_up_ms is not None
    assert b.last_caught_up_ms > away_ms + 1000


def test_a_follower_knows_of_itself_only(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    status = cluster.lives[B].engine.status()
    assert [each.voter_id for each in status.voters] == [B]
    assert status.leadership.leader_id == A
    assert not status.leadership.is_active


def test_the_state_in_a_snapshot_is_that_of_its_index(lab: Lab) -> None:
    """Commands that are applied while it is written are not in it."""
    cluster = lab.ours(A)
    cluster.put(A, "before")
    cluster.step(0.2)
    cluster.held = {(A, Lane.SNAPSHOT)}
    cluster.compact(A)
    cluster.tick(A)
    index = cluster.lives[A].engine.status().applied_index
    cluster.put(A, "after")
    cluster.step(0.2)
    cluster.held = set()
    cluster.work(A)
    cluster.step(0.2)
    assert cluster.lives[A].engine.status().snapshot_index == index
    life = cluster.start(A)
    assert life.machine.restored_at == [index]
    assert life.machine.keys == ["before"]
