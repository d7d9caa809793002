"""A segment: a file of record batches, with the indexes that find things in it.

Segments are cheap while nobody looks at them, for a log may have thousands: files are opened and
indexes read when they are first needed.

Small batches are collected in memory (staged) and written together; whoever reads, syncs or
measures the file writes them first.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

import msgspec

from kafka_wire.errors import WireError
from kafka_wire.records import BatchHeader, validate_batch
from kafka_wire.records.batch import HEADER_SIZE_BYTES
from kafka_wire.types import Buffer, Offset
from log.config import LogConfig
from log.errors import DamagedFileError, DamagedLogError
from log.filesystem import File, FileSystem
from log.index import IndexEntry
from log.names import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from log.segment_indexes import SegmentIndexes

STAGE_BYTES: Final = 8 * 1024
"""Batches below this size are collected; larger ones are written at once, without a copy."""
MAX_STAGED_BYTES: Final = 64 * 1024

SCAN_BYTES: Final = 8 * 1024
"""How much is read at a time to step over batch headers."""

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
"""Offsets in an index are relative to the segment's base offset and have 31 bits."""

_STEP: Final = Struct(">qi11xi")
"""Base offset, length and last offset delta: what it takes to step over a batch."""
_LENGTH_END: Final = 12
_LEAST_LENGTH: Final = HEADER_SIZE_BYTES - _LENGTH_END


class Step(NamedTuple):
    """Where a batch lies: positions in the file, and offsets."""

    start: int
    end: int
    base_offset: Offset
    last_offset: Offset


class Slice(msgspec.Struct, frozen=True, gc=False):
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

    @classmethod
    def of(cls, config: LogConfig) -> "SegmentSettings":
        return cls(config.index_interval_bytes, config.segment_index_bytes)


