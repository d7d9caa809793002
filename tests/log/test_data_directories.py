"""Several data directories: partitions are spread, and one failed disk is one failed disk."""

import random

import pytest

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import LeaderEpoch, Offset, TopicPartition
from log.checkpoints import RECOVERY_POINTS
from log.config import LogConfig
from log.data_directories import DataDirectories
from log.errors import LogError
from log.filesystem.memory import MUTATIONS, Fail, Fault, MemoryFileSystem, Operation
from tests.log.batches import batch_of, values_of

CONFIG = LogConfig(segment_bytes=700, retention_ms=None)
PATHS = ["/a", "/b", "/c"]
TOPIC_ID = bytes(range(16))


def new_disks() -> MemoryFileSystem:
    files = MemoryFileSystem(random.Random(1))
    for path in PATHS:
        files.make_directory(path)
    files.sync_directory("/")
    return files


def open_all(files: MemoryFileSystem) -> DataDirectories:
    return DataDirectories.open(files, PATHS, lambda _: CONFIG)


def partition(number: int) -> TopicPartition:
    return TopicPartition("events", number)


def append(logs: DataDirectories, number: int, value: bytes) -> None:
    log = logs.get(partition(number))
    assert log is not None
    log.append_as_leader(batch_of([value]), leader_epoch=LeaderEpoch(0), now_ms=1_000)
    log.flush()


def test_new_partitions_are_spread_over_the_directories() -> None:
    logs = open_all(new_disks())
    for number in range(6):
        logs.create(partition(number), CONFIG, topic_id=TOPIC_ID)
    assert [len(directory.logs) for directory in logs.directories] == [2, 2, 2]


def test_partitions_are_found_again_wherever_they_lie() -> None:
    files = new_disks()
    logs = open_all(files)
    for number in range(4):
        logs.create(partition(number), CONFIG, topic_id=TOPIC_ID)
        append(logs, number, b"v%d" % number)
    logs.close()
    logs = open_all(files)
    for number in range(4):
        log = logs.get(partition(number))
        assert log is not None
        assert values_of(log) == [(0, b"v%d" % number)]
    assert len(list(logs)) == 4


def test_directory_that_cannot_be_opened_leaves_the_others_alone() -> None:
    files = new_disks()
    logs = open_all(files)
    for number in range(3):
        logs.create(partition(number), CONFIG, topic_id=TOPIC_ID)
    logs.checkpoint()
    logs.close()
    files.flip_bit(f"/b/{RECOVERY_POINTS}", 0, 0)
    logs = open_all(files)
    assert list(logs.failed) == ["/b"]
    assert [directory.path for directory in logs.directories] == ["/a", "/c"]
    assert logs.get(partition(1)) is None
    assert logs.get(partition(0)) is not None


def test_no_directory_at_all_is_an_error_that_tells_why() -> None:
    files = MemoryFileSystem(random.Random(1))
    with pytest.raises(LogError, match=r"no data directory can be opened: /a: .*; /b: .*"):
        open_all(files)


def test_disk_that_fails_takes_only_its_own_partitions_offline() -> None:
    files = new_disks()
    logs = open_all(files)
    for number in range(3):
        logs.create(partition(number), CONFIG, topic_id=TOPIC_ID)
        append(logs, number, b"before")

    def fail_in_b(operation: Operation) -> Fault | None:
        is_b = operation.path.startswith("/b/")
        return Fail() if is_b and operation.kind in MUTATIONS else None

    files.on_operation = fail_in_b
    with pytest.raises(KafkaError) as refused:
        append(logs, 1, b"after")
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    append(logs, 0, b"after")
    append(logs, 2, b"after")
    broken = logs.get(partition(1))
    assert broken is not None
    assert values_of(broken) == [(0, b"before")]
    logs.checkpoint()
    created = logs.create(partition(3), CONFIG, topic_id=TOPIC_ID)
    assert not created.directory.startswith("/b")


def test_partition_in_two_directories_is_refused() -> None:
    files = new_disks()
    logs = open_all(files)
    logs.create(partition(0), CONFIG, topic_id=TOPIC_ID)
    logs.directories[1].create(partition(0), CONFIG, topic_id=TOPIC_ID)
    logs.close()
    with pytest.raises(LogError, match="events-0 is in /a and in /b"):
        open_all(files)


def test_partition_that_exists_is_not_made_again_elsewhere() -> None:
    logs = open_all(new_disks())
    logs.create(partition(0), CONFIG, topic_id=TOPIC_ID)
    with pytest.raises(LogError, match="in /a already"):
        logs.create(partition(0), CONFIG, topic_id=TOPIC_ID)


def test_deleted_partition_may_be_made_again_and_is_empty() -> None:
    logs = open_all(new_disks())
    logs.create(partition(0), CONFIG, topic_id=TOPIC_ID)
    append(logs, 0, b"old")
    logs.delete(partition(0), unique_id="x")
    assert logs.directory_of(partition(0)) is None
    again = logs.create(partition(0), CONFIG, topic_id=TOPIC_ID)
    assert again.log_end_offset == Offset(0)
