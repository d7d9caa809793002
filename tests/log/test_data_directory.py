"""One data directory and several: how they start, stop, fail, and what they write down."""

import errno
import os
from pathlib import Path

import pytest

from floodmark.invariant import InvariantViolation
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import Offset, TopicPartition
from log.config import LogConfig
from log.data_directory import CLEAN_SHUTDOWN, DataDirectory
from log.errors import DamagedFileError, DamagedLogError, LogError
from log.filesystem import FileSystem, OsFileSystem
from log.filesystem.memory import Crash, Kind, MemoryFileSystem
from tests.log.batches import values_of
from tests.log.logs import FIRST, append, crash_from, failing, fill, new_files, no_fault

A, B, C = (TopicPartition("topic", number) for number in range(3))
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=80, retention_ms=None)
TOPIC_ID = bytes(range(16))
ROOT = "/disk"


def disk(seed: int = 0) -> MemoryFileSystem:
    files = new_files(seed)
    files.make_directory(ROOT)
    files.sync_directory("/")
    return files


def opened(files: FileSystem, root: str = ROOT) -> DataDirectory:
    return DataDirectory.open(files, root, lambda _: CONFIG)


def populated(files: FileSystem, root: str = ROOT, count: int = 10) -> DataDirectory:
    directory = opened(files, root)
    for partition in (A, B, C):
        log = directory.create(partition, CONFIG, topic_id=TOPIC_ID)
        fill(log, count)
        log.flush()
    return directory


def is_marked(files: FileSystem) -> bool:
    return files.exists(f"{ROOT}/{CLEAN_SHUTDOWN}")


def storage_error(call: object) -> None:
    assert callable(call)
    with pytest.raises(KafkaError) as caught:
        call()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


# --------------------------------------------------------------------------- starting and stopping


def test_everything_is_there_after_a_clean_stop() -> None:
    files = disk()
    directory = populated(files)
    directory.logs[A].set_high_watermark(Offset(7))
    directory.logs[B].set_high_watermark(Offset(10))
    directory.logs[B].advance_log_start(Offset(3))
    directory.close()
    assert is_marked(files)
    directory = opened(files)
    assert not is_marked(files)
    assert set(directory.logs) == {A, B, C}
    assert directory.topic_ids == dict.fromkeys((A, B, C), TOPIC_ID)
    assert [offset for offset, _ in values_of(directory.logs[B])] == list(range(3, 10))
    assert [directory.logs[p].high_watermark for p in (A, B, C)] == [7, 10, 0]
    assert directory.logs[A].recovery_point == 10


def test_clean_start_reads_no_batch_that_an_index_leads_past() -> None:
    files = disk()
    populated(files, count=200).close()
    before = files.operations_count
    opened(files).release()
    clean = files.operations_count - before
    before = files.operations_count
    opened(files)
    assert clean < (files.operations_count - before) / 2


def test_marker_is_gone_for_good_before_a_log_is_opened() -> None:
    for number in range(12):
        files = disk(number)
        populated(files).close()
        files.on_operation = crash_from(files.operations_count + number)
        try:
            directory = opened(files)
            append(directory.logs[A], b"x" * 10_000)
        except Crash:
            pass
        else:
            files.on_operation = no_fault
            files.crash()
            assert not is_marked(files)
        files.on_operation = no_fault
        files.crash()
        directory = opened(files)
        assert directory.offline == {}
        assert all(log.log_end_offset >= 10 for log in directory.logs.values())


def test_unclean_start_checks_what_the_checkpoint_does_not_vouch_for() -> None:
    for seed in range(20):
        files = disk(seed)
        directory = populated(files)
        directory.checkpoint()
        for log in directory.logs.values():
            fill(log, 5)
            log.write_staged()
        files.crash()
        directory = opened(files)
        assert directory.offline == {}
        for log in directory.logs.values():
            assert log.log_end_offset >= 10
            assert [offset for offset, _ in values_of(log)] == list(range(log.log_end_offset))


def test_high_watermark_that_is_written_down_is_bounded_by_the_log() -> None:
    files = disk()
    directory = populated(files)
    log = directory.logs[A]
    fill(log, 5)
    log.set_high_watermark(Offset(15))
    directory.checkpoint()
    files.crash()
    log = opened(files).logs[A]
    assert log.log_start_offset <= log.high_watermark <= log.log_end_offset


