"""The `.txnindex` file of a segment: the aborted transactions that ended in it.

    version (int16) = 0, producer id (int64), first offset (int64), last offset (int64),
    last stable offset (int64)

A reader of committed records is told of the aborted transactions in what it reads, and drops
their records. The last stable offset of an entry says where looking for more can stop: all
transactions that end behind it began behind it, too.
"""

from struct import Struct
from typing import Final

import msgspec

from kafka_wire.types import Offset, ProducerId
from log.errors import DamagedFileError
from log.filesystem import FileSystem
from log.index import IndexFile

_VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")


class AbortedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction whose records nobody shall see: from its first offset to its marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex:
    """The aborted transactions of a segment in the order of their markers.

    Most segments have none, so the file is only made with the first entry, and is read when
    somebody asks.
    """

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.file = IndexFile(filesystem, path, _ENTRY.size)
        self._entries: list[AbortedTransaction] | None = None

    @property
    def exists(self) -> bool:
        return self.file.exists

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def append(self, aborted: AbortedTransaction) -> None:
        self.entries.append(aborted)
        self.file.append(
            _ENTRY.pack(
                _VERSION,
                aborted.producer_id,
                aborted.first_offset,
                aborted.last_offset,
                aborted.last_stable_offset,
            )
        )

    def truncate(self, end_offset: Offset) -> None:
        """Forgets transactions whose markers are at or after `end_offset`."""
        kept = [entry for entry in self.entries if entry.last_offset < end_offset]
        if len(kept) < len(self.entries):
            self._entries = kept
            self.file.truncate(len(kept))

    def clear(self) -> None:
        """Begins anew, in memory and on disk."""
        self._entries = []
        if self.exists:
            self.file.truncate(0)

    def save(self) -> None:
        """Returns once the entries are safe, for a segment that nobody appends to."""
        if self.entries or self.exists:
            self.file.write()
            self.file.open().sync()

    def _load(self) -> list[AbortedTransaction]:
        if not self.exists:
            return []
        entries: list[AbortedTransaction] = []
        for version, producer_id, first, last, stable in _ENTRY.iter_unpack(self.file.read()):
            # A marker has records before it, so neither zeros nor most flipped bits pass.
            if (
                version != _VERSION
                or first >= last
                or (entries and last <= entries[-1].last_offset)
            ):
                raise DamagedFileError(self.file.path, f"an entry makes no sense: {first}-{last}")
            entries.append(
                AbortedTransaction(
                    producer_id=ProducerId(producer_id),
                    first_offset=Offset(first),
                    last_offset=Offset(last),
                    last_stable_offset=Offset(stable),
                )
            )
        return entries
