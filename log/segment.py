"""A segment: a file of record batches, with the indexes that find things in it.

Segments are cheap while nobody looks at them, for a log may have thousands: files are opened and
indexes read when they are first needed.

Small batches are collected in memory (staged) and written together; whoever reads, syncs or
measures the file writes them first.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from kafka_wire.errors import WireError
from kafka_wire.records import BatchHeader, parse_header, validate_batch
from kafka_wire.types import Buffer, Offset
from log.errors import DamagedFileError
from log.filesystem import File, FileSystem
from log.index import IndexEntry
from log.names import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from log.segment_indexes import SegmentIndexes

STAGE_BYTES: Final = 8 * 1024
"""Batches below this size are collected; larger ones are written at once, without a copy."""
MAX_STAGED_BYTES: Final = 64 * 1024

SCAN_BYTES: Final = 8 * 1024
"""How much is read at a time to step over batch headers."""

_STEP: Final = Struct(">qi11xi")
"""Base offset, length and last offset delta: what it takes to step over a batch."""
_LENGTH_END: Final = 12


class Step(NamedTuple):
    """Where a batch lies: positions in the file, and offsets."""

    start: int
    end: int
    base_offset: Offset
    last_offset: Offset


class Slice(NamedTuple):
    """A range of a segment's file that holds whole batches.

    It keeps the file open for as long as somebody holds it, whatever becomes of the segment.
    """

    file: File
    position: int
    size_bytes: int
    base_offset: Offset
    """The first offset of the first batch, at or below the one that was asked for."""

    def read(self) -> bytes:
        return self.file.read(self.size_bytes, self.position)


class SegmentSettings(NamedTuple):
    """What of a log's configuration a segment needs."""

    index_interval_bytes: int
    max_index_bytes: int


