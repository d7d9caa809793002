"""A voter's memory: what is flushed stays, what is torn is cut, what is damaged is told."""

import errno
import re

import pytest

from floodmark.errors import UserError
from floodmark.invariant import InvariantViolation
from log.filesystem.memory import Fail, Kind, MemoryFileSystem
from quorum.raft import journal_format as fmt
from quorum.raft.journal import Journal
from quorum.raft.journal_format import Damaged, LogEntry
from tests.quorum.raft.voters import DIRECTORY, new_disk

FIRST_FILE = f"{DIRECTORY}/{0:020d}.journal"


def entry(index: int, term: int = 1, size_bytes: int = 30) -> LogEntry:
    return LogEntry(b"%d." % index + b"x" * size_bytes, index, term)


def opened(disk: MemoryFileSystem, base: tuple[LogEntry, ...] = ()) -> Journal:
    journal = Journal(disk, DIRECTORY)
    journal.align(base)
    return journal


def journal_of(*indexes: int, term: int = 1) -> tuple[MemoryFileSystem, Journal]:
    """A journal with some entries, each flushed by itself."""
    disk = new_disk()
    journal = opened(disk)
    for index in indexes:
        journal.append(entry(index, term))
        journal.flush()
    return disk, journal


def indexes(journal: Journal) -> list[int]:
    return [each.index for each in journal.entries]


def files(disk: MemoryFileSystem) -> list[str]:
    return [each.name for each in disk.list(DIRECTORY)]


def replace(disk: MemoryFileSystem, path: str, data: bytes) -> None:
    """What a disk holds, without anybody having written it."""
    contents = disk._contents(path)
    contents.data[:] = data
    contents.safe = bytes(data)


def read(disk: MemoryFileSystem, path: str = FIRST_FILE) -> bytes:
    return bytes(disk._contents(path).data)


# ------------------------------------------------------------------------------ what is kept


def test_everything_flushed_is_there_again() -> None:
    disk, journal = journal_of(1, 2, 3)
    journal.set_vote(term=4, vote=2)
    journal.append(entry(4, term=4))
    journal.flush()
    again = opened(disk)
    assert again.entries == journal.entries
    assert (again.term, again.vote) == (4, 2)
    assert again.durable_index == 4


def test_nothing_is_durable_before_its_ticket_is_complete() -> None:
    _, journal = journal_of(1)
    journal.append(entry(2))
    position = journal.position
    assert journal.durable < position
    ticket = journal.prepare_flush()
    assert ticket is not None
    journal.append(entry(3))
    assert journal.prepare_flush() is None, "one ticket at a time"
    ticket.run()
    assert journal.durable_index == 1
    journal.complete_flush(ticket)
    assert (journal.durable, journal.durable_index) == (position, 2)
    journal.flush()
    assert journal.durable_index == 3


def test_a_truncation_takes_back_what_a_ticket_will_make_durable() -> None:
    _, journal = journal_of(1)
    journal.append(entry(2))
    journal.append(entry(3))
    ticket = journal.prepare_flush()
    assert ticket is not None
    journal.truncate_from(2)
    journal.append(entry(2, term=5))
    ticket.run()
    journal.complete_flush(ticket)
    assert journal.durable_index == 1, "the entry of term 5 is not on disk"


def test_a_reset_takes_back_what_a_ticket_will_make_durable() -> None:
    _, journal = journal_of(1)
    for index in range(2, 30):
        journal.append(entry(index))
    ticket = journal.prepare_flush()
    assert ticket is not None
    journal.reset((entry(9, 3), entry(10, 3)))
    ticket.run()
    journal.complete_flush(ticket)
    assert journal.durable_index == 10


def test_one_flush_at_a_time() -> None:
    _, journal = journal_of(1)
    journal.append(entry(2))
    ticket = journal.prepare_flush()
    assert ticket is not None
    journal.append(entry(3))
    assert journal.prepare_flush() is None
    with pytest.raises(InvariantViolation):
        journal.flush()
    ticket.run()
    journal.complete_flush(ticket)
    assert journal.durable_index == 2
    journal.flush()
    assert journal.durable_index == 3


def test_a_truncated_suffix_stays_away() -> None:
    disk, journal = journal_of(1, 2, 3, 4)
    journal.truncate_from(3)
    journal.append(entry(3, term=2))
    journal.flush()
    assert [(each.index, each.term) for each in opened(disk).entries] == [(1, 1), (2, 1), (3, 2)]


def test_the_commit_index_is_kept_with_the_next_vote_and_never_beyond_the_log() -> None:
    disk, journal = journal_of(1, 2, 3)
    journal.set_commit_index(2)
    journal.set_commit_index(1)
    journal.set_vote(term=2, vote=None)
    journal.flush()
    assert opened(disk).commit_index == 2
    journal.set_commit_index(99)
    journal.set_vote(term=3, vote=None)
    journal.flush()
    assert opened(disk).commit_index == 3


