"""Whether a log's files can be what was written: every batch, index and checkpoint. Read-only.

What the log would refuse to open is told here, and what it would quietly build anew. A cause is
told once: not also the index entries, offsets and epochs that no longer fit because of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any

from kafka_wire.records import BatchHeader
from kafka_wire.types import Offset, TopicPartition
from log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, OffsetCheckpoint
from log.data_directory import CLEAN_SHUTDOWN, DELETED
from log.epochs import LeaderEpochs, decode_epochs
from log.errors import DamagedFileError
from log.filesystem import FileSystem
from log.flush import read_file
from log.inspect import ERROR, Walked, dump_file, is_log_file, walk
from log.names import (
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
    offset_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in a file that cannot be true."""

    path: str
    position: int | None = None
    offset: int | None = None
    reason: str

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a data directory has written down of a log; None where it has not."""

    recovery_point: Offset | None = None
    log_start_offset: Offset | None = None
    is_clean: bool = True
    """Whether the files are as they were closed: epochs above the recovery point are certain."""


class Checkpoints:
    """What a data directory has written down of its logs, as far as it can be read."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self.problems: list[Problem] = []
        self.recovery_points = self._read(filesystem, directory, RECOVERY_POINTS)
        self._log_starts = self._read(filesystem, directory, LOG_STARTS)
        self._read(filesystem, directory, HIGH_WATERMARKS)
        self._is_clean = filesystem.exists(f"{directory}/{CLEAN_SHUTDOWN}")
        self.exist = filesystem.exists(f"{directory}/{RECOVERY_POINTS}")
        self._filesystem = filesystem
        self._directory = directory

    def of(self, name: str) -> Known:
        """What is known of the log in the directory of that name."""
        topic, _, number = name.rpartition("-")
        if not topic or not number.isdecimal():
            return Known()
        partition = TopicPartition(topic, int(number))
        return Known(
            recovery_point=self.recovery_points.get(partition),
            log_start_offset=self._log_starts.get(partition),
            is_clean=self._is_clean,
        )

    def missing(self) -> Iterator[Problem]:
        """Partitions that had records and are not there at all."""
        for partition, offset in sorted(self.recovery_points.items()):
            path = f"{self._directory}/{partition}"
            if offset > 0 and not self._filesystem.exists(path) and not self._is_going(partition):
                reason = f"records up to offset {offset} were synced and the directory is missing"
                if not self._is_clean:
                    reason += ", unless the partition was deleted after the last checkpoint"
                yield Problem(path=path, offset=offset, reason=reason)

    def _is_going(self, partition: TopicPartition) -> bool:
        return any(
            entry.name.startswith(f"{partition}.") and entry.name.endswith(DELETED)
            for entry in self._filesystem.list(self._directory)
        )

    def _read(
        self, filesystem: FileSystem, directory: str, name: str
    ) -> dict[TopicPartition, Offset]:
        checkpoint = OffsetCheckpoint(filesystem, directory, name)
        try:
            return checkpoint.read()
        except DamagedFileError as error:
            reason = error.reason
            self.problems.append(Problem(path=checkpoint.path, reason=reason))
            return {}


def verify_log(
    filesystem: FileSystem, directory: str, known: Known | None = None
) -> Iterator[Problem]:
    """Everything that is wrong in a partition's directory."""
    yield from LogVerifier(filesystem, directory, known or Known()).problems()


