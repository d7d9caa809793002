"""What stock pysyncobj 0.3.17 does to those who trust it, and that our engine does not.

Each bug is one scenario that is run twice. On the stock library the test asserts the harm, so it
fails on the day when an upgrade has repaired it. On ours it asserts that there is none. The bugs
of its files are in `test_stock_disk_bugs`, those that clients and strangers meet in
`test_stock_client_bugs`.
"""

from collections.abc import Iterator

import pytest

from quorum.raft.frames import AppendEntries
from tests.quorum.raft.clusters import A, B, C, Cluster, D, E, M
from tests.quorum.raft.lab import Lab, open_lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


# ------------------------------------------------------------- what a follower does to its log


def late_append(cluster: Cluster[M]) -> None:
    """A follower has six entries, all of them committed; then the first message comes again."""
    cluster.cut(A, C)
    cluster.cut(B, C)
    for number in range(6):
        cluster.put(A, f"k{number}", size_bytes=40_000)
    for _ in range(6):
        cluster.tick(A)
    cluster.clock.now_s += 0.15
    cluster.tick(A)
    first = cluster.waiting(A, B)[0]
    cluster.step(0.3, (A, B))
    assert all(cluster.is_acknowledged(f"k{number}") for number in range(6))
    assert cluster.last_index(B) == cluster.last_index(A)
    cluster.deliver_again(A, B, first)


def test_stock_a_late_append_truncates_committed_entries(lab: Lab) -> None:
    cluster = lab.stock(A, B, C)
    late_append(cluster)
    assert cluster.last_index(B) < cluster.last_index(A)


def test_a_late_append_truncates_nothing(lab: Lab) -> None:
    cluster = lab.ours(A, B, C, max_command_bytes=60_000)
    late_append(cluster)
    assert cluster.last_index(B) == cluster.last_index(A)


def old_acknowledgement(cluster: Cluster[M]) -> list[str]:
    """The leader hears only the first of its follower's acknowledgements before its next
    heartbeat, and dies soon after; returns what was acknowledged to clients, and is lost."""
    cluster.cut(A, C)
    cluster.cut(B, C)
    keys = [f"k{number}" for number in range(6)]
    for key in keys:
        cluster.put(A, key, size_bytes=40_000)
    for _ in range(6):
        cluster.tick(A)
    cluster.clock.now_s += 0.2
    cluster.tick(A)
    assert len(cluster.waiting(A, B)) >= 3
    cluster.deliver(A, B)
    cluster.deliver(B, A, 1)
    cluster.clock.now_s += 0.2
    cluster.tick(A)
    cluster.deliver(B, A)
    cluster.tick(A)
    acknowledged = [key for key in keys if cluster.is_acknowledged(key)]
    assert acknowledged == keys
    cluster.deliver(A, B, 1)
    cluster.isolate(A)
    cluster.connect(B, C)
    cluster.elect(B, (B, C))
    cluster.step(1.0, (B, C))
    return [key for key in acknowledged if key not in cluster.applied(B)]


def test_stock_a_leader_rewound_by_an_old_acknowledgement_loses_writes(lab: Lab) -> None:
    assert old_acknowledgement(lab.stock(A, B, C)) == ["k4", "k5"]


def test_an_old_acknowledgement_does_not_rewind_the_leader(lab: Lab) -> None:
    assert old_acknowledgement(lab.ours(A, B, C, max_command_bytes=60_000)) == []


def test_a_heartbeat_after_an_old_acknowledgement_repeats_no_entries(lab: Lab) -> None:
    cluster = lab.ours(A, B, C, max_command_bytes=60_000)
    for number in range(6):
        cluster.put(A, f"k{number}", size_bytes=40_000)
    for _ in range(6):
        cluster.tick(A)
    cluster.deliver(A, B)
    assert len(cluster.waiting(B, A)) >= 3
    cluster.deliver(B, A, 1)
    cluster.clock.now_s += 0.2
    cluster.tick(A)
    (heartbeat,) = cluster.heard(A, B)
    assert isinstance(heartbeat, AppendEntries)
    assert heartbeat.entries == []


def dirty_log_meets_snapshot(cluster: Cluster[M]) -> None:
    """A leader is cut off with entries that nobody else has, while the others go on and compact
    their log. Then it is back, and gets the snapshot over a slow link."""
    cluster.isolate(A)
    for number in range(5):
        cluster.put(A, f"dirty{number}")
    cluster.tick(A)
    cluster.elect(B, (B, C))
    cluster.step(0.5, (B, C))
    for number in range(200):
        cluster.put(B, f"good{number}", size_bytes=4_000)
    cluster.step(2.0, (B, C))
    cluster.compact(B)
    cluster.step(0.5, (B, C))
    cluster.rejoin(A)
    for _ in range(40):
        cluster.clock.now_s += 0.05
        for node in (B, C, A):
            cluster.tick(node)
        for link in ((A, B), (B, A), (A, C), (C, A), (B, C), (C, B)):
            cluster.deliver(*link, 1)


def test_stock_a_snapshot_chunk_commits_what_only_a_deposed_leader_has(lab: Lab) -> None:
    cluster = lab.stock(A, B, C, logCompactionBatchSize=64)
    dirty_log_meets_snapshot(cluster)
    assert cluster.is_acknowledged("dirty0")
    assert "dirty0" not in cluster.applied(B)


