"""The `.snapshot` file: the producer state at an offset, in Kafka's format.

    version (int16) = 1, crc (uint32 of what follows), count (int32), then per producer:
    producer id (int64), epoch (int16), last sequence (int32), last offset (int64),
    offset delta (int32), timestamp (int64), coordinator epoch (int32),
    first offset of the open transaction (int64); -1 where there is none

Of a producer's batches only the last one is kept, as Kafka does; the others come back with the
batches that are read again behind the snapshot.
"""

import struct
from typing import Final

from kafka_wire.crc import crc32c
from kafka_wire.types import Offset, ProducerEpoch, ProducerId, Sequence
from log.errors import DamagedFileError
from log.filesystem import File, FileSystem
from log.names import SNAPSHOT, file_name
from log.producer_state import KnownBatch, ProducerEntry, ProducerState

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_NONE: Final = -1
_SEQUENCE_MASK: Final = 2**31 - 1


def write_snapshot(
    filesystem: FileSystem, directory: str, offset: Offset, state: ProducerState
) -> File:
    """Writes the snapshot of an offset; the caller syncs the file and the directory."""
    file = filesystem.open(f"{directory}/{file_name(offset, SNAPSHOT)}", create=True)
    file.truncate(0)
    file.append(encode_snapshot(state))
    return file


def remove_snapshot(filesystem: FileSystem, directory: str, offset: Offset) -> None:
    path = f"{directory}/{file_name(offset, SNAPSHOT)}"
    if filesystem.exists(path):
        filesystem.remove(path)


def encode_snapshot(state: ProducerState) -> bytes:
    entries = [_encode_entry(entry) for entry in state.entries()]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, path: str) -> ProducerState:
    if len(data) < _HEAD.size + _COUNT.size:
        raise DamagedFileError(path, f"a producer snapshot cannot have {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != _VERSION:
        raise DamagedFileError(path, f"producer snapshot version {version} is not known")
    if crc32c(body) != crc:
        raise DamagedFileError(path, "the producer snapshot fails its checksum")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise DamagedFileError(path, f"{count} producers do not fit {len(body)} bytes")
    entries = [_decode_entry(body, _COUNT.size + i * _ENTRY.size) for i in range(count)]
    entries.sort(key=lambda entry: entry.transaction_first_offset or 0)
    state = ProducerState()
    for entry in entries:
        state.restore(entry)
    return state


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        _NONE if last is None else last.last_sequence,
        _NONE if last is None else last.last_offset,
        0 if last is None else last.last_offset - last.first_offset,
        _or_none(entry.last_timestamp_ms),
        _or_none(entry.coordinator_epoch),
        _or_none(entry.transaction_first_offset),
    )


def _decode_entry(body: memoryview, position: int) -> ProducerEntry:
    (
        producer_id,
        producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp_ms,
        coordinator_epoch,
        transaction_first_offset,
    ) = _ENTRY.unpack_from(body, position)
    entry = ProducerEntry(ProducerId(producer_id), ProducerEpoch(producer_epoch))
    entry.last_timestamp_ms = _known(timestamp_ms)
    entry.coordinator_epoch = _known(coordinator_epoch)
    if transaction_first_offset != _NONE:
        entry.transaction_first_offset = Offset(transaction_first_offset)
    if last_sequence != _NONE:
        entry.batches.append(
            KnownBatch(
                Sequence((last_sequence - offset_delta) & _SEQUENCE_MASK),
                Sequence(last_sequence),
                Offset(last_offset - offset_delta),
                Offset(last_offset),
                _known(timestamp_ms),
            )
        )
    return entry


def _or_none(value: int | None) -> int:
    return _NONE if value is None else value


def _known(value: int) -> int | None:
    return None if value == _NONE else value
