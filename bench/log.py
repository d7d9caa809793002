"""The log: appends and reads against the bare system calls, group commit, start, and growth.

Ours does everything that a broker's log does: check the batch and its checksum, give it offsets
and an epoch, keep the indexes and the producers' state, begin new segments. The peer hands the
same bytes to the operating system and does nothing else, so it is a floor rather than a rival.

* All files lie on a real disk, under `build/`, and are removed in the end.
* Writing is in cycles: after 256 MB both begin anew in an empty file. The first touch of memory
  costs more than a write on a virtual machine, so a ballast file warms the page cache first.
* Reading is sequential, as consumers and followers read: each read begins where the one before
  ended. Finding that place is part of ours; the peer is told.
"""

import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

from bench.harness import Clock, Limit, Ratio, Speedup, Suite
from bench.results import ROOT
from kafka_wire.records import ProducerStamp, Record, build_batch, iter_batches
from kafka_wire.types import (
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    Sequence,
    TopicPartition,
)
from log.config import LogConfig
from log.data_directory import CLEAN_SHUTDOWN, DataDirectory
from log.filesystem import OsFileSystem
from log.filesystem.operating_system import OsFile
from log.partition_log import PartitionLog
from log.recovery import open_log
from log.segment import Slice

KB = 1024
MB = KB * KB
GB = KB * MB
CYCLE_BYTES = 256 * MB
BALLAST_BYTES = GB
TINY_BYTES = 120
TINY_COUNT = 20_000
WRITERS = 50
PARTITIONS = 1_000
SEGMENTS = 10
EPOCH = LeaderEpoch(3)
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(max_message_bytes=2 * MB)
RANDOM = random.Random(1)


def main() -> int:
    suite = Suite("log")
    with folder() as place:
        warm_page_cache(place)
        appends(suite, place)
        followers(suite, place)
        reads(suite, place)
        group_commit(suite, place)
        growth(suite, place)
        tiny_appends(suite, place)
        start(suite, place)
    return suite.finish()


