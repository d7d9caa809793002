"""A log on a real file system that loses its power.

The crash machine does this thousands of times on a file system in memory, with every state that
the contract allows. This does it on ext4 and XFS, with the states that these really leave. The
power goes off right before a random write or sync of the log. Meanwhile the kernel is made to
write out some pages of its own accord, and to commit its journal for the sake of a neighbour.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kafka_wire.error_codes import KafkaError
from kafka_wire.types import Buffer, LeaderEpoch, Offset, TopicPartition
from log.config import LogConfig
from log.data_directory import DataDirectory
from log.filesystem import OsFileSystem
from log.filesystem.operating_system import OsFile
from log.partition_log import PartitionLog
from log.verify import verify_log
from tests.log.batches import batch_of
from tests.support.loop_disk import LoopDisk

pytestmark = pytest.mark.live

SEEDS = range(5)
CUTS = 4
"""How often the power fails in one run, on one disk: what a recovery leaves must be recoverable."""
MAX_OPERATIONS = 400
PARTITION = TopicPartition("events", 0)
CONFIG = LogConfig(segment_bytes=100_000)
NOW_MS = 1_700_000_000_000


@pytest.fixture(params=["ext4", "xfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopDisk]:
    made = LoopDisk(tmp_path, request.param)
    yield made
    made.discard()


@pytest.mark.parametrize("seed", SEEDS)
def test_flushed_records_survive_the_loss_of_power_on_a_real_file_system(
    disk: LoopDisk, seed: int
) -> None:
    random = Random(seed)
    files = FailingFileSystem(disk, random)
    model = Model()
    create(disk)
    for _ in range(CUTS):
        files.cut_after(random.randrange(MAX_OPERATIONS // 4))
        work_until_power_is_lost(files, disk, random, model)
        disk.restore_power()
        check_what_is_left(disk, model)
    verified = verify(disk)
    assert verified.returncode == 0, verified.stdout


# --- the disk ----------------------------------------------------------------------------------


class FailingFile(OsFile):
    """Before each write and sync the power may fail."""

    __slots__ = ("_files",)

    def __init__(self, path: str, *, create: bool, files: "FailingFileSystem") -> None:
        super().__init__(path, create=create)
        self._files = files

    def append(self, data: Buffer) -> None:
        self._files.count()
        super().append(data)
        if self._files.random.random() < 0.1:
            # The kernel begins to write the file's pages; their order and number are its own.
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def truncate(self, size_bytes: int) -> None:
        self._files.count()
        super().truncate(size_bytes)

    def sync(self) -> None:
        self._files.count()
        super().sync()


class FailingFileSystem(OsFileSystem):
    """The operating system's, on a disk whose power fails at a chosen operation."""

    def __init__(self, disk: LoopDisk, random: Random) -> None:
        self.random = random
        self._disk = disk
        self._operations_left = 0

    def cut_after(self, operations: int) -> None:
        self._operations_left = operations

    def count(self) -> None:
        if self._operations_left == 0:
            self._disk.cut_power()
        self._operations_left -= 1

    def open(self, path: str, *, create: bool = False) -> OsFile:
        return FailingFile(path, create=create, files=self)

    def rename(self, old: str, new: str) -> None:
        self.count()
        super().rename(old, new)

    def sync_directory(self, path: str) -> None:
        self.count()
        super().sync_directory(path)


# --- what is done, and what must be left ---------------------------------------------------------


class Model:
    """The bytes of the log, batch by batch, and up to where they are safe."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        """Each with the offset behind its last record."""
        self.safe_end = 0
        self.epoch = 0

    @property
    def end(self) -> int:
        return self.batches[-1][0] if self.batches else 0

    def truncate(self, end: int) -> None:
        self.batches = [batch for batch in self.batches if batch[0] <= end]


def create(disk: LoopDisk) -> None:
    data = DataDirectory.open(OsFileSystem(), str(disk.path), lambda _: CONFIG)
    data.create(PARTITION, CONFIG, topic_id=bytes(range(16)))
    data.release()


def work_until_power_is_lost(
    files: FailingFileSystem, disk: LoopDisk, random: Random, model: Model
) -> None:
    model.epoch += 1
    data: DataDirectory | None = None
    try:
        data = DataDirectory.open(files, str(disk.path), lambda _: CONFIG)
        log = data.logs[PARTITION]
        for _ in range(MAX_OPERATIONS):
            match random.randrange(20):
                case 0 | 1 | 2 | 3:
                    log.flush()
                    model.safe_end = log.recovery_point
                case 4:
                    data.checkpoint()
                case 5:
                    sync_neighbour(disk)
                case 6 if model.batches:
                    truncate(log, random, model)
                case _:
                    append(log, random, model)
    except (KafkaError, OSError):
        return
    finally:
        if data is not None:
            data.release()
    disk.cut_power()


def append(log: PartitionLog, random: Random, model: Model) -> None:
    largest = random.choice((100, 3_000, 20_000))
    values = [random.randbytes(random.randrange(largest)) for _ in range(random.randint(1, 4))]
    batch = batch_of(values, timestamp_ms=NOW_MS)
    # Noted before: it may reach the disk although the call fails. It gets its place in here.
    end = model.end + len(values)
    model.batches.append((end, b""))
    try:
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(model.epoch), now_ms=NOW_MS)
    finally:
        model.batches[-1] = (end, bytes(batch))


def truncate(log: PartitionLog, random: Random, model: Model) -> None:
    end, _ = random.choice(model.batches[-5:])
    model.safe_end = min(model.safe_end, end)
    log.truncate_to(Offset(end))
    model.truncate(end)


def sync_neighbour(disk: LoopDisk) -> None:
    """Another file is synced, whereupon the journal is committed, with what it knows of ours."""
    neighbour = os.open(disk.path / "neighbour", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(neighbour, b"x" * 5000)
        os.fsync(neighbour)
    finally:
        os.close(neighbour)


def check_what_is_left(disk: LoopDisk, model: Model) -> None:
    """Recovers the log; everything safe is there byte for byte, and nothing but what was there."""
    data = DataDirectory.open(OsFileSystem(), str(disk.path), lambda _: CONFIG)
    assert data.offline == {}
    log = data.logs[PARTITION]
    assert log.log_end_offset >= model.safe_end
    model.truncate(log.log_end_offset)
    assert log.log_end_offset == model.end
    assert contents(log) == b"".join(batch for _, batch in model.batches)
    model.safe_end = model.end
    assert list(verify_log(OsFileSystem(), log.directory)) == []
    data.release()


def contents(log: PartitionLog) -> bytes:
    return b"".join(segment.file.read(segment.size_bytes, 0) for segment in log.segments)


def verify(disk: LoopDisk) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "floodmark", "log", "verify", str(disk.path)]
    return subprocess.run(command, check=False, capture_output=True, text=True)
