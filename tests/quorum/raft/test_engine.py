"""A voter as a whole: its pin, its life, its end, its elections and its recovery."""

from collections.abc import Iterator

import pytest
from pysyncobj import SyncObj
from pysyncobj.node import Node

from floodmark.errors import UserError
from floodmark.invariant import InvariantViolation
from log.filesystem.memory import Fail, Kind
from quorum.raft.frames import (
    AppendAnswer,
    AppendEntries,
    BadFrame,
    RequestVote,
    SnapshotChunk,
    Vote,
)
from quorum.raft.journal_format import Damaged
from quorum.raft.port import Outcome, Proposal
from quorum.raft.ports import Lane
from quorum.raft.pysyncobj_engine import pin
from quorum.raft.pysyncobj_engine.adapters import Nodes
from quorum.raft.pysyncobj_engine.pin import METHODS, check_pin, method_hash
from quorum.raft.pysyncobj_engine.voter import Voter
from quorum.raft.transfers import MAX_SNAPSHOT_BYTES
from tests.quorum.raft.clusters import A, B, C, D
from tests.quorum.raft.lab import Lab, open_lab
from tests.quorum.raft.voters import DIRECTORY, new_disk


@pytest.fixture
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


# --------------------------------------------------------------------------------- the pin


def test_this_is_the_pysyncobj_that_was_read() -> None:
    check_pin.__wrapped__()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pin, "VERSION", "0.3.18")
    with pytest.raises(InvariantViolation, match=r"an unknown pysyncobj.*0\.3\.18"):
        check_pin.__wrapped__()


@pytest.mark.parametrize("name", METHODS)
def test_a_changed_method_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(self: object) -> None:
        """Not what was read."""

    monkeypatch.setattr(SyncObj, name, changed)
    with pytest.raises(InvariantViolation, match=f"changed under us.*{name}"):
        check_pin.__wrapped__()


def test_every_method_that_is_replaced_is_pinned() -> None:
    replaced = {name for name, value in vars(Voter).items() if callable(value)} & set(dir(SyncObj))
    assert replaced - {"__init__"} <= METHODS.keys()
    assert {"_onTick", "_checkCommandsToApply", "_SyncObj__doApplyCommand"} <= replaced


def test_hashes_are_of_the_source() -> None:
    assert method_hash("doTick") == METHODS["doTick"]
    assert len(set(METHODS.values())) == len(METHODS)


def test_nodes_have_an_order_that_no_hash_decides() -> None:
    nodes = Nodes([Node(5), Node(1)]) | [Node(3), Node(1)]
    assert [node.id for node in nodes] == [1, 3, 5]
    assert [node.id for node in nodes.copy()] == [1, 3, 5]


# --------------------------------------------------------------------------------- one voter


def test_one_voter_is_a_quorum_and_keeps_what_it_acknowledged(lab: Lab) -> None:
    cluster = lab.ours(A)
    cluster.put(A, "k1")
    cluster.step(0.2)
    assert cluster.is_acknowledged("k1")
    assert cluster.lives[A].engine.leadership.is_active
    cluster.crash(A)
    cluster.start(A)
    cluster.elect(A, (A,))
    cluster.step(0.2)
    assert cluster.applied(A) == ["k1"]


def test_one_voter_acknowledges_nothing_that_its_disk_refuses(lab: Lab) -> None:
    cluster = lab.ours(A)
    cluster.disks[A].on_operation = lambda op: Fail() if op.kind is Kind.SYNC else None
    cluster.put(A, "k1")
    cluster.step(0.2)
    assert cluster.outcomes == {"k1": "failed: unknown"}
    assert cluster.applied(A) == []
    assert len(cluster.lives[A].failures) == 1