# ------------------------------------------------------------------------ what is impossible


def test_what_is_committed_is_never_truncated() -> None:
    _, journal = journal_of(1, 2, 3)
    journal.set_commit_index(2)
    with pytest.raises(InvariantViolation, match="truncating what is committed"):
        journal.truncate_from(2)
    journal.truncate_from(3)


@pytest.mark.parametrize("wrong", [entry(2), entry(5), entry(4, term=0)])
def test_entries_follow_each_other(wrong: LogEntry) -> None:
    _, journal = journal_of(1, 2, 3)
    with pytest.raises(InvariantViolation, match="does not follow"):
        journal.append(wrong)


def test_the_term_never_goes_back() -> None:
    _, journal = journal_of(1)
    journal.set_vote(term=5, vote=1)
    with pytest.raises(InvariantViolation, match="the term goes back"):
        journal.set_vote(term=4, vote=1)


# ------------------------------------------------------------------------ torn, or damaged


def torn_tail() -> tuple[bytes, int, list[int]]:
    """A file whose last write holds three entries; where that begins, and where entries end."""
    disk, journal = journal_of(1, 2, 3)
    synced = len(read(disk))
    for index in (4, 5, 6):
        journal.append(entry(index, size_bytes=600))
    journal.flush()
    data = read(disk)
    ends = [record.end for record in fmt.read_records(data, path="", is_last=True)]
    return data, synced, [end for end in ends if end > synced]


def test_a_tail_torn_at_any_byte_is_cut() -> None:
    data, synced, ends = torn_tail()
    disk = new_disk()
    journal = opened(disk)
    for cut in range(synced, len(data) + 1):
        disk = new_disk()
        replace(disk, FIRST_FILE, data[:cut])
        journal = opened(disk)
        assert indexes(journal) == [1, 2, 3, *[4 + k for k, end in enumerate(ends) if end <= cut]]
        assert len(read(disk)) == max([synced, *[end for end in ends if end <= cut]])
    journal.append(entry(7))
    journal.flush()
    assert indexes(opened(disk)) == [1, 2, 3, 4, 5, 6, 7]


def test_sectors_of_zeros_in_the_last_write_are_a_torn_tail() -> None:
    """Good records may follow them, and prove nothing."""
    data, synced, ends = torn_tail()
    for start in range(synced, len(data), 64):
        disk = new_disk()
        size = len(data[start : start + 512])
        replace(disk, FIRST_FILE, data[:start] + bytes(size) + data[start + size :])
        kept = [4 + k for k, end in enumerate(ends) if end <= start]
        assert indexes(opened(disk)) == [1, 2, 3, *kept]


def test_a_changed_byte_in_synced_records_is_damage_wherever_it_is() -> None:
    disk, journal = journal_of(1, 2, 3)
    synced = len(read(disk))
    journal.append(entry(4))
    journal.flush()
    data = read(disk)
    starts = [0, *[record.end for record in fmt.read_records(data, path="", is_last=True)]]
    for position in range(synced):
        disk = new_disk()
        replace(disk, FIRST_FILE, data)
        disk.flip_bit(FIRST_FILE, position, position % 8)
        start = max(each for each in starts if each <= position)
        with pytest.raises(Damaged, match=f"^{re.escape(FIRST_FILE)} is damaged at byte {start}:"):
            Journal(disk, DIRECTORY)
        assert len(read(disk)) == len(data), "the evidence is left as it is"


def test_a_file_before_the_last_has_no_torn_tail() -> None:
    disk, journal = journal_of(1, 2, 3)
    journal.trim(keep_from=1, snapshot_index=0)
    journal.append(entry(4))
    journal.flush()
    data = read(disk)
    for cut in range(1, len(data)):
        replace(disk, FIRST_FILE, data[:cut])
        with pytest.raises(Damaged, match=re.escape(DIRECTORY)):
            opened(disk)


def test_a_gap_between_files_is_damage() -> None:
    disk, journal = journal_of(1)
    for index in (2, 3):
        journal.trim(keep_from=1, snapshot_index=0)
        journal.append(entry(index))
        journal.flush()
    disk.remove(f"{DIRECTORY}/{1:020d}.journal")
    with pytest.raises(Damaged, match="lacks a journal between 0 and 2"):
        Journal(disk, DIRECTORY)


def test_a_gap_between_entries_is_damage() -> None:
    disk = new_disk()
    data = read(disk)
    for index in (1, 3):
        data += fmt.encode(fmt.Kind.ENTRY, fmt.entry_body(entry(index)), synced=len(data))
    replace(disk, FIRST_FILE, data)
    with pytest.raises(Damaged, match="goes from index 1 to 3"):
        Journal(disk, DIRECTORY)


def test_a_directory_without_a_journal_is_refused_with_a_remedy() -> None:
    disk = new_disk()
    disk.remove(FIRST_FILE)
    with pytest.raises(UserError, match="floodmark quorum recover"):
        Journal(disk, DIRECTORY)
    assert files(disk) == []


