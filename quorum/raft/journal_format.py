"""The bytes of a journal: a file is a sequence of checksummed records.

    marker "FMJ1" · body's length u32 · CRC-32C u32 · kind u8 · synced u64 · body

The checksum covers everything after itself, and the length. `synced` is how much of the file was
on disk when the record was written. It tells a torn tail from damage: what a power cut can leave
behind it (any part of the last write, sectors of zeros, good records after bad ones) has no good
record that knows the bad bytes to be on disk. If there is one, something else has changed them.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from kafka_wire.crc import crc32c

MARKER = b"FMJ1"
_HEADER = struct.Struct("<4sIIBQ")
_COVERED = struct.Struct("<IBQ")
_ENTRY = struct.Struct("<QQ")
_VOTE = struct.Struct("<QqQ")
_INDEX = struct.Struct("<Q")
NOBODY = -1


class Kind(IntEnum):
    """What a record says."""

    VOTE = 1
    """The current term, whom this voter voted for in it, and what it knows to be committed."""
    ENTRY = 2
    TRUNCATE = 3
    """Entries from an index on are gone."""
    RESET = 4
    """All entries are gone: a snapshot took their place. The log goes on after its last one."""


class LogEntry(NamedTuple):
    """An entry as the engine keeps it."""

    command: bytes
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody misses
    term: int


class Record(NamedTuple):
    """A record and where it ends in its file."""

    kind: Kind
    body: bytes
    end: int


class Damaged(Exception):  # noqa: N818 - what a disk is, not what somebody did
    """What was safely on disk is no longer what was written."""


def entry_body(entry: LogEntry) -> bytes:
    return _ENTRY.pack(entry.index, entry.term) + entry.command


def read_entry(body: bytes) -> LogEntry:
    index, term = _ENTRY.unpack_from(body)
    return LogEntry(body[_ENTRY.size :], index, term)


def vote_body(*, term: int, vote: int | None, commit_index: int) -> bytes:
    return _VOTE.pack(term, NOBODY if vote is None else vote, commit_index)


def read_vote(body: bytes) -> tuple[int, int | None, int]:
    term, vote, commit_index = _VOTE.unpack(body)
    return term, None if vote == NOBODY else vote, commit_index


def index_body(index: int) -> bytes:
    return _INDEX.pack(index)


def read_index(body: bytes) -> int:
    (index,) = _INDEX.unpack(body)
    return int(index)


def encode(kind: Kind, body: bytes, *, synced: int) -> bytes:
    """A record's bytes."""
    checksum = crc32c(body, crc32c(_COVERED.pack(len(body), kind, synced)))
    return _HEADER.pack(MARKER, len(body), checksum, kind, synced) + body


def read_records(data: bytes, *, path: str, is_last: bool) -> Iterator[Record]:
    """The records of a file, up to a torn tail.

    Only the file that was written last may have one: a file is complete on disk before the next
    one is begun.
    """
    position = 0
    while position < len(data):
        found = _record_at(data, position)
        if found is None:
            if not is_last:
                raise Damaged(f"{path} is damaged at byte {position}, in records that were on disk")
            _check_torn(data, position, path)
            return
        record, _ = found
        yield record
        position = record.end


def _check_torn(data: bytes, bad: int, path: str) -> None:
    """Raises unless everything from a bad record on may be the rest of a write cut short."""
    position = data.find(MARKER, bad)
    while position >= 0:
        found = _record_at(data, position)
        if found is not None and bad < found[1] <= position:
            raise Damaged(
                f"{path} is damaged at byte {bad}: the record at byte {position} was written "
                "after those bytes were on disk"
            )
        position = data.find(MARKER, position + 1)


def _record_at(data: bytes, position: int) -> tuple[Record, int] | None:
    """The record that begins at a position, with what it knows to be synced."""
    start = position + _HEADER.size
    if start > len(data):
        return None
    marker, size, checksum, kind, synced = _HEADER.unpack_from(data, position)
    end = start + size
    if marker != MARKER or end > len(data):
        return None
    body = data[start:end]
    if crc32c(body, crc32c(_COVERED.pack(size, kind, synced))) != checksum:
        return None
    return Record(Kind(kind), body, end), synced