def test_reads_are_answered_with_what_is_applied(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.put(A, "k1")
    cluster.step(0.3)
    answers: list[int | None] = []
    cluster.lives[A].engine.read_index(answers.append)
    cluster.lives[B].engine.read_index(answers.append)
    cluster.step(0.3)
    assert sorted(answers, key=bool) == [None, cluster.lives[A].engine.status().applied_index]


# ------------------------------------------------------------------------------- the end


def test_a_sync_that_fails_stops_the_voter_for_good(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.disks[B].on_operation = lambda op: Fail() if op.kind is Kind.SYNC else None
    cluster.put(A, "k1")
    cluster.tick(A)
    cluster.deliver(A, B)
    (failure,) = cluster.lives[B].failures
    assert isinstance(failure, OSError)
    assert cluster.waiting(B, A) == [], "an acknowledgement left"
    cluster.disks[B].on_operation = lambda _: None
    cluster.step(3.0)
    assert cluster.waiting(B, A) == []
    assert cluster.lives[B].failures == [failure]
    assert cluster.is_acknowledged("k1"), "the others go on"


def test_who_waits_when_the_voter_stops_is_told(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.held = {(A, Lane.FLUSH)}
    cluster.put(A, "placed")
    cluster.tick(A)
    cluster.put(A, "queued")
    answers: list[int | None] = []
    cluster.lives[A].engine.read_index(answers.append)
    cluster.lives[A].engine.close()
    assert cluster.outcomes == {"placed": "failed: unknown", "queued": "failed: not leader"}
    assert answers == [None]


def test_a_state_machine_that_raises_stops_only_its_voter_and_tells_once(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)

    def fail(_: object) -> None:
        raise RuntimeError("this state cannot be")

    cluster.lives[C].machine.apply = fail  # type: ignore[assignment, method-assign]
    cluster.put(A, "k1")
    cluster.step(2.0)
    assert [str(error) for error in cluster.lives[C].failures] == ["this state cannot be"]
    assert cluster.is_acknowledged("k1")
    cluster.put(A, "k2")
    cluster.step(0.5)
    assert cluster.is_acknowledged("k2")


def test_an_oversized_command_is_refused_and_changes_nothing(lab: Lab) -> None:
    cluster = lab.ours(A, B, C, max_command_bytes=1000)
    told: list[Proposal] = []
    before = cluster.last_index(A)
    cluster.lives[A].engine.propose(b"x" * 1001, told.append)
    cluster.lives[A].engine.propose(b"x" * 1000, told.append)
    cluster.step(0.5)
    assert [proposal.outcome for proposal in told] == [Outcome.REFUSED, Outcome.COMMITTED]
    assert cluster.last_index(C) == before + 1


def test_a_directory_without_a_journal_is_refused(lab: Lab) -> None:
    cluster = lab.ours(A)
    disk = cluster.disks[A]
    for each in disk.list(DIRECTORY):
        disk.remove(f"{DIRECTORY}/{each.name}")
    with pytest.raises(UserError, match="has no journal"):
        cluster.start(A)


def test_a_damaged_journal_is_refused(lab: Lab) -> None:
    cluster = lab.ours(A)
    for number in range(3):
        cluster.put(A, f"k{number}")
        cluster.step(0.1)
    (each,) = cluster.disks[A].list(DIRECTORY)
    cluster.disks[A].flip_bit(f"{DIRECTORY}/{each.name}", 30, 0)
    with pytest.raises(Damaged, match=each.name):
        cluster.start(A)


# ------------------------------------------------------------------------------- strangers


@pytest.mark.parametrize(
    "message",
    [
        AppendEntries(
            term=9,
            commit_index=1,
            prev_index=1,
            prev_term=0,
            attempt=0,
            entries=[(b"\0x", 2, 9), (b"\0x", 4, 9)],
        ),
        SnapshotChunk(term=9, index=99, size_bytes=MAX_SNAPSHOT_BYTES + 1, position=0, data=b"x"),
    ],
    ids=["entries with a gap", "a snapshot too large"],
)
def test_what_no_voter_sends_is_a_bad_frame_and_stops_nobody(
    message: AppendEntries | SnapshotChunk, lab: Lab
) -> None:
    cluster = lab.ours(A, B, C)
    last = cluster.last_index(C)
    with pytest.raises(BadFrame):
        cluster.say(B, C, message)
    assert cluster.lives[C].failures == []
    assert cluster.last_index(C) == last


def test_only_voters_are_listened_to(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    term = cluster.lives[A].engine.leadership.term
    with pytest.raises(BadFrame, match="4 is not a voter"):
        cluster.say(D, A, RequestVote(term=99, last_index=99, last_term=99, poll=False))
    assert cluster.lives[A].engine.leadership.term == term


# ------------------------------------------------------------------------------- elections


def test_a_voter_that_was_cut_off_comes_back_without_disturbing_anybody(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    term = cluster.lives[A].engine.leadership.term
    cluster.isolate(C)
    cluster.step(30.0)
    cluster.rejoin(C)
    cluster.step(3.0)
    assert cluster.leads(A)
    leaderships = [cluster.lives[node].engine.leadership for node in (A, B, C)]
    assert [(each.leader_id, each.term) for each in leaderships] == [(A, term)] * 3


def test_a_leader_that_hears_of_a_newer_term_steps_down(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    answer = AppendAnswer(term=50, next_index=0, success=False, retry=False, attempt=0)
    cluster.say(B, A, answer)
    assert cluster.lives[A].engine.leadership.leader_id is None
    assert cluster.lives[A].engine.leadership.term == 50
    assert cluster.lives[A].leaderships[-1].leader_id is None


def test_one_vote_counts_once(lab: Lab) -> None:
    cluster = lab.ours(*range(1, 6))
    life = cluster.lives[B]
    cluster.clock.now_s += 2
    life.inner._SyncObj__raftElectionDeadline = 0
    cluster.tick(B)
    term = life.engine.leadership.term + 1
    for voter in (A, C):
        cluster.say(voter, B, Vote(term=term, poll=True))
    cluster.tick(B)
    assert life.engine.leadership.term == term
    for _ in range(4):
        cluster.say(A, B, Vote(term=term, poll=False))
    assert not cluster.leads(B)
    cluster.say(C, B, Vote(term=term, poll=False))
    assert cluster.leads(B)


def test_a_leader_is_active_once_its_first_entry_is_applied(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    (first, *_) = [each for each in cluster.lives[A].leaderships if each.leader_id == A]
    assert not first.is_active
    assert cluster.lives[A].leaderships[-1].is_active
    assert not any(each.is_active for each in cluster.lives[B].leaderships)


# ------------------------------------------------------------------------------- recovery


def test_a_recovering_voter_neither_votes_nor_stands_until_it_has_caught_up(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.put(A, "k1")
    cluster.step(0.5)
    cluster.crash(C)
    cluster.disks[C] = new_disk()
    life = cluster.start(C, is_recovering=True)
    cluster.connect(B, C)
    cluster.say(B, C, RequestVote(term=70, last_index=99, last_term=60, poll=False))
    cluster.step(5.0, (C,))
    assert not [m for m in cluster.heard(C, B) if isinstance(m, Vote | RequestVote)]
    assert life.recovered == []
    cluster.rejoin(C)
    cluster.step(5.0)
    assert life.recovered == [True]
    assert cluster.applied(C) == ["k1"]
    cluster.isolate(A)
    cluster.elect(C, (B, C))


def test_a_recovering_voter_does_not_bring_a_deposed_leader_back(lab: Lab) -> None:
    """It was part of the majority that went on without that leader, and has forgotten."""
    cluster = lab.ours(B, A, C)
    cluster.put(B, "common")
    cluster.step(0.5)
    cluster.isolate(B)
    cluster.clock.now_s += 2
    cluster.lives[C].inner._SyncObj__raftElectionDeadline = cluster.clock.now_s + 5
    cluster.lives[A].inner._SyncObj__raftElectionDeadline = 0
    for _ in range(4):
        cluster.tick(A)
        cluster.deliver_all()
    cluster.put(A, "acknowledged")
    cluster.step(0.3, (A, C))
    assert cluster.is_acknowledged("acknowledged")
    cluster.isolate(A)
    cluster.crash(C)
    cluster.disks[C] = new_disk()
    life = cluster.start(C, is_recovering=True)
    # The deposed leader's machine was suspended, its clock too: it does not know that time passed.
    answers = cluster.lives[B].inner._SyncObj__lastResponseTime
    answers.update(dict.fromkeys(answers, cluster.clock.now_s))
    assert cluster.leads(B)
    cluster.connect(B, C)
    cluster.put(B, "rival")
    cluster.step(2.0, (B, C))
    assert life.recovered == []
    assert not cluster.is_acknowledged("rival")
    assert not cluster.leads(B)
    cluster.connect_all()
    cluster.step(5.0)
    assert life.recovered == [True]
    assert [cluster.applied(node) for node in (A, B, C)] == [["common", "acknowledged"]] * 3


def test_a_recovering_voter_counts_for_no_majority(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.crash(C)
    cluster.disks[C] = new_disk()
    cluster.isolate(B)
    life = cluster.restart(C, is_recovering=True)
    cluster.put(A, "k1")
    cluster.step(0.3, (A, C))
    assert not cluster.is_acknowledged("k1")
    assert life.recovered == []
    cluster.step(1.0, (A, C))
    assert not cluster.leads(A)