@pytest.mark.parametrize("kind", [Kind.SYNC, Kind.APPEND, Kind.CREATE, Kind.SYNC_DIRECTORY])
def test_an_error_of_the_disk_makes_nothing_durable(kind: Kind) -> None:
    disk, journal = journal_of(1)
    journal.trim(keep_from=1, snapshot_index=0)
    journal.append(entry(2))
    disk.on_operation = lambda operation: Fail() if operation.kind is kind else None
    with pytest.raises(OSError, match="nput/output error") as caught:
        journal.flush()
    assert caught.value.errno == errno.EIO
    assert journal.durable_index == 1
    assert journal.durable < journal.position


# --------------------------------------------------------------------------- files come and go


def test_a_trim_begins_a_file_that_knows_the_vote() -> None:
    disk, journal = journal_of(1, 2, 3)
    journal.set_vote(term=7, vote=3)
    journal.flush()
    journal.trim(keep_from=2, snapshot_index=3)
    assert indexes(journal) == [2, 3]
    assert len(files(disk)) == 1, "the only file is not removed before its successor is safe"
    journal.append(entry(4, term=7))
    journal.flush()
    assert len(files(disk)) == 2
    journal.trim(keep_from=3, snapshot_index=3)
    journal.append(entry(5, term=7))
    journal.flush()
    assert files(disk) == [f"{number:020d}.journal" for number in (1, 2)]
    again = opened(disk, (entry(2), entry(3)))
    assert indexes(again) == [2, 3, 4, 5]
    assert (again.term, again.vote) == (7, 3)


def test_a_file_stays_while_the_older_snapshot_needs_it() -> None:
    disk, journal = journal_of(1, 2, 3)
    for index in range(4, 10):
        journal.trim(keep_from=2, snapshot_index=2)
        journal.append(entry(index))
        journal.flush()
    assert files(disk)[0] == f"{0:020d}.journal"
    assert indexes(opened(disk, (entry(1), entry(2)))) == list(range(1, 10))


def test_the_size_is_that_of_the_files() -> None:
    disk, journal = journal_of(1, 2, 3)
    for index in range(4, 20):
        journal.trim(keep_from=index - 2, snapshot_index=index - 1)
        journal.append(entry(index))
        journal.flush()
        assert journal.size_bytes == sum(each.size_bytes for each in disk.list(DIRECTORY))
    assert len(files(disk)) <= 3


# ------------------------------------------------------------------- going on from a snapshot


def test_an_empty_journal_without_a_snapshot_is_a_new_voter() -> None:
    journal = opened(new_disk())
    assert (journal.entries, journal.commit_index, journal.durable_index) == ([], 0, 0)


def test_the_tail_behind_a_snapshot_is_kept() -> None:
    disk, _ = journal_of(1, 2, 3, 4, 5)
    journal = opened(disk, (entry(2), entry(3)))
    assert indexes(journal) == [2, 3, 4, 5]
    assert (journal.commit_index, journal.durable_index) == (3, 5)


@pytest.mark.parametrize(
    ("base", "why"),
    [
        ((entry(8), entry(9)), "it was installed over a shorter log"),
        ((entry(2), entry(3, term=2)), "the log has another entry there"),
    ],
)
def test_a_snapshot_that_the_log_does_not_lead_to_takes_its_place(
    base: tuple[LogEntry, LogEntry], why: str
) -> None:
    disk, _ = journal_of(1, 2, 3, 4, 5)
    journal = opened(disk, base)
    assert journal.entries == list(base), why
    journal.append(entry(base[1].index + 1, term=3))
    journal.flush()
    again = opened(disk, base)
    assert again.entries == [*base, entry(base[1].index + 1, term=3)]
    with pytest.raises(Damaged, match="has lost the snapshot"):
        opened(disk)
    with pytest.raises(Damaged, match=f"has lost the snapshot at index {base[1].index}"):
        opened(disk, (entry(1), entry(2)))


def test_a_log_that_begins_right_behind_its_snapshot_goes_on() -> None:
    disk, journal = journal_of(1, 2, 3)
    journal.reset((entry(9, 2), entry(10, 2)))
    journal.append(entry(11, 2))
    journal.flush()
    assert indexes(opened(disk, (entry(9, 2), entry(10, 2)))) == [9, 10, 11]


def test_a_gap_between_snapshot_and_log_is_damage() -> None:
    disk, journal = journal_of(1, 2, 3)
    for index in range(4, 8):
        journal.trim(keep_from=index - 2, snapshot_index=index - 1)
        journal.append(entry(index))
        journal.flush()
    first = min(int(name.split(".")[0]) for name in files(disk))
    assert first > 0
    with pytest.raises(Damaged, match=r"begins at index \d, and its newest snapshot ends at 2"):
        opened(disk, (entry(1), entry(2)))
    with pytest.raises(Damaged, match="has lost the snapshot that its journal goes on from"):
        opened(disk)
