"""The sparse indexes of a segment: from offsets to positions, and from timestamps to offsets.

Both are arrays in memory and files of fixed entries on disk, in Kafka's formats: numbers are big
endian, offsets are relative to the segment's base offset.

    .index      relative offset (int32), position (int32)
    .timeindex  timestamp (int64), relative offset (int32)

An index is a hint that makes reading faster, and everything in it can be computed again. So it is
written without being synced on the way, and is checked when it is read: what is damaged or does
not fit its segment raises `DamagedFileError`, and the segment builds it anew.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from kafka_wire.types import Offset
from log.errors import DamagedFileError
from log.filesystem import File, FileSystem

WRITE_BYTES: Final = 4096
"""Entries are collected until so many bytes can be written at once."""

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_ENTRIES_PER_WRITE: Final = WRITE_BYTES // _OFFSET_ENTRY.size
_INT32: Final = "i"
_INT64: Final = "q"


class IndexFile:
    """The file of an index: entries of one size, appended, cut and read whole."""

    def __init__(self, filesystem: FileSystem, path: str, entry_bytes: int) -> None:
        self.path = path
        self._filesystem = filesystem
        self._entry_bytes = entry_bytes
        self._file: File | None = None
        self._pending = bytearray()
        self._is_detached = False

    def append(self, entry: bytes) -> None:
        self._pending += entry
        if len(self._pending) >= WRITE_BYTES:
            self.write()

    def write(self) -> None:
        """Hands what is pending to the file system."""
        if self._pending:
            if not self._is_detached:
                self.open().append(self._pending)
            self._pending = bytearray()

    @property
    def exists(self) -> bool:
        return self._filesystem.exists(self.path)

    def read(self) -> bytes:
        """All entries; the file stays open only with those who write to it."""
        file = self.open()
        data = file.read(file.size_bytes, 0)
        self.forget()
        if len(data) % self._entry_bytes:
            raise DamagedFileError(
                self.path, f"{len(data)} bytes are no multiple of {self._entry_bytes}"
            )
        return data

    def truncate(self, entries_count: int) -> None:
        self.write()
        if not self._is_detached:
            self.open().truncate(entries_count * self._entry_bytes)

    def detach(self) -> None:
        """Nothing is written any more: the disk has failed, and readers go on without the file."""
        self._is_detached = True

    def open(self) -> File:
        if self._file is None:
            self._file = self._filesystem.open(self.path, create=True)
        return self._file

    def forget(self) -> None:
        """Lets go of the file; a flush that still holds it may finish."""
        self._file = None


class IndexEntry(NamedTuple):
    """A batch that the index knows: its last offset, and where it begins."""

    last_offset: Offset
    position: int
    is_certain: bool
    """Made from the batch by this process; one that was read from a file is only a hint."""


class OffsetIndex:
    """Finds the position from which on to look for an offset."""

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        base_offset: Offset,
        *,
        interval_bytes: int,
        max_bytes: int,
    ) -> None:
        """Of batches that are appended, those with entries begin `interval_bytes` apart or more."""
        self.file = IndexFile(filesystem, path, _OFFSET_ENTRY.size)
        self._base_offset = base_offset
        self._interval_bytes = max(1, interval_bytes)
        self.entries_left = self._max_entries = max_bytes // _OFFSET_ENTRY.size
        """For how many more entries there is room."""
        self._offsets = array(_INT32)
        self._positions = array(_INT32)
        self._written_count = 0
        self._loaded_count = 0
        self._first_offsets = array(_INT32)
        """Of the batches whose entries were not loaded. The file does not have them."""
        self._next_certain = 0
        """Where the last certain range ended, counted as `_first_offsets` is: a guess at where
        the next one begins, which is believed only if the offsets there agree."""

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, base_offset: Offset, last_offset_delta: int, position: int) -> None:
        """Takes note of a batch: its offsets and where it begins."""
        offsets, relative = self._offsets, base_offset - self._base_offset
        offsets.append(relative + last_offset_delta)
        self._positions.append(position)
        self._first_offsets.append(relative)
        self.entries_left -= 1
        if len(offsets) - self._written_count >= _ENTRIES_PER_WRITE:
            self.write()

    def write(self) -> None:
        """Hands new entries to the file system. Until then they are not worth encoding."""
        offsets = self._offsets[self._written_count :]
        if offsets:
            entries = array(_INT32, bytes(len(offsets) * _OFFSET_ENTRY.size))
            entries[0::2], entries[1::2] = offsets, self._positions[self._written_count :]
            if sys.byteorder == "little":
                entries.byteswap()
            self._written_count += len(offsets)
            self.file.append(entries.tobytes())
            self.file.write()

    def certain_range(self, offset: Offset, max_bytes: int) -> tuple[Offset, int, int] | None:
        """The batch that holds `offset` and some behind it, if entries are certain of that batch.

        They often are: readers go on where their last answer ended, and that was at an entry.
        Returns base offset and position of the batch, and the last boundary at most `max_bytes`
        behind that position, which may be the position itself.
        """
        relative = offset - self._base_offset
        offsets, first_offsets = self._offsets, self._first_offsets
        loaded_count, certain = self._loaded_count, self._next_certain
        count = len(first_offsets)
        # A bisection takes a dozen steps, and a reader that goes on needs none.
        if certain >= count or not (
            first_offsets[certain] <= relative <= offsets[certain + loaded_count]
        ):
            certain = bisect_left(offsets, relative, loaded_count) - loaded_count
            if certain >= count or first_offsets[certain] > relative:
                return None
        positions, number = self._positions, certain + loaded_count
        start = positions[number]
        limit = start + max_bytes
        # Entries lie an interval apart or more, so the end is not far.
        far = number + max_bytes // self._interval_bytes + 2
        if far > len(positions):
            far = len(positions)
        end_number = bisect_right(positions, limit, number, far) - 1
        self._next_certain = end_number - loaded_count
        base_offset = self._base_offset + first_offsets[certain]
        return base_offset, start, positions[end_number]  # type: ignore[return-value]

    def before_offset(self, offset: Offset) -> IndexEntry | None:
        """The last entry of a batch that ends at or before `offset`."""
        return self._entry(bisect_right(self._offsets, offset - self._base_offset) - 1)

    def before_position(self, position: int) -> IndexEntry | None:
        """The last entry of a batch that begins at or before `position`."""
        return self._entry(bisect_right(self._positions, position) - 1)

    @property
    def last(self) -> IndexEntry | None:
        return self._entry(len(self._offsets) - 1)

    def truncate(self, position: int) -> None:
        """Forgets batches that begin at or after `position`."""
        kept = bisect_left(self._positions, position)
        if kept < len(self._positions):
            del self._offsets[kept:]
            del self._positions[kept:]
            self._loaded_count = min(self._loaded_count, kept)
            del self._first_offsets[kept - self._loaded_count :]
            self.entries_left = self._max_entries - kept
            self._written_count = min(self._written_count, kept)
            self.file.truncate(kept)

    def load(self, segment_bytes: int) -> None:
        """Reads the file and checks that it can belong to a segment of this size."""
        numbers = array(_INT32)
        numbers.frombytes(self.file.read())
        if sys.byteorder == "little":
            numbers.byteswap()
        offsets, positions = numbers[0::2], numbers[1::2]
        if not _is_ascending(offsets) or not _is_ascending(positions):
            raise DamagedFileError(self.file.path, "its entries do not ascend")
        # The first batch has no entry, so a position of 0 is what a crash left.
        if offsets and (offsets[0] < 0 or positions[0] <= 0 or positions[-1] >= segment_bytes):
            raise DamagedFileError(
                self.file.path, f"its entries lie outside of a segment of {segment_bytes} bytes"
            )
        self._offsets, self._positions = offsets, positions
        self._written_count = self._loaded_count = len(offsets)
        self._first_offsets = array(_INT32)
        self.entries_left = self._max_entries - len(offsets)

    def clear(self) -> None:
        """Begins anew, in memory and on disk."""
        self._offsets = array(_INT32)
        self._positions = array(_INT32)
        self._written_count = self._loaded_count = 0
        self._first_offsets = array(_INT32)
        self.entries_left = self._max_entries
        self.file.truncate(0)

    def _entry(self, number: int) -> IndexEntry | None:
        if number < 0:
            return None
        last_offset = Offset(self._base_offset + self._offsets[number])
        return IndexEntry(last_offset, self._positions[number], number >= self._loaded_count)


class TimeIndex:
    """Finds the offset from which on to look for a timestamp.

    An entry says: up to this offset no timestamp is larger than this one. So timestamps ascend
    although those of the records may not.
    """

    def __init__(self, filesystem: FileSystem, path: str, base_offset: Offset) -> None:
        self.file = IndexFile(filesystem, path, _TIME_ENTRY.size)
        self._base_offset = base_offset
        self._timestamps = array(_INT64)
        self._offsets = array(_INT32)

    @property
    def last(self) -> tuple[int, Offset] | None:
        """The largest timestamp and its offset."""
        return self._entry(len(self._timestamps) - 1)

    def append(self, timestamp_ms: int, offset: Offset) -> None:
        """Takes note of a new largest timestamp; one that is not larger is passed over."""
        if self._timestamps and timestamp_ms <= self._timestamps[-1]:
            return
        relative = offset - self._base_offset
        self._timestamps.append(timestamp_ms)
        self._offsets.append(relative)
        self.file.append(_TIME_ENTRY.pack(timestamp_ms, relative))

    def before_timestamp(self, timestamp_ms: int) -> tuple[int, Offset] | None:
        """The last entry whose timestamp is smaller."""
        return self._entry(bisect_left(self._timestamps, timestamp_ms) - 1)

    def before_offset(self, offset: Offset) -> tuple[int, Offset] | None:
        """The last entry whose offset is smaller."""
        return self._entry(bisect_left(self._offsets, offset - self._base_offset) - 1)

    def truncate(self, end_offset: Offset) -> None:
        """Forgets entries at or after `end_offset`."""
        kept = bisect_left(self._offsets, end_offset - self._base_offset)
        if kept < len(self._offsets):
            del self._timestamps[kept:]
            del self._offsets[kept:]
            self.file.truncate(kept)

    def load(self) -> None:
        data = self.file.read()
        entries = list(_TIME_ENTRY.iter_unpack(data))
        timestamps = array(_INT64, (timestamp for timestamp, _ in entries))
        offsets = array(_INT32, (offset for _, offset in entries))
        if not _is_ascending(timestamps) or not _is_ascending(offsets):
            raise DamagedFileError(self.file.path, "its entries do not ascend")
        if offsets and offsets[0] < 0:
            raise DamagedFileError(self.file.path, "it has a negative offset")
        self._timestamps, self._offsets = timestamps, offsets

    def clear(self) -> None:
        """Begins anew, in memory and on disk."""
        self._timestamps = array(_INT64)
        self._offsets = array(_INT32)
        self.file.truncate(0)

    def _entry(self, number: int) -> tuple[int, Offset] | None:
        if number < 0:
            return None
        return self._timestamps[number], Offset(self._base_offset + self._offsets[number])


def _is_ascending(numbers: "array[int]") -> bool:
    return all(a < b for a, b in pairwise(numbers))