def test_checkpoint_is_written_only_when_something_has_changed() -> None:
    files = disk()
    directory = populated(files)
    directory.checkpoint()
    before = files.operations_count
    directory.checkpoint()
    assert files.operations_count == before


def test_log_start_that_is_written_down_survives_a_crash() -> None:
    files = disk()
    directory = populated(files)
    log = directory.logs[A]
    log.set_high_watermark(Offset(10))
    log.advance_log_start(Offset(2))
    directory.checkpoint()
    files.crash()
    assert opened(files).logs[A].log_start_offset == 2


def test_truncation_is_not_taken_for_damage_after_a_crash() -> None:
    for number in range(25):
        files = disk(number)
        directory = populated(files)
        directory.checkpoint()
        files.on_operation = crash_from(files.operations_count + number)
        try:
            directory.logs[A].truncate_to(Offset(4))
        except Crash:
            pass
        files.on_operation = no_fault
        files.crash()
        directory = opened(files)
        assert directory.offline == {}
        assert directory.logs[A].log_end_offset >= 4


# ------------------------------------------------------------------------------------------ damage


def test_damaged_partition_is_offline_and_the_others_work() -> None:
    files = disk()
    directory = populated(files)
    directory.checkpoint()
    path = f"{ROOT}/{B}/{directory.logs[B].segments.active.path().rpartition('/')[2]}"
    files.flip_bit(path, 70, 1)
    directory.release()
    for _ in range(2):
        directory = opened(files)
        assert set(directory.logs) == {A, C}
        error = directory.offline[B]
        assert isinstance(error, DamagedLogError)
        assert error.path == path
        append(directory.logs[A])
        directory.close()
        assert not is_marked(files), "the next start must check the damaged partition again"
    files.flip_bit(path, 70, 1)
    directory = opened(files)
    assert directory.offline == {}
    assert directory.logs[B].log_end_offset == 10
    directory.close()
    assert is_marked(files)


def test_partition_that_is_offline_is_not_made_again_over_its_records() -> None:
    files = disk()
    directory = populated(files, count=3)
    directory.checkpoint()
    directory.release()
    files.flip_bit(f"{ROOT}/{B}/{FIRST}.log", 70, 1)
    directory = opened(files)
    before = files.list(f"{ROOT}/{B}")
    assert B in directory.offline
    with pytest.raises(LogError, match="exists already"):
        directory.create(B, CONFIG, topic_id=TOPIC_ID)
    assert files.list(f"{ROOT}/{B}") == before


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
    ],
)
@pytest.mark.parametrize("data", [b"", b"0\n9\n", b"0\n1\ntopic 0\n", b"7\n0\n", b"\0" * 20])
def test_damaged_checkpoint_keeps_the_directory_from_opening(name: str, data: bytes) -> None:
    files = disk()
    populated(files).close()
    good = files.open(f"{ROOT}/{name}")
    text = good.read(good.size_bytes, 0)
    replace(files, name, data)
    for _ in range(2):
        with pytest.raises(DamagedFileError, match=name):
            opened(files)
    assert is_marked(files), "nobody has owned the directory since"
    replace(files, name, text)
    assert len(opened(files).logs) == 3


def replace(files: MemoryFileSystem, name: str, data: bytes) -> None:
    file = files.open(f"{ROOT}/{name}", create=True)
    file.truncate(0)
    file.append(data)
    file.sync()


def test_damaged_metadata_takes_one_partition_offline() -> None:
    files = disk()
    populated(files).close()
    replace(files, f"{A}/partition.metadata", b"version: 0\ntopic_id: short\n")
    directory = opened(files)
    assert set(directory.offline) == {A}
    assert set(directory.logs) == {B, C}


# ------------------------------------------------------------------------------ making and deleting


def test_new_partition_is_there_after_a_crash() -> None:
    for seed in range(20):
        files = disk(seed)
        opened(files).create(A, CONFIG, topic_id=TOPIC_ID)
        files.crash()
        directory = opened(files)
        assert directory.topic_ids == {A: TOPIC_ID}
        assert directory.logs[A].log_end_offset == 0


