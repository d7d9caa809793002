"""Snapshots on disk: checksummed files, the newest two of them.

A file is named after the last index that it covers and that entry's term, as Kafka names them.

    magic "FMS1" · length of the header u32 · header (msgpack) · state · CRC-32C of it all u32

The header holds the last two entries that the snapshot covers: the log goes on from them. A file
appears under its name only when all of it is on disk. Two generations are kept, and the journal
goes back to the older one, so a voter whose newest snapshot is damaged starts from the one before.
"""

import logging
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from kafka_wire.crc import crc32c
from log.filesystem import FileSystem
from log.flush import read_file
from quorum.raft.journal_format import Damaged, LogEntry

logger = logging.getLogger(__name__)

GENERATIONS = 2
SUFFIX = ".checkpoint"
_NAME = re.compile(rf"[0-9]{{20}}-[0-9]{{10}}{re.escape(SUFFIX)}")
_TEMPORARY = ".part"
_MAGIC = b"FMS1"
_LENGTH = struct.Struct("<I")


class _Header(msgspec.Struct, array_like=True):
    base: list[tuple[bytes, int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A state and the last two entries that it covers."""

    base: tuple[LogEntry, LogEntry]
    state: bytes

    @property
    def index(self) -> int:
        return self.base[1].index

    @property
    def term(self) -> int:
        return self.base[1].term


def encode(base: tuple[LogEntry, LogEntry], state: Iterable[bytes]) -> list[bytes]:
    """A snapshot file's contents in pieces; the state is asked for piece by piece."""
    header = msgspec.msgpack.encode(_Header([(e.command, e.index, e.term) for e in base]))
    pieces = [_MAGIC + _LENGTH.pack(len(header)) + header]
    checksum = crc32c(pieces[0])
    for piece in state:
        pieces.append(piece)
        checksum = crc32c(piece, checksum)
    pieces.append(_LENGTH.pack(checksum))
    return pieces


def decode(data: bytes) -> Snapshot:
    """The snapshot in a file's contents; `Damaged` if they are not what was written."""
    fixed = len(_MAGIC) + _LENGTH.size
    if len(data) < fixed + _LENGTH.size or data[: len(_MAGIC)] != _MAGIC:
        raise Damaged("not a snapshot")
    view = memoryview(data)
    (checksum,) = _LENGTH.unpack_from(data, len(data) - _LENGTH.size)
    if crc32c(view[: -_LENGTH.size]) != checksum:
        raise Damaged("the checksum does not match")
    (size,) = _LENGTH.unpack_from(data, len(_MAGIC))
    try:
        header = msgspec.msgpack.decode(view[fixed : fixed + size], type=_Header)
        before, last = (LogEntry(*entry) for entry in header.base)
    except ValueError as error:  # msgspec's errors are such, and so is a wrong number of entries
        raise Damaged(f"its header cannot be read: {error}") from error
    return Snapshot(base=(before, last), state=bytes(view[fixed + size : -_LENGTH.size]))


class SnapshotStore:
    """The snapshots of one voter."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        for entry in filesystem.list(directory):
            if entry.name.endswith(_TEMPORARY):
                filesystem.remove(f"{directory}/{entry.name}")

    def load(self) -> Snapshot | None:
        """The newest snapshot that is whole; None if there is none at all."""
        names = self._names()
        for name in reversed(names):
            path = f"{self._directory}/{name}"
            try:
                return decode(read_file(self._filesystem, path))
            except Damaged as damage:
                logger.error("%s is damaged (%s); trying the snapshot before it", path, damage)
        if names:
            raise Damaged(f"every snapshot in {self._directory} is damaged")
        return None

    def read(self, index: int) -> bytes:
        """The contents of the file whose snapshot ends at an index; `Damaged` if they are."""
        for name in self._names():
            if _index(name) == index:
                data = read_file(self._filesystem, f"{self._directory}/{name}")
                decode(data)
                return data
        raise Damaged("its file is gone")

    def save(self, base: tuple[LogEntry, LogEntry], pieces: Iterable[bytes]) -> None:
        """Writes a snapshot and removes those that are one too many. May run in any thread.

        Nothing older is removed before the new one is safe.
        """
        name = f"{base[1].index:020d}-{base[1].term:010d}{SUFFIX}"
        temporary = f"{self._directory}/{name}{_TEMPORARY}"
        file = self._filesystem.open(temporary, create=True)
        try:
            file.truncate(0)
            for piece in pieces:
                file.append(piece)
            file.sync()
        finally:
            file.close()
        self._filesystem.rename(temporary, f"{self._directory}/{name}")
        self._filesystem.sync_directory(self._directory)
        for old in self._names()[:-GENERATIONS]:
            self._filesystem.remove(f"{self._directory}/{old}")

    def oldest_index(self) -> int:
        """The last index of the oldest snapshot; 0 if there is none."""
        names = self._names()
        return _index(names[0]) if len(names) == GENERATIONS else 0

    def _names(self) -> list[str]:
        names = (entry.name for entry in self._filesystem.list(self._directory))
        return sorted(name for name in names if _NAME.fullmatch(name))


def _index(name: str) -> int:
    return int(name.split("-", 1)[0])
