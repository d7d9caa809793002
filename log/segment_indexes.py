"""The three indexes of a segment, and how they follow from its batches."""

from collections.abc import Iterable

from kafka_wire.records import BatchHeader
from kafka_wire.types import Offset
from log.errors import DamagedFileError
from log.filesystem import File, FileSystem
from log.index import OffsetIndex, TimeIndex
from log.names import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from log.transaction_index import TransactionIndex


class SegmentIndexes:
    """Offsets, timestamps and aborted transactions of one segment."""

    __slots__ = (
        "_bytes_since_entry",
        "_interval_bytes",
        "_newest_entered",
        "max_timestamp",
        "offsets",
        "times",
        "transactions",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        base_offset: Offset,
        *,
        interval_bytes: int,
        max_bytes: int,
    ) -> None:
        def path(suffix: str) -> str:
            return f"{directory}/{file_name(base_offset, suffix)}"

        self.offsets = OffsetIndex(
            filesystem,
            path(OFFSET_INDEX),
            base_offset,
            interval_bytes=interval_bytes,
            max_bytes=max_bytes,
        )
        self.times = TimeIndex(filesystem, path(TIME_INDEX), base_offset)
        self.transactions = TransactionIndex(filesystem, path(TRANSACTION_INDEX))
        self.max_timestamp: tuple[int, Offset] | None = None
        """The largest timestamp, and the last offset of the batch that has it."""
        self._newest_entered: tuple[int, Offset] | None = None
        """The one that has its entry: the same for many batches if timestamps stand still."""
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0

    def observe(self, header: BatchHeader, position: int) -> None:
        """Takes note of the batch at a position; every so many bytes it gets entries."""
        timestamp_ms, newest = header.max_timestamp_ms, self.max_timestamp
        if timestamp_ms is not None and (newest is None or timestamp_ms > newest[0]):
            self.max_timestamp = newest = (timestamp_ms, header.last_offset)
        if self._bytes_since_entry > self._interval_bytes:
            self.offsets.append(header.base_offset, header.last_offset_delta, position)
            if newest is not None and newest is not self._newest_entered:
                self.times.append(*newest)
                self._newest_entered = newest
            self._bytes_since_entry = header.size_bytes
        else:
            self._bytes_since_entry += header.size_bytes

    def load(self, segment_bytes: int) -> None:
        """Reads the files.

        The batches from the last entry on have to be observed again to know where the next goes.
        """
        for index in (self.offsets, self.times):
            if segment_bytes and not index.file.exists:
                raise DamagedFileError(index.file.path, "it is missing")
        self.offsets.load(segment_bytes)
        self.times.load()
        self.max_timestamp = self.times.last
        self._bytes_since_entry = 0

    def rebuild(self, batches: Iterable[tuple[int, BatchHeader, memoryview]]) -> None:
        """Makes the indexes of offsets and timestamps anew from the batches."""
        self.offsets.clear()
        self.times.clear()
        self.max_timestamp = None
        self._bytes_since_entry = 0
        for position, header, _ in batches:
            self.observe(header, position)

    def seal(self) -> None:
        """No more batches will come: the largest timestamp gets its entry."""
        if self.max_timestamp is not None:
            self.times.append(*self.max_timestamp)
        self.write()

    def write(self) -> None:
        """Hands pending entries to the file system."""
        self.offsets.write()
        self.times.file.write()
        self.transactions.file.write()

    def files(self) -> list[File]:
        """The files that exist, for a sync."""
        found = [self.offsets.file.open(), self.times.file.open()]
        if self.transactions.exists:
            found.append(self.transactions.file.open())
        return found

    def detach(self, segment_bytes: int, end_offset: Offset) -> None:
        """Forgets batches that could not be written, and writes nothing any more."""
        for index in (self.offsets, self.times, self.transactions):
            index.file.detach()
        self.offsets.truncate(segment_bytes)
        self.times.truncate(end_offset)

    def forget_files(self) -> None:
        for index in (self.offsets, self.times, self.transactions):
            index.file.forget()
