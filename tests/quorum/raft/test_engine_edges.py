"""Corners in which a voter once stopped, stood still or kept silent."""

from collections.abc import Iterator

import msgspec
import pytest

from kafka_wire.crc import crc32c
from quorum.raft import journal_format as fmt
from quorum.raft import snapshots
from quorum.raft.frames import SnapshotAnswer
from quorum.raft.journal import Journal
from quorum.raft.journal_format import Damaged, LogEntry
from quorum.raft.port import Outcome, Proposal
from quorum.raft.ports import Lane
from tests.quorum.raft.clusters import A, B, C
from tests.quorum.raft.lab import Lab, open_lab
from tests.quorum.raft.voters import DIRECTORY, new_disk


@pytest.fixture
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


def test_a_lone_voter_goes_on_across_snapshots_whatever_its_executor_does(lab: Lab) -> None:
    cluster = lab.ours(A)
    cluster.held = {(A, Lane.FLUSH)}
    cluster.put(A, "k1")
    cluster.tick(A)
    cluster.tick(A)
    assert cluster.is_acknowledged("k1")
    cluster.compact(A)
    cluster.tick(A)
    cluster.tick(A)
    cluster.put(A, "k2")
    cluster.tick(A)
    cluster.held = set()
    cluster.work(A)
    assert cluster.lives[A].failures == []


def test_a_leader_whose_snapshot_rots_takes_and_sends_another(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.isolate(C)
    for number in range(50):
        cluster.put(A, f"k{number}")
    cluster.step(0.5, (A, B))
    cluster.compact(A)
    cluster.step(0.3, (A, B))
    disk = cluster.disks[A]
    (name,) = [each.name for each in disk.list(DIRECTORY) if "checkpoint" in each.name]
    disk.flip_bit(f"{DIRECTORY}/{name}", 60, 1)
    cluster.rejoin(C)
    cluster.step(60.0)
    assert cluster.applied(C) == cluster.applied(B)


def test_whoever_asks_a_voter_that_has_stopped_is_answered(lab: Lab) -> None:
    cluster = lab.ours(A)
    cluster.lives[A].engine.fail(OSError("disk"))
    told: list[Proposal] = []
    reads: list[int | None] = []
    cluster.lives[A].engine.propose(b"x", told.append)
    cluster.lives[A].engine.read_index(reads.append)
    assert [proposal.outcome for proposal in told] == [Outcome.NOT_LEADER]
    assert reads == [None]


def test_a_command_that_holds_a_journal_record_does_not_make_a_torn_tail_look_like_damage() -> None:
    disk = new_disk()
    journal = Journal(disk, DIRECTORY)
    journal.align(())
    journal.append(LogEntry(b"a", 1, 1))
    journal.flush()
    path = f"{DIRECTORY}/{0:020d}.journal"
    synced = len(disk._contents(path).data)
    record = fmt.encode(fmt.Kind.TRUNCATE, fmt.index_body(1), synced=2**40)
    journal.append(LogEntry(b"." * 600 + record, 2, 1))
    journal.flush()
    contents = disk._contents(path)
    contents.data[synced : synced + 512] = bytes(512)  # a sector that did not reach the disk
    contents.safe = bytes(contents.data)
    assert [each.index for each in Journal(disk, DIRECTORY).entries] == [1]


def test_chunk_answers_of_a_recovering_voter_do_not_keep_a_leader_in_office(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    cluster.crash(C)
    cluster.disks[C] = new_disk()
    cluster.isolate(B)
    cluster.restart(C, is_recovering=True)
    term = cluster.lives[A].engine.leadership.term
    for _ in range(40):
        answer = SnapshotAnswer(term=term, index=5, position=1, counts=False)
        cluster.say(C, A, answer)
        cluster.step(0.05, (A,))
    assert not cluster.leads(A)


@pytest.mark.parametrize(
    "header",
    [
        b"\xc1",
        msgspec.msgpack.encode([[(b"x", 1, 1)]]),
        msgspec.msgpack.encode({"base": 1}),
    ],
)
def test_a_snapshot_header_that_no_voter_writes_is_damage(header: bytes) -> None:
    body = b"FMS1" + len(header).to_bytes(4, "little") + header
    with pytest.raises(Damaged):
        snapshots.decode(body + crc32c(body).to_bytes(4, "little"))