class LogVerifier:
    """Follows one log from batch to batch, through all of its segments."""

    def __init__(self, filesystem: FileSystem, directory: str, known: Known) -> None:
        self.batches_count = 0
        self._filesystem = filesystem
        self._directory = directory
        self._known = known
        self._names = [e.name for e in filesystem.list(directory) if not e.is_directory]
        self._bases = [base for n in self._names if (base := offset_of(n, LOG)) is not None]
        self._epochs = self._read_epochs()
        self._epoch = -1
        self._expected = self._bases[0] if self._bases else Offset(0)
        """The offset that the next batch should have."""
        self._is_certain = True
        """Whether that is known; behind a damaged batch it is the least that is possible."""
        self._goes_back = False
        self._holes: list[range] = []
        """Offsets whose segments are known to be missing."""

    def problems(self) -> Iterator[Problem]:
        yield from self._verify_start()
        for base_offset, following in zip_longest(self._bases, self._bases[1:]):
            yield from self._verify_segment(base_offset, following)
        recovery_point = self._known.recovery_point or Offset(0)
        if self._is_certain and self._expected < recovery_point and self._bases:
            reason = f"records up to offset {recovery_point} were synced and are missing"
            path = self._path(file_name(self._bases[-1], LOG))
            self._holes.append(range(self._expected, recovery_point))
            yield Problem(path=path, offset=self._expected, reason=reason)
        for name in self._names:
            if is_log_file(name) and offset_of(name, LOG) is None:
                yield from self._verify_other(name)

    def _verify_start(self) -> Iterator[Problem]:
        recovery_point = self._known.recovery_point or Offset(0)
        if not self._bases:
            if PARTITION_METADATA in self._names or recovery_point > 0:
                reason = "there is no segment"
                if recovery_point > 0:
                    reason += f": records up to offset {recovery_point} were synced"
                yield Problem(path=self._directory, reason=reason)
            return
        start = self._known.log_start_offset
        if start is not None and self._epochs.entries:
            # Epochs are cut at the log's start, and may be written down before it is.
            start = max(start, self._epochs.entries[0].start_offset)
        if start is not None and start < self._bases[0]:
            reason = f"the log starts at offset {start}: the segments before this one are missing"
            if not self._known.is_clean:
                reason += ", unless retention removed them after the last checkpoint"
            path = self._path(file_name(self._bases[0], LOG))
            self._holes.append(range(start, self._bases[0]))
            yield Problem(path=path, offset=self._bases[0], reason=reason)

    def _verify_segment(self, base_offset: Offset, following: Offset | None) -> Iterator[Problem]:
        path = self._path(file_name(base_offset, LOG))
        is_hole = self._is_certain and base_offset > self._expected
        if is_hole or base_offset < self._expected:
            hole = f"the segment before reaches to offset {self._expected}"
            yield Problem(path=path, offset=base_offset, reason=hole)
            self._holes.append(range(self._expected, base_offset))
        self._expected, self._is_certain, self._goes_back = base_offset, True, False
        walked = list(walk(self._filesystem, path))
        index = _IndexVerifier(base_offset)
        for batch, after in zip_longest(walked, walked[1:]):
            self.batches_count += 1
            position, header, reason, is_end = batch
            problem: str | None
            if header is None or reason is not None:
                self._is_certain = False
                problem, offset = reason, self._expected
                if is_end and following is None and offset < (self._known.recovery_point or 0):
                    problem = (
                        f"{problem}; records up to offset {self._known.recovery_point} were synced"
                    )
            else:
                offset = header.base_offset
                problem = self._misplaced(header, after, following)
            if problem is not None:
                yield Problem(path=path, position=position, offset=offset, reason=problem)
            index.take(batch, is_sound=problem is None)
            if header is not None and problem is None and not self._goes_back:
                wrong_epoch = self._wrong_epoch(header, after)
                if wrong_epoch is not None:
                    yield Problem(path=path, position=position, offset=offset, reason=wrong_epoch)
        for suffix, check in ((OFFSET_INDEX, index.offsets), (TIME_INDEX, index.times)):
            name = file_name(base_offset, suffix)
            if name in self._names:
                rows = dump_file(self._filesystem, self._path(name), records=False)
                for problem_of_entry in check([row for row in rows if ERROR not in row]):
                    yield replace(problem_of_entry, path=self._path(name))

    def _misplaced(
        self, header: BatchHeader, after: Walked | None, following: Offset | None
    ) -> str | None:
        """What speaks against a batch's offset. The checksum does not cover it."""
        reason = f"offset {header.base_offset} follows where {self._expected} should"
        if header.base_offset < self._expected:
            told, self._goes_back, self._is_certain = self._goes_back, True, False
            return None if told else reason
        if header.base_offset > self._expected and self._is_certain:
            # Compaction leaves gaps; a flipped bit looks like one, but what follows disagrees.
            next_offset: int | None = following
            if after is not None:
                is_sound = after.header is not None and after.reason is None
                next_offset = after.header.base_offset if after.header and is_sound else None
            if next_offset is None:
                end = self._known.recovery_point or 0
                agrees = after is not None or not self._expected < end < header.next_offset
            else:
                agrees = not self._expected < next_offset < header.next_offset
            if not agrees:
                self._is_certain = False
                return reason
        self._goes_back = False
        self._expected, self._is_certain = header.next_offset, True
        return None

    def _wrong_epoch(self, header: BatchHeader, after: Walked | None) -> str | None:
        """What speaks against a batch's epoch. The checksum does not cover it either."""
        epoch = header.leader_epoch
        if epoch is None:
            return "it has no leader epoch"
        recovery_point = self._known.recovery_point or Offset(0)
        if self._known.is_clean or header.base_offset < recovery_point:
            written = self._epochs.epoch_at(header.base_offset)
            if written is not None:
                self._epoch = max(self._epoch, written)
                if epoch != written:
                    return f"leader epoch {epoch} stands where {written} was written"
                return None
        if epoch < self._epoch:
            return f"leader epoch {epoch} follows {self._epoch}"
        if after is not None and after.header is not None and after.reason is None:
            next_epoch = after.header.leader_epoch
            if next_epoch is not None and self._epoch <= next_epoch < epoch:
                return f"leader epoch {epoch} stands before {next_epoch}"
        self._epoch = epoch
        return None

    def _verify_other(self, name: str) -> Iterator[Problem]:
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            owner = offset_of(name, suffix)
            if owner is None or owner in self._bases:
                continue
            if any(owner in hole for hole in self._holes):
                return
            segment = file_name(owner, LOG)
            # Compaction may be about to put the segment in its place.
            if f"{segment}{SWAP}" not in self._names:
                reason = f"there is no {segment} that it could belong to"
                yield Problem(path=self._path(name), offset=owner, reason=reason)
                return
        for row in dump_file(self._filesystem, self._path(name), records=False):
            if ERROR in row:
                yield Problem(path=self._path(name), reason=row[ERROR])

    def _read_epochs(self) -> LeaderEpochs:
        """Those that were written down; none if the file is damaged, which is told elsewhere."""
        path = self._path(LEADER_EPOCHS)
        if LEADER_EPOCHS not in self._names:
            return LeaderEpochs()
        try:
            return LeaderEpochs(decode_epochs(read_file(self._filesystem, path), path))
        except DamagedFileError:
            return LeaderEpochs()

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