@contextmanager
def folder() -> Iterator[Path]:
    """A place on the disk of the repository; /tmp may be in memory."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, prefix="bench-log-") as name:
        yield Path(name)


def warm_page_cache(place: Path) -> None:
    ballast = place / "ballast"
    with ballast.open("wb") as file:
        for _ in range(BALLAST_BYTES // MB):
            file.write(bytes(MB))
    ballast.unlink()


# --- writing -------------------------------------------------------------------------------------


def appends(suite: Suite, place: Path) -> None:
    for label, size_bytes in (("16 KB", 16 * KB), ("1 MB", MB)):
        batch = batch_of(size_bytes)
        ours, peer = LogCycle(place / "append"), FileCycle(place / "written")

        def append(log_cycle: LogCycle = ours, batch: bytearray = batch) -> None:
            log = log_cycle.log_for(len(batch))
            log.append_as_leader(batch, leader_epoch=EPOCH, now_ms=NOW_MS)

        def write(file_cycle: FileCycle = peer, batch: bytearray = batch) -> None:
            os.write(file_cycle.file_for(len(batch)), batch)

        suite.compare(
            f"append as leader, {label} batches",
            ours=append,
            peers={"os.write": write},
            target=Ratio(at_most=1.5, peer="os.write"),
        )
        ours.remove()
        peer.remove()


def followers(suite: Suite, place: Path) -> None:
    """A follower gets many batches at once, and writes those of a segment with one call."""
    size_bytes, batches_count = 16 * KB, 64
    batch = batch_of(size_bytes)
    answers = []
    for first in range(0, 64 * batches_count, batches_count):
        answer = bytearray()
        for number in range(first, first + batches_count):
            struct.pack_into(">q", batch, 0, number)
            struct.pack_into(">i", batch, 12, EPOCH)
            answer += batch
        answers.append(answer)
    cycle_bytes = len(answers) * MB  # The offsets in the answers are for one cycle.
    ours = LogCycle(place / "follower", cycle_bytes)
    peer = FileCycle(place / "written", cycle_bytes)
    single = FileCycle(place / "written one by one", cycle_bytes)
    to_append, to_write = cycle(answers), cycle(answers)

    def append() -> None:
        answer = next(to_append)
        ours.log_for(MB).append_as_follower(memoryview(answer), now_ms=NOW_MS)

    def write() -> None:
        os.write(peer.file_for(MB), next(to_write))

    def write_one_by_one() -> None:
        for _ in range(batches_count):
            os.write(single.file_for(size_bytes), batch)

    suite.compare(
        f"append as follower, {batches_count} batches of 16 KB at once",
        ours=append,
        peers={"os.write": write, "os.write of each": write_one_by_one},
    )
    for written in (ours, peer, single):
        written.remove()


class LogCycle:
    """A log that begins anew in an empty directory after so many bytes."""

    def __init__(self, path: Path, cycle_bytes: int = CYCLE_BYTES) -> None:
        self._path = path
        self._cycle_bytes = cycle_bytes
        self._left_bytes = 0
        self._log: PartitionLog | None = None

    def log_for(self, size_bytes: int) -> PartitionLog:
        if self._log is None or self._left_bytes < size_bytes:
            self.remove()
            self._log = new_log(self._path)
            self._left_bytes = self._cycle_bytes
        self._left_bytes -= size_bytes
        return self._log

    def remove(self) -> None:
        self._log = None
        shutil.rmtree(self._path, ignore_errors=True)


class FileCycle:
    """The same with a file."""

    def __init__(self, path: Path, cycle_bytes: int = CYCLE_BYTES) -> None:
        self._path = path
        self._cycle_bytes = cycle_bytes
        self._left_bytes = 0
        self._descriptor: int | None = None

    def file_for(self, size_bytes: int) -> int:
        if self._descriptor is None or self._left_bytes < size_bytes:
            self.remove()
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            self._left_bytes = self._cycle_bytes
        self._left_bytes -= size_bytes
        return self._descriptor

    def remove(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._path.unlink(missing_ok=True)


def tiny_appends(suite: Suite, place: Path) -> None:
    plain = [batch_of(TINY_BYTES)] * TINY_COUNT
    idempotent = [batch_of(TINY_BYTES, sequence=number) for number in range(TINY_COUNT)]
    for label, batches in (("", plain), (", idempotent", idempotent)):

        def sample(batches: list[bytearray] = batches) -> float:
            log = new_log(place / "tiny")
            start_ns = time.process_time_ns()
            for batch in batches:
                log.append_as_leader(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
            log.write_staged()
            taken_ns = time.process_time_ns() - start_ns
            shutil.rmtree(place / "tiny")
            return taken_ns / len(batches) / 1000

        suite.measure(
            f"CPU of an append of {len(batches[0])} bytes{label}",
            sample,
            unit="µs",
            target=Limit(at_most=6),
        )


def growth(suite: Suite, place: Path) -> None:
    """The same append to a log of 1 MB and to one of 10 GB.

    Of the 10 GB all but the active segment are holes in sparse files, found by name and size when
    the log is opened. That is what a broker knows of its sealed segments after a clean start.
    """
    small, large = place / "small", place / "large"
    base_offset = SEGMENTS * 1_000_000
    for path in (small, large):
        log = new_log(path, log_start_offset=Offset(base_offset))
        log.append_as_leader(batch_of(MB), leader_epoch=EPOCH, now_ms=NOW_MS)
        log.close()
    for number in range(SEGMENTS):
        sealed = large / f"{number * 1_000_000:020d}.log"
        with sealed.open("wb") as file:
            file.truncate(GB)
    batch = batch_of(TINY_BYTES)

    def appender(path: Path) -> Callable[[], object]:
        log = open_log(OsFileSystem(), str(path), CONFIG, clean=True)
        return lambda: log.append_as_leader(batch, leader_epoch=EPOCH, now_ms=NOW_MS)

    suite.compare(
        f"append of {len(batch)} bytes to a log of 10 GB (sparse)",
        ours=appender(large),
        peers={"a log of 1 MB": appender(small)},
        target=Ratio(at_most=1.1, peer="a log of 1 MB"),
    )
    shutil.rmtree(small)
    shutil.rmtree(large)


def group_commit(suite: Suite, place: Path) -> None:
    """50 writers wait for the disk: together, or one after the other."""
    batch = batch_of(KB)
    together, alone = new_log(place / "together"), new_log(place / "alone")

    def commit_together() -> None:
        for _ in range(WRITERS):
            together.append_as_leader(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
        ticket = together.prepare_flush()
        assert ticket is not None
        ticket.run()
        together.complete_flush(ticket)

    def commit_one_by_one() -> None:
        for _ in range(WRITERS):
            alone.append_as_leader(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
            alone.flush()

    suite.compare(
        f"durable append of {WRITERS} batches of 1 KB, wall time",
        ours=commit_together,
        peers={"a sync per append": commit_one_by_one},
        target=Speedup(at_least=10, peer="a sync per append"),
        clock=Clock.WALL,
    )
    shutil.rmtree(place / "together")
    shutil.rmtree(place / "alone")


# --- reading -------------------------------------------------------------------------------------


def reads(suite: Suite, place: Path) -> None:
    batch = batch_of(KB)
    log = new_log(place / "read")
    while log.segments.active.size_bytes < 64 * MB:
        log.append_as_leader(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
    log.write_staged()
    file = os.open(place / "read" / f"{0:020d}.log", os.O_RDONLY)
    for label, max_bytes in (("16 KB", 16 * KB), ("64 KB", 64 * KB), ("1 MB", MB)):
        compare_reads(suite, log, file, label, max_bytes)
    os.close(file)
    shutil.rmtree(place / "read")


def compare_reads(suite: Suite, log: PartitionLog, file: int, label: str, max_bytes: int) -> None:
    found = list(slices(log, max_bytes))
    offsets = cycle(part.base_offset for part in found)
    places = cycle((part.size_bytes, part.position) for part in found)

    def read() -> bytes:
        part = log.read(next(offsets), max_bytes=max_bytes, end_offset=log.log_end_offset)
        assert part is not None
        return part.read()

    def pread() -> bytes:
        size_bytes, position = next(places)
        return os.pread(file, size_bytes, position)

    suite.compare(
        f"read of {label}, batches of 1 KB",
        ours=read,
        peers={"os.pread": pread},
        target=Ratio(at_most=1.3, peer="os.pread") if max_bytes != 64 * KB else None,
    )


def slices(log: PartitionLog, max_bytes: int) -> Iterator[Slice]:
    """What a reader gets who asks again and again, from the start of the log to its end."""
    offset = log.log_start_offset
    while (
        part := log.read(offset, max_bytes=max_bytes, end_offset=log.log_end_offset)
    ) is not None:
        yield part
        for header, _ in iter_batches(part.read()):
            offset = header.next_offset


# --- starting ------------------------------------------------------------------------------------


def start(suite: Suite, place: Path) -> None:
    path = place / "data"
    make_data_directory(path)
    label = f"open {PARTITIONS} partitions with {SEGMENTS} segments each, after a clean stop"

    def sample(what: str) -> Callable[[], float]:
        def measure_once() -> float:
            (path / CLEAN_SHUTDOWN).touch()
            command = [sys.executable, "-m", "bench.log", what, str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            return float(done.stdout)

        return measure_once

    suite.measure(
        f"{label}: wall time", sample("--open-s"), unit="s", target=Limit(at_most=3), samples=5
    )
    suite.measure(
        f"{label}: memory per partition",
        sample("--open-kb"),
        unit="KB",
        target=Limit(at_most=60),
        samples=1,
    )


def open_s(path: str) -> float:
    start_ns = time.perf_counter_ns()
    opened = DataDirectory.open(OsFileSystem(), path, lambda _: CONFIG)
    taken_ns = time.perf_counter_ns() - start_ns
    assert len(opened.logs) == PARTITIONS
    return taken_ns / 1e9


def open_kb(path: str) -> float:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    opened = DataDirectory.open(OsFileSystem(), path, lambda _: CONFIG)
    after, _ = tracemalloc.get_traced_memory()
    return (after - before) / len(opened.logs) / KB


class UnsyncedFile(OsFile):
    __slots__ = ()

    def sync(self) -> None:
        """Nothing that is prepared for a measurement has to survive."""


class UnsyncedFileSystem(OsFileSystem):
    def open(self, path: str, *, create: bool = False) -> OsFile:
        return UnsyncedFile(path, create=create)

    def sync_directory(self, path: str) -> None:
        pass


def make_data_directory(path: Path) -> None:
    """Partitions with a few index entries in each segment."""
    path.mkdir()
    made = DataDirectory.open(UnsyncedFileSystem(), str(path), lambda _: CONFIG)
    batch = batch_of(5 * KB)
    for number in range(PARTITIONS):
        partition = TopicPartition(f"topic-{number % 100}", number // 100)
        log = made.create(partition, CONFIG, topic_id=bytes(16))
        for segment in range(SEGMENTS):
            if segment:
                log.roll()
            for _ in range(3):
                log.append_as_leader(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
        log.close()
    made.checkpoint()
    made.release()


# --- what all of them use ------------------------------------------------------------------------


def batch_of(size_bytes: int, *, sequence: int | None = None) -> bytearray:
    """A batch of one record, about so large."""
    value = RANDOM.randbytes(size_bytes - 61 - 10)
    producer = None
    if sequence is not None:
        producer = ProducerStamp(
            producer_id=ProducerId(7),
            producer_epoch=ProducerEpoch(0),
            base_sequence=Sequence(sequence),
        )
    return bytearray(build_batch([Record(Offset(0), NOW_MS, None, value)], producer=producer))


def new_log(path: Path, *, log_start_offset: Offset = Offset(0)) -> PartitionLog:  # noqa: B008
    path.mkdir()
    return open_log(
        OsFileSystem(), str(path), CONFIG, clean=False, log_start_offset=log_start_offset
    )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    match sys.argv[1:]:
        case ["--open-s", path]:
            print(open_s(path))
        case ["--open-kb", path]:
            print(open_kb(path))
        case _:
            sys.exit(main())