def test_partition_whose_making_was_interrupted_is_made_again() -> None:
    for number in range(15):
        files = disk(number)
        directory = opened(files)
        files.on_operation = crash_from(files.operations_count + number)
        try:
            directory.create(A, CONFIG, topic_id=TOPIC_ID)
        except Crash:
            pass
        files.on_operation = no_fault
        files.crash()
        directory = opened(files)
        assert directory.topic_ids.get(A, TOPIC_ID) == TOPIC_ID
        if A not in directory.logs:
            directory.create(A, CONFIG, topic_id=TOPIC_ID)
        append(directory.logs[A])


def test_deleted_partition_lends_nothing_to_one_of_the_same_name() -> None:
    files = disk()
    directory = populated(files)
    old = directory.logs[A]
    old.set_high_watermark(Offset(10))
    old.advance_log_start(Offset(5))
    directory.checkpoint()
    directory.delete(A, unique_id="x")
    assert A not in directory.logs
    new = directory.create(A, CONFIG, topic_id=b"n" * 16)
    assert (new.log_start_offset, new.log_end_offset, new.recovery_point) == (0, 0, 0)
    storage_error(lambda: append(old))
    storage_error(old.prepare_flush)
    fill(new, 2)
    new.flush()
    files.crash()
    directory = opened(files)
    assert directory.offline == {}
    assert directory.topic_ids[A] == b"n" * 16
    assert (directory.logs[A].log_start_offset, directory.logs[A].log_end_offset) == (0, 2)


def test_deleted_partition_does_not_come_back() -> None:
    for number in range(25):
        files = disk(number)
        directory = populated(files)
        directory.checkpoint()
        files.on_operation = crash_from(files.operations_count + number)
        try:
            directory.delete(A, unique_id="x")
            ended = True
        except Crash:
            ended = False
        files.on_operation = no_fault
        files.crash()
        directory = opened(files)
        assert directory.offline == {}
        assert A not in directory.logs or not ended
        if A in directory.logs:
            assert directory.logs[A].log_end_offset == 10
        assert not [e.name for e in files.list(ROOT) if e.name.endswith("-delete")]


def test_records_of_a_deleted_partition_can_be_read_by_those_who_began() -> None:
    files = disk()
    directory = populated(files)
    part = directory.logs[A].read(Offset(0), max_bytes=100, end_offset=Offset(10))
    directory.delete(A, unique_id="x")
    assert part is not None
    assert len(part.read()) == part.size_bytes


def test_partition_is_not_deleted_under_a_flush() -> None:
    directory = populated(disk())
    log = directory.logs[A]
    append(log)
    ticket = log.prepare_flush()
    assert ticket is not None
    with pytest.raises(InvariantViolation):
        directory.delete(A, unique_id="x")
    ticket.run()
    log.complete_flush(ticket)
    directory.delete(A, unique_id="x")


@pytest.mark.parametrize("name", ["lost+found", "backup-2024", "topic-07", "-1", "topic-x"])
def test_foreign_directories_are_left_alone(name: str) -> None:
    files = disk()
    files.make_directory(f"{ROOT}/{name}")
    files.open(f"{ROOT}/{name}/notes.txt", create=True)
    directory = opened(files)
    assert directory.logs == {}
    directory.close()
    assert [entry.name for entry in files.list(f"{ROOT}/{name}")] == ["notes.txt"]


# --------------------------------------------------------------------------------- disks that fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("kind", [Kind.APPEND, Kind.SYNC])
def test_error_of_the_disk_takes_the_whole_directory_offline(number: int, kind: Kind) -> None:
    files = disk()
    directory = populated(files)
    fill(directory.logs[B], 2)
    ticket = directory.logs[B].prepare_flush()
    assert ticket is not None
    append(directory.logs[A])
    files.on_operation = failing(kind, number=number, done=0.5)
    storage_error(directory.logs[A].flush)
    files.on_operation = no_fault
    assert isinstance(directory.failure, OSError)
    assert directory.failure.errno == number
    ticket.run()
    assert directory.logs[B].complete_flush(ticket) == 10, "nothing is acknowledged any more"
    for log in directory.logs.values():
        storage_error(lambda log=log: append(log))
        storage_error(log.prepare_flush)
        found = [offset for offset, _ in values_of(log)]
        assert found == list(range(log.log_end_offset))
        assert len(found) >= 10
    storage_error(directory.checkpoint)
    storage_error(lambda: directory.create(TopicPartition("new", 0), CONFIG, topic_id=TOPIC_ID))
    storage_error(lambda: directory.delete(A, unique_id="x"))
    directory.close()
    assert not is_marked(files)
    files.crash()
    directory = opened(files)
    assert directory.offline == {}
    assert all(log.log_end_offset >= 10 for log in directory.logs.values())