def test_a_snapshot_chunk_commits_nothing(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    dirty_log_meets_snapshot(cluster)
    assert not [entry for entry in cluster.lives[A].machine.entries if b"dirty" in entry.data]
    cluster.step(5.0)
    assert not any(cluster.is_acknowledged(f"dirty{number}") for number in range(5))
    assert cluster.lives[A].machine.restored_at
    assert cluster.applied(A) == cluster.applied(B) == [f"good{number}" for number in range(200)]


def divergent_follower(cluster: Cluster[M]) -> None:
    """A follower with an entry of its own is back, and is many batches behind."""
    cluster.isolate(A)
    cluster.put(A, "uncommitted")
    cluster.tick(A)
    cluster.elect(B, (B, C))
    cluster.step(0.3, (B, C))
    for number in range(2000):
        cluster.put(B, f"k{number}", size_bytes=60)
    cluster.step(2.0, (B, C))
    cluster.elect(C, (B, C))
    cluster.step(0.5, (B, C))
    assert len(cluster.applied(C)) == 2000
    cluster.rejoin(A)
    cluster.step(10.0)


def test_stock_a_divergent_follower_far_behind_never_catches_up(lab: Lab) -> None:
    cluster = lab.stock(A, B, C)
    divergent_follower(cluster)
    assert cluster.applied(A) == []


def test_a_divergent_follower_far_behind_catches_up(lab: Lab) -> None:
    cluster = lab.ours(A, B, C, max_command_bytes=64 << 10)
    divergent_follower(cluster)
    assert cluster.applied(A) == cluster.applied(C)


# ------------------------------------------------------------------- what a leader believes


def acknowledgement_of_another_term(cluster: Cluster[M]) -> None:
    """An acknowledgement of entries that were overwritten since arrives in a later term of the
    same leader; then a client writes while the leader reaches one other voter of five."""
    everybody = (A, B, C, D, E)
    for other in (B, D, E):
        cluster.cut(A, other)
        cluster.cut(C, other)
    for number in range(8):
        cluster.put(A, f"old{number}")
    cluster.tick(A)
    cluster.clock.now_s += 0.2
    cluster.tick(A)
    cluster.deliver(A, C)
    assert cluster.last_index(C) == cluster.last_index(A)
    cluster.frozen = {(C, A), (A, C)}
    cluster.elect(B, (B, D, E))
    cluster.step(0.5, (B, D, E))
    for other in (B, D, E):
        cluster.connect(A, other)
    cluster.step(1.0, (A, B, D, E))
    for pair in ((A, B), (B, D), (B, E)):
        cluster.cut(*pair)
    cluster.elect(A, (A, D, E))
    cluster.step(0.3, (A, D, E))
    cluster.deliver(C, A, 1)
    cluster.cut(A, E)
    cluster.put(A, "new")
    cluster.step(0.3, (A, D))
    cluster.isolate(A)
    cluster.frozen = set()
    for pair in ((B, C), (B, E), (C, E)):
        cluster.connect(*pair)
    cluster.step(6.0, (B, C, E))
    cluster.rejoin(D)
    cluster.cut(D, A)
    cluster.step(3.0, [node for node in everybody if node != A])


def test_stock_acknowledgements_of_another_term_count(lab: Lab) -> None:
    cluster = lab.stock(A, B, C, D, E)
    acknowledgement_of_another_term(cluster)
    assert cluster.is_acknowledged("new")
    assert all("new" not in cluster.applied(node) for node in (B, C, E))


def test_acknowledgements_of_another_term_do_not_count(lab: Lab) -> None:
    cluster = lab.ours(A, B, C, D, E)
    acknowledgement_of_another_term(cluster)
    assert not cluster.is_acknowledged("new")


def deposed_leader_meets_follower(cluster: Cluster[M]) -> None:
    """A leader that was replaced reaches a follower of its successor again."""
    cluster.put(A, "before")
    cluster.step(0.5)
    cluster.isolate(A)
    cluster.elect(B, (B, C))
    cluster.step(0.3, (B, C))
    cluster.put(B, "after")
    cluster.step(0.3, (B, C))
    assert cluster.is_acknowledged("after")
    cluster.connect(A, C)


def test_stock_a_deposed_leader_is_not_told_and_serves_old_state(lab: Lab) -> None:
    cluster = lab.stock(A, B, C)
    deposed_leader_meets_follower(cluster)
    cluster.step(20.0)
    assert cluster.leads(A)
    assert cluster.leads(B)
    assert cluster.applied(A) == ["before"]


def test_a_deposed_leader_is_told_by_the_first_answer(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    # Its clock must not make it resign: it is the answer that tells it.
    cluster.lives[A].inner._SyncObj__conf.leaderFallbackTimeout = 1e9
    deposed_leader_meets_follower(cluster)
    assert cluster.leads(A)
    cluster.step(0.2)
    assert not cluster.leads(A)


def test_a_leader_that_reaches_no_majority_resigns_and_answers_no_read(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.isolate(A)
    reads: list[int | None] = []
    cluster.lives[A].engine.read_index(reads.append)
    cluster.step(0.2, (A,))
    assert reads == []
    cluster.step(0.2, (A,))
    assert not cluster.leads(A)
    assert reads == [None]


def one_voter_hears_no_leader(cluster: Cluster[M]) -> None:
    """A voter reaches its fellow, and not the leader that both had."""
    cluster.cut(A, C)
    cluster.put(A, "before")
    cluster.step(0.3)
    assert cluster.is_acknowledged("before")
    cluster.step(20.0)


def test_stock_a_voter_that_cannot_win_ends_the_term_of_a_good_leader(lab: Lab) -> None:
    cluster = lab.stock(A, B, C)
    term = cluster.nodes[A].raftCurrentTerm
    one_voter_hears_no_leader(cluster)
    assert cluster.nodes[B].raftCurrentTerm > term


def test_a_voter_that_cannot_win_asks_before_it_stands(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    term = cluster.lives[A].engine.leadership.term
    one_voter_hears_no_leader(cluster)
    assert cluster.leads(A)
    assert {life.engine.leadership.term for life in cluster.lives.values()} == {term}
