"""Logs on a file system in memory, for tests that break things."""

import random
from collections.abc import Callable

from kafka_wire.records import (
    EndTransactionMarker,
    ProducerStamp,
    build_end_transaction_marker,
)
from kafka_wire.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence
from log.config import LogConfig
from log.filesystem import FileSystem
from log.filesystem.memory import (
    MUTATIONS,
    CrashNow,
    Fail,
    Fault,
    Kind,
    MemoryFileSystem,
    Operation,
)
from log.partition_log import Appended, Origin, PartitionLog
from log.recovery import open_log
from tests.log.batches import batch_of

DIRECTORY = "/data/topic-0"
NOW_MS = 10_000
SMALL = LogConfig(segment_bytes=700, index_interval_bytes=80, retention_ms=None)
"""Segments of a few batches, with an index entry every second batch."""

FIRST = "00000000000000000000"


def new_files(seed: int = 0) -> MemoryFileSystem:
    files = MemoryFileSystem(random.Random(seed))
    files.make_directory("/data")
    files.sync_directory("/")
    files.make_directory(DIRECTORY)
    files.sync_directory("/data")
    return files


def open_at(
    files: FileSystem,
    config: LogConfig = SMALL,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    before_truncation: Callable[[Offset], None] = lambda _: None,
    directory: str = DIRECTORY,
) -> PartitionLog:
    return open_log(
        files,
        directory,
        config,
        clean=clean,
        recovery_point=Offset(recovery_point),
        log_start_offset=Offset(log_start_offset),
        before_truncation=before_truncation,
    )


def reopen(files: FileSystem, log: PartitionLog, config: LogConfig | None = None) -> PartitionLog:
    """Closes a log and opens it again."""
    log.close()
    return open_at(
        files,
        config or log.config,
        clean=True,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
    )


def append(
    log: PartitionLog, *values: bytes | None, epoch: int = 0, timestamp_ms: int = 1_000
) -> Appended:
    return log.append_as_leader(
        batch_of(values or (b"value",), timestamp_ms=timestamp_ms),
        leader_epoch=LeaderEpoch(epoch),
        now_ms=NOW_MS,
    )


def fill(log: PartitionLog, count: int, *, epoch: int = 0) -> None:
    """Appends batches of one record, about a hundred bytes each, with ascending timestamps."""
    for _ in range(count):
        number = log.log_end_offset
        time_ms = 1_000 + number % 5_000
        append(log, b"%d." % number + b"." * 40, epoch=epoch, timestamp_ms=time_ms)


def produce(
    log: PartitionLog,
    producer_id: int,
    sequence: int,
    count: int = 1,
    *,
    producer_epoch: int = 0,
    is_transactional: bool = False,
    epoch: int = 0,
) -> Appended:
    """A batch of an idempotent producer."""
    stamp = ProducerStamp(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(producer_epoch),
        base_sequence=Sequence(sequence),
    )
    values = [b"%d/%d" % (producer_id, sequence + i) for i in range(count)]
    batch = batch_of(values, producer=stamp, is_transactional=is_transactional)
    return log.append_as_leader(batch, leader_epoch=LeaderEpoch(epoch), now_ms=NOW_MS)


def end_transaction(
    log: PartitionLog,
    producer_id: int,
    *,
    commit: bool,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    epoch: int = 0,
) -> Appended:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=commit, coordinator_epoch=coordinator_epoch),
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(producer_epoch),
        timestamp_ms=NOW_MS,
    )
    return log.append_as_leader(
        bytearray(marker),
        leader_epoch=LeaderEpoch(epoch),
        now_ms=NOW_MS,
        origin=Origin.COORDINATOR,
    )


def write_bytes(files: MemoryFileSystem, name: str, data: bytes) -> None:
    """Replaces a file of the log, as damage that is on disk already."""
    file = files.open(f"{DIRECTORY}/{name}", create=True)
    file.truncate(0)
    file.append(data)
    file.sync()
    files.sync_directory(DIRECTORY)


def read_bytes(files: FileSystem, name: str) -> bytes:
    file = files.open(f"{DIRECTORY}/{name}")
    return file.read(file.size_bytes, 0)


def names(files: FileSystem) -> list[str]:
    return [entry.name for entry in files.list(DIRECTORY)]


def failing(
    *kinds: Kind, suffix: str = "", number: int = 5, done: float = 0.0
) -> Callable[[Operation], Fault | None]:
    """A fault for every operation of some kinds on files whose names end so."""

    def on_operation(operation: Operation) -> Fault | None:
        if operation.kind in kinds and operation.path.endswith(suffix):
            return Fail(number=number, done=done)
        return None

    return on_operation


def no_fault(_: Operation) -> None:
    return None


def crash_from(number: int, *, done: float = 0.0) -> Callable[[Operation], Fault | None]:
    """Power fails at the first operation from a number on that changes something."""

    def on_operation(operation: Operation) -> Fault | None:
        is_due = operation.number >= number and operation.kind in MUTATIONS
        return CrashNow(done=done) if is_due else None

    return on_operation