def test_other_directories_go_on_when_one_fails() -> None:
    files = disk()
    files.make_directory("/other")
    failed, other = populated(files), populated(files, "/other")
    files.on_operation = lambda o: (
        failing(Kind.APPEND)(o) if o.path.startswith(f"{ROOT}/") else None
    )
    storage_error(lambda: append(failed.logs[A], b"x" * 10_000))
    assert failed.failure is not None
    assert other.failure is None
    assert append(other.logs[A], b"x" * 10_000).base_offset == 10
    other.close()
    files.on_operation = no_fault
    assert files.exists(f"/other/{CLEAN_SHUTDOWN}")


@pytest.mark.parametrize("kind", [Kind.APPEND, Kind.SYNC, Kind.RENAME, Kind.SYNC_DIRECTORY])
def test_checkpoint_that_fails_takes_the_directory_offline(kind: Kind) -> None:
    files = disk()
    directory = populated(files)
    files.on_operation = failing(kind)
    storage_error(directory.checkpoint)
    files.on_operation = no_fault
    storage_error(lambda: append(directory.logs[B]))
    assert len(values_of(directory.logs[B])) == 10


def test_stop_that_fails_leaves_no_marker() -> None:
    files = disk()
    directory = populated(files)
    append(directory.logs[C])
    files.on_operation = failing(Kind.SYNC)
    storage_error(directory.close)
    files.on_operation = no_fault
    assert not is_marked(files)
    assert set(opened(files).logs) == {A, B, C}


# -------------------------------------------------------------------------- on the real file system


def test_directory_on_the_operating_systems_files(tmp_path: Path) -> None:
    files, root = OsFileSystem(), str(tmp_path)
    directory = populated(files, root)
    directory.close()
    directory = opened(files, root)
    assert [log.log_end_offset for log in directory.logs.values()] == [10, 10, 10]
    directory.logs[A].truncate_to(Offset(4))
    directory.delete(B, unique_id="x")
    directory.checkpoint()
    directory.release()
    directory = opened(files, root)
    assert {p: log.log_end_offset for p, log in directory.logs.items()} == {A: 4, C: 10}


def test_many_segments_do_not_hold_many_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    directory = opened(OsFileSystem(), str(tmp_path))
    log = directory.create(A, CONFIG, topic_id=TOPIC_ID)
    fill(log, 300)
    log.flush()
    assert len(log.segments) > 40
    assert len(os.listdir("/proc/self/fd")) - before < 10
    directory.close()
    del directory, log
    assert len(os.listdir("/proc/self/fd")) - before <= 0


def test_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    for files, root in ((disk(), ROOT), (OsFileSystem(), str(tmp_path))):
        owner = opened(files, root)
        with pytest.raises(LogError, match="in use by another process"):
            opened(files, root)
        owner.close()
        opened(files, root).release()


def test_closed_directory_takes_nothing_more() -> None:
    directory = populated(disk())
    log = directory.logs[A]
    directory.close()
    with pytest.raises(KafkaError, match="closed"):
        append(log)
    with pytest.raises(KafkaError, match="closed"):
        log.flush()
    with pytest.raises(KafkaError, match="closed"):
        directory.create(TopicPartition("new", 0), CONFIG, topic_id=TOPIC_ID)


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "x" * 250, "with space", "\0", "ü"])
def test_name_that_is_no_topic_is_refused_before_it_becomes_a_path(topic: str) -> None:
    files = disk()
    directory = populated(files)
    before = files.list(ROOT)
    with pytest.raises(KafkaError) as refused:
        directory.create(TopicPartition(topic, 0), CONFIG, topic_id=TOPIC_ID)
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert files.list(ROOT) == before
    assert directory.failure is None
    append(directory.logs[A])


def test_partition_without_a_proper_number_or_id_is_refused() -> None:
    directory = populated(disk())
    with pytest.raises(KafkaError, match="no number"):
        directory.create(TopicPartition("new", -1), CONFIG, topic_id=TOPIC_ID)
    with pytest.raises(KafkaError, match="16 bytes"):
        directory.create(TopicPartition("new", 0), CONFIG, topic_id=b"short")
    assert directory.failure is None