class Segment:
    """One file of batches from `base_offset` on."""

    __slots__ = (
        "_directory",
        "_file",
        "_filesystem",
        "_indexes",
        "_settings",
        "_staged",
        "_written_bytes",
        "base_offset",
        "is_synced",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        base_offset: Offset,
        settings: SegmentSettings,
        *,
        size_bytes: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.is_synced = True
        """Whether everything written to the file was synced since."""
        self._filesystem = filesystem
        self._directory = directory
        self._settings = settings
        self._written_bytes = size_bytes
        self._staged = bytearray()
        self._file: File | None = None
        self._indexes: SegmentIndexes | None = None

    def path(self, suffix: str = LOG) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix)}"

    @property
    def size_bytes(self) -> int:
        return self._written_bytes + len(self._staged)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._filesystem.open(self.path(), create=True)
        return self._file

    @property
    def indexes(self) -> SegmentIndexes:
        if self._indexes is None:
            self._indexes = self._load_indexes()
        return self._indexes

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Appends one batch with its final offsets."""
        size = len(batch)
        self.indexes.observe(header, self._written_bytes + len(self._staged))
        self.is_synced = False
        if size < STAGE_BYTES:
            self._staged += batch
            if len(self._staged) >= MAX_STAGED_BYTES:
                self.write()
        else:
            if self._staged:
                self.write()
            self.file.append(batch)
            self._written_bytes += size

    def write(self) -> None:
        """Hands staged batches to the file system."""
        if self._staged:
            self.file.append(self._staged)
            self._written_bytes += len(self._staged)
            self._staged = bytearray()

    def seal(self) -> None:
        """No more batches will come."""
        self.write()
        self.indexes.seal()

    def files(self) -> list[File]:
        """All files of the segment that exist, for a sync."""
        return [self.file, *self.indexes.files()]

    def position_of(self, offset: Offset) -> int:
        """Where the batch begins that holds `offset`, or the first one behind it, or the end."""
        for step in self._steps_near(offset):
            if step.last_offset >= offset:
                return step.start
        return self.size_bytes

    def slice(self, offset: Offset, *, max_bytes: int, end_position: int) -> Slice | None:
        """Whole batches from the one that holds `offset`, of which the first is always there.

        The end is a boundary known to the index, or the end of what may be read: near the limit,
        not always as near as could be, but found without stepping over every batch.
        """
        for step in self._steps_near(offset):
            if step.start >= end_position:
                return None
            if step.last_offset >= offset:
                end = end_position
                if step.start + max_bytes < end_position:
                    end = self._boundary_before(step.start + max_bytes)
                size_bytes = max(end, step.end) - step.start
                return Slice(self.file, step.start, size_bytes, step.base_offset)
        return None

    def steps(self, position: int = 0) -> Iterator[Step]:
        """From batch to batch, from a position where one begins. Records are not read."""
        self.write()
        end = self._written_bytes
        chunk, chunk_start = b"", position
        while position < end:
            if len(chunk) - (position - chunk_start) < _STEP.size:
                chunk, chunk_start = self.file.read(SCAN_BYTES, position), position
                if len(chunk) < _STEP.size:
                    raise DamagedFileError(self.path(), f"half a batch at byte {position}")
            base_offset, length, delta = _STEP.unpack_from(chunk, position - chunk_start)
            stop = position + _LENGTH_END + length
            if length <= 0 or stop > end or base_offset < self.base_offset or delta < 0:
                raise DamagedFileError(self.path(), f"no batch at byte {position}")
            yield Step(position, stop, Offset(base_offset), Offset(base_offset + delta))
            position = stop

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """The header of every batch, without a look at the records."""
        for step in self.steps(position):
            yield step.start, parse_header(self.file.read(SCAN_BYTES, step.start))

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Every batch whole, its checksum compared."""
        for step in self.steps(position):
            data = memoryview(self.file.read(step.end - step.start, step.start))
            yield step.start, validate_batch(data), data

    def truncate(self, position: int, end_offset: Offset) -> None:
        """Cuts the file, and what the indexes know of the part cut off. Nothing is synced."""
        self.write()
        indexes = self.indexes
        self.file.truncate(position)
        self._written_bytes = position
        self.is_synced = False
        indexes.transactions.truncate(end_offset)
        indexes.rebuild(self.headers())

    def cut_file(self, position: int) -> None:
        """Cuts the file and syncs it, before the indexes are made; for recovery."""
        self.file.truncate(position)
        self.file.sync()
        self._written_bytes = position

    def rebuild_indexes(self) -> None:
        """Makes the indexes of offsets and timestamps anew, without a look at the old ones."""
        if self._indexes is None:
            self._indexes = self._new_indexes()
        self._indexes.rebuild(self.headers())

    def forget_files(self) -> None:
        """Lets go of the files; whoever still reads or syncs one keeps it open."""
        self._file = None
        if self._indexes is not None:
            self._indexes.forget_files()

    def remove(self) -> None:
        """Removes the files; the caller syncs the directory."""
        self.forget_files()
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            path = self.path(suffix)
            if self._filesystem.exists(path):
                self._filesystem.remove(path)

    def _steps_near(self, offset: Offset) -> Iterator[Step]:
        """Steps from the last index entry at or before `offset`, or from the beginning.

        An entry is believed only if there is such a batch where it points to; otherwise the
        index is damaged and made anew.
        """
        entry = self.indexes.offsets.before_offset(offset)
        if entry is not None and not self._is_true(entry):
            self.rebuild_indexes()
            entry = self.indexes.offsets.before_offset(offset)
        return self.steps(0 if entry is None else entry.position)

    def _boundary_before(self, position: int) -> int:
        """The last boundary of batches that the index knows at or before a position."""
        entry = self.indexes.offsets.before_position(position)
        if entry is not None and not self._is_true(entry):
            self.rebuild_indexes()
            entry = self.indexes.offsets.before_position(position)
        return 0 if entry is None else entry.position

    def _is_true(self, entry: IndexEntry) -> bool:
        try:
            return next(self.steps(entry.position)).last_offset == entry.last_offset
        except (DamagedFileError, StopIteration):
            return False

    def _load_indexes(self) -> SegmentIndexes:
        """Reads the indexes and follows them to the end of the file; repairs what does not fit."""
        indexes = self._new_indexes()
        try:
            indexes.load(self.size_bytes)
            last = indexes.offsets.last
            if last is not None and not self._is_true(last):
                raise DamagedFileError(self.path(OFFSET_INDEX), "its last entry is not true")
            for start, header in self.headers(0 if last is None else last.position):
                indexes.observe(header, start)
        except (DamagedFileError, WireError):
            indexes.rebuild(self.headers())
        return indexes

    def _new_indexes(self) -> SegmentIndexes:
        return SegmentIndexes(
            self._filesystem,
            self._directory,
            self.base_offset,
            interval_bytes=self._settings.index_interval_bytes,
            max_bytes=self._settings.max_index_bytes,
        )