class _IndexVerifier:
    """Compares the entries of a segment's indexes with its batches."""

    def __init__(self, base_offset: Offset) -> None:
        self._base_offset = base_offset
        self._ends: dict[int, int] = {}
        """The last offsets of the sound batches, by position."""
        self._unsound: set[int] = set()
        self._readable_end: int | None = None
        """The position behind which nothing can be read."""

    def take(self, batch: Walked, *, is_sound: bool) -> None:
        if is_sound and batch.header is not None:
            self._ends[batch.position] = batch.header.last_offset
        else:
            self._unsound.add(batch.position)
        if batch.is_end:
            self._readable_end = batch.position

    def offsets(self, rows: list[Mapping[str, Any]]) -> Iterator[Problem]:
        for row in rows:
            position, offset = row["position"], row["offset"]
            is_lost = self._readable_end is not None and position >= self._readable_end
            if is_lost or position in self._unsound or self._ends.get(position) == offset:
                continue
            reason = f"no batch at position {position} ends with offset {offset}"
            yield Problem(path="", position=position, offset=offset, reason=reason)

    def times(self, rows: list[Mapping[str, Any]]) -> Iterator[Problem]:
        for before, row in pairwise(rows):
            if row["timestamp_ms"] <= before["timestamp_ms"] or row["offset"] <= before["offset"]:
                reason = (
                    f"timestamp {row['timestamp_ms']} at offset {row['offset']} follows "
                    f"{before['timestamp_ms']} at {before['offset']}"
                )
                yield Problem(path="", offset=row["offset"], reason=reason)
                return
        last = max(self._ends.values(), default=self._base_offset - 1)
        for row in rows:
            is_behind = row["offset"] > last and not self._unsound
            if row["offset"] < self._base_offset or is_behind:
                reason = f"offset {row['offset']} lies outside of the segment"
                yield Problem(path="", offset=row["offset"], reason=reason)
                return