class Segment:
    """One file of batches from `base_offset` on.

    The hot path says `self._file or self.file`: the property costs a call, and opens the file only
    once.
    """

    __slots__ = (
        "_directory",
        "_file",
        "_filesystem",
        "_indexes",
        "_settings",
        "_staged",
        "_written_bytes",
        "base_offset",
        "first_unwritten",
        "is_synced",
        "size_bytes",
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
        self.size_bytes = size_bytes
        """Of all batches, also of those that are staged."""
        self.first_unwritten: Offset | None = None
        """Where the staged batches begin, if there are any."""
        self._written_bytes = size_bytes
        self._staged = bytearray()
        self._file: File | None = None
        self._indexes: SegmentIndexes | None = None

    def path(self, suffix: str = LOG) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix)}"

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._filesystem.open(self.path())
        return self._file

    def create(self) -> File:
        """Makes the file of a new segment. Otherwise one that went away must not come back."""
        self._file = self._filesystem.open(self.path(), create=True)
        return self._file

    @property
    def indexes(self) -> SegmentIndexes:
        if self._indexes is None:
            self._indexes = self._load_indexes()
        return self._indexes

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Appends one batch with its final offsets."""
        (self._indexes or self.indexes).observe(header, self.size_bytes)
        self._take(batch, header.base_offset)

    def append_run(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Appends many batches with their final offsets, which lie one behind the other."""
        position = self.size_bytes
        for header in headers:
            self.indexes.observe(header, position)
            position += header.size_bytes
        self._take(data, headers[0].base_offset)

    def _take(self, data: Buffer, base_offset: Offset) -> None:
        """Stages or writes what the indexes have seen."""
        size = len(data)
        self.is_synced = False
        if size < STAGE_BYTES:
            if not self._staged:
                self.first_unwritten = base_offset
            self._staged += data
            if len(self._staged) >= MAX_STAGED_BYTES:
                self.write()
        else:
            if self._staged:
                self.write()
            (self._file or self.file).append(data)
            self._written_bytes += size
        self.size_bytes += size

    def write(self) -> None:
        """Hands staged batches to the file system."""
        if self._staged:
            # Should it fail, any part may be in the file: it must not be written once more.
            staged, self._staged = self._staged, bytearray()
            self.file.append(staged)
            self._written_bytes += len(staged)
            self.first_unwritten = None

    def abandon_staged(self, end_offset: Offset) -> None:
        """Forgets batches that could not be written: those from `end_offset` on."""
        self._staged = bytearray()
        self.first_unwritten = None
        self.size_bytes = self._written_bytes
        if self._indexes is not None:
            self._indexes.detach(self._written_bytes, end_offset)

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

    def boundary_before(self, offset: Offset) -> tuple[int, Offset]:
        """Where to cut so that nothing from `offset` on stays, and the end offset of the rest."""
        position, end_offset = 0, self.base_offset
        for step in self._steps_near(Offset(offset - 1)):
            if step.last_offset >= offset:
                break
            position, end_offset = step.end, Offset(step.last_offset + 1)
        return position, end_offset

    def end_offset(self) -> Offset:
        """Behind the last batch, which the index leads to."""
        end = self.base_offset
        last = self.indexes.offsets.last
        for step in self.steps(0 if last is None else last.position):
            end = Offset(step.last_offset + 1)
        return end

    def slice(self, offset: Offset, *, max_bytes: int, end_position: int) -> Slice | None:
        """Whole batches from the one that holds `offset`, of which the first is always there.

        The end is a boundary known to the index, or the end of what may be read: near the limit,
        not always as near as could be, but found without stepping over every batch.
        """
        known = (self._indexes or self.indexes).offsets.certain_range(offset, max_bytes)
        if known is not None:
            base_offset, start, end = known
            if start >= end_position:
                return None
            if start + max_bytes >= end_position:
                end = end_position
            if end > start:
                if self._staged:
                    self.write()
                return Slice(self._file or self.file, start, end - start, base_offset)
        for step in self._steps_near(offset):
            if step.start >= end_position:
                return None
            if step.last_offset >= offset:
                end = self._end_of_slice(step.start, max_bytes, end_position)
                size_bytes = max(end, step.end) - step.start
                return Slice(self.file, step.start, size_bytes, step.base_offset)
        return None

    def steps(self, position: int = 0) -> Iterator[Step]:
        """From batch to batch, from a position where one begins. Records are not read."""
        self.write()
        end = self._written_bytes
        chunk, chunk_start = b"", position
        expected = self.base_offset
        while position < end:
            if len(chunk) - (position - chunk_start) < _STEP.size:
                chunk, chunk_start = self.file.read(SCAN_BYTES, position), position
                if len(chunk) < _STEP.size:
                    raise DamagedLogError(self.path(), position, expected, "half a batch")
            step = self._step(chunk, position - chunk_start, position, expected)
            yield step
            position = step.end
            expected = Offset(step.last_offset + 1)

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Every batch whole, its checksum compared."""
        for step in self.steps(position):
            data = memoryview(self.file.read(step.end - step.start, step.start))
            try:
                yield step.start, validate_batch(data), data
            except WireError as error:
                raise DamagedLogError(
                    self.path(), step.start, step.base_offset, str(error)
                ) from None

    def truncate(self, position: int) -> None:
        """Cuts the file, and what the indexes of offsets and timestamps know of the part cut off.

        Nothing is synced. The transaction index follows when producers are loaded anew.
        """
        self.write()
        indexes = self.indexes
        self.file.truncate(position)
        self.size_bytes = self._written_bytes = position
        self.is_synced = False
        indexes.rebuild(self.batches())

    def cut_file(self, position: int) -> None:
        """Cuts the file and syncs it, before the indexes are made; for recovery."""
        self.file.truncate(position)
        self.file.sync()
        self.size_bytes = self._written_bytes = position

    def rebuild_indexes(self) -> None:
        """Makes the indexes of offsets and timestamps anew, without a look at the old ones."""
        if self._indexes is None:
            self._indexes = self._new_indexes()
        self._indexes.rebuild(self.batches())
        self._indexes.write()

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

    def _step(self, chunk: bytes, at: int, position: int, expected: Offset) -> Step:
        """The batch at a position of the file, from a chunk that has its header at `at`."""
        base_offset, length, delta = _STEP.unpack_from(chunk, at)
        end = position + _LENGTH_END + length
        if (
            length < _LEAST_LENGTH
            or end > self._written_bytes
            or base_offset < expected
            or delta < 0
            or base_offset + delta - self.base_offset > MAX_RELATIVE_OFFSET
        ):
            raise DamagedLogError(self.path(), position, expected, "no batch begins here")
        return Step(position, end, Offset(base_offset), Offset(base_offset + delta))

    def _end_of_slice(self, start: int, max_bytes: int, end_position: int) -> int:
        """The last boundary up to which a slice from `start` may go; perhaps `start` itself."""
        limit = start + max_bytes
        if limit >= end_position:
            return end_position
        entry = self.indexes.offsets.before_position(limit)
        if entry is not None and not self._is_true(entry):
            self.rebuild_indexes()
            entry = self.indexes.offsets.before_position(limit)
        return 0 if entry is None else entry.position

    def _is_true(self, entry: IndexEntry) -> bool:
        if entry.is_certain:
            return True
        self.write()
        header = self.file.read(_STEP.size, entry.position)
        if len(header) < _STEP.size:
            return False
        try:
            step = self._step(header, 0, entry.position, self.base_offset)
        except DamagedFileError:
            return False
        return step.last_offset == entry.last_offset

    def _load_indexes(self) -> SegmentIndexes:
        """Reads the indexes and follows them to the end of the file; repairs what does not fit."""
        indexes = self._new_indexes()
        try:
            indexes.load(self.size_bytes)
            last = indexes.offsets.last
            if last is not None and not self._is_true(last):
                raise DamagedFileError(self.path(OFFSET_INDEX), "its last entry is not true")
            if not self._has_newest(indexes):
                raise DamagedFileError(self.path(TIME_INDEX), "its last entry is not true")
        except DamagedFileError:
            indexes.rebuild(self.batches())
        else:
            for start, header, _ in self.batches(0 if last is None else last.position):
                indexes.observe(header, start)
        return indexes

    def _has_newest(self, indexes: SegmentIndexes) -> bool:
        """Whether the last entry of the time index is true: retention and lookups rely on it."""
        newest = indexes.times.last
        if newest is None:
            return not len(indexes.offsets)
        timestamp_ms, offset = newest
        entry = indexes.offsets.before_offset(offset)
        for _, header, _ in self.batches(0 if entry is None else entry.position):
            if header.last_offset >= offset:
                return header.last_offset == offset and header.max_timestamp_ms == timestamp_ms
        return False

    def _new_indexes(self) -> SegmentIndexes:
        return SegmentIndexes(
            self._filesystem,
            self._directory,
            self.base_offset,
            interval_bytes=self._settings.index_interval_bytes,
            max_bytes=self._settings.max_index_bytes,
        )
