"""What is in a log's files, as plain data: for people, scripts and tests. Nothing is changed.

Unlike the log itself this reads whatever is there, as far as it goes. Where it stops making sense
there is a row with an `error` in it, and what can still be read follows.
"""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from kafka_wire.errors import WireError
from kafka_wire.records import (
    BatchHeader,
    iter_records,
    parse_control_record,
    parse_header,
    validate_batch,
)
from kafka_wire.records.batch import HEADER_SIZE_BYTES, LENGTH_END
from log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, OffsetCheckpoint
from log.epochs import decode_epochs
from log.errors import DamagedFileError
from log.filesystem import File, FileSystem
from log.flush import read_file
from log.names import (
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_of,
)
from log.partition_metadata import read_topic_id
from log.producer_snapshot import decode_snapshot

ERROR: Final = "error"
"""The key that a row has only where the file is damaged."""
OFFSET_CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)
SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)
NAMES: Final = (LEADER_EPOCHS, PARTITION_METADATA, *OFFSET_CHECKPOINTS)

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_TRANSACTION_ENTRY: Final = Struct(">hqqqq")
_LENGTH: Final = Struct(">i")
_LENGTH_AT: Final = LENGTH_END - _LENGTH.size


def dump_file(filesystem: FileSystem, path: str, *, records: bool) -> Iterator[Mapping[str, Any]]:
    """The contents of one file of a log, by the kind that its name tells."""
    try:
        yield from _dump(filesystem, path, records=records)
    except DamagedFileError as error:
        yield {ERROR: error.reason}


def is_log_file(name: str) -> bool:
    """Whether `dump_file` can tell what is in a file, by its name."""
    return name in NAMES or any(offset_of(name, suffix) is not None for suffix in SUFFIXES)


class Walked(NamedTuple):
    """A batch, or what stands in its place."""

    position: int
    header: BatchHeader | None
    """None if even the header cannot be read."""
    reason: str | None
    """Why the batch cannot be read."""
    is_end: bool = False
    """Whether nobody can tell where the next batch begins."""


def walk(filesystem: FileSystem, path: str) -> Iterator[Walked]:
    """From batch to batch, over a damaged one if its length leads to another."""
    file = filesystem.open(path)
    try:
        position = 0
        while position < file.size_bytes:
            header, reason = None, None
            try:
                header = parse_header(file.read(HEADER_SIZE_BYTES, position))
                if header.size_bytes > file.size_bytes - position:
                    reason = "the last batch is torn"
                else:
                    validate_batch(file.read(header.size_bytes, position))
            except WireError as error:
                reason = str(error)
            following = _end_of_batch(file, position)
            if reason is None or (following is not None and _is_boundary(file, following)):
                yield Walked(position, header, reason)
            else:
                yield Walked(position, header, reason, is_end=True)
                return
            position = following or file.size_bytes
    finally:
        file.close()


def _end_of_batch(file: File, position: int) -> int | None:
    """Where a batch ends by its own length; None if it cannot end there."""
    start = file.read(LENGTH_END, position)
    if len(start) < LENGTH_END:
        return None
    end: int = position + LENGTH_END + _LENGTH.unpack_from(start, _LENGTH_AT)[0]
    return end if position + HEADER_SIZE_BYTES <= end <= file.size_bytes else None


def _is_boundary(file: File, position: int) -> bool:
    if position == file.size_bytes:
        return True
    try:
        parse_header(file.read(HEADER_SIZE_BYTES, position))
    except WireError:
        return False
    return True


def _dump(filesystem: FileSystem, path: str, *, records: bool) -> Iterator[Mapping[str, Any]]:
    directory, _, name = path.rpartition("/")
    if offset_of(name, LOG) is not None:
        yield from _dump_batches(filesystem, path, records=records)
    elif (base := offset_of(name, OFFSET_INDEX)) is not None:
        for relative, position in _entries(filesystem, path, _OFFSET_ENTRY):
            yield {"offset": base + relative, "position": position}
    elif (base := offset_of(name, TIME_INDEX)) is not None:
        for timestamp, relative in _entries(filesystem, path, _TIME_ENTRY):
            yield {"timestamp_ms": timestamp, "offset": base + relative}
    elif offset_of(name, TRANSACTION_INDEX) is not None:
        yield from _dump_aborted(filesystem, path)
    elif offset_of(name, SNAPSHOT) is not None:
        yield from _dump_snapshot(read_file(filesystem, path), path)
    elif name == LEADER_EPOCHS:
        for entry in decode_epochs(read_file(filesystem, path), path):
            yield entry._asdict()
    elif name == PARTITION_METADATA:
        topic_id = read_topic_id(filesystem, directory or ".")
        text = None if topic_id is None else urlsafe_b64encode(topic_id).rstrip(b"=").decode()
        yield {"topic_id": text}
    elif name in OFFSET_CHECKPOINTS:
        offsets = OffsetCheckpoint(filesystem, directory or ".", name).read()
        for partition, offset in sorted(offsets.items()):
            yield {"topic": partition.topic, "partition": partition.partition, "offset": offset}
    else:
        raise DamagedFileError(path, "its name is not that of a file of a log")


def _dump_batches(
    filesystem: FileSystem, path: str, *, records: bool
) -> Iterator[Mapping[str, Any]]:
    file = filesystem.open(path)
    try:
        for position, header, reason, _ in walk(filesystem, path):
            if header is None or reason is not None:
                yield {"position": position, ERROR: reason}
                continue
            try:
                row = _describe(position, header)
                if records or header.is_control:
                    row["records"] = list(_dump_records(file, position, header))
            except WireError as error:
                row = {"position": position, ERROR: str(error)}
            yield row
    finally:
        file.close()


def _describe(position: int, header: BatchHeader) -> dict[str, Any]:
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.records_count,
        "position": position,
        "size_bytes": header.size_bytes,
        "leader_epoch": header.leader_epoch,
        "max_timestamp_ms": header.max_timestamp_ms,
        "timestamp_type": header.timestamp_type.name,
        "compression": header.compression.name.lower(),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "crc": header.crc,
    }


def _dump_records(file: File, position: int, header: BatchHeader) -> Iterator[dict[str, Any]]:
    for record in iter_records(file.read(header.size_bytes, position)):
        if header.is_control:
            marker = parse_control_record(record)
            kind = None if marker is None else "commit" if marker.is_commit else "abort"
            coordinator_epoch = None if marker is None else marker.coordinator_epoch
            yield {"offset": record.offset, "end": kind, "coordinator_epoch": coordinator_epoch}
        else:
            yield {
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                **_text("key", record.key),
                **_text("value", record.value),
                "headers": [{"key": key, **_text("value", v)} for key, v in record.headers],
            }


def _dump_aborted(filesystem: FileSystem, path: str) -> Iterator[Mapping[str, Any]]:
    before = -1
    for version, producer_id, first, last, stable in _entries(filesystem, path, _TRANSACTION_ENTRY):
        # As the log judges them when it reads the file.
        if version != 0 or first >= last or last <= before:
            yield {ERROR: f"an entry makes no sense: version {version}, offsets {first} to {last}"}
            continue
        before = last
        yield {
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }


def _dump_snapshot(data: bytes, path: str) -> Iterator[Mapping[str, Any]]:
    for entry in decode_snapshot(data, path).entries():
        last = entry.batches[-1] if entry.batches else None
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": None if last is None else last.last_sequence,
            "last_offset": None if last is None else last.last_offset,
            "timestamp_ms": entry.last_timestamp_ms,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }


def _entries(filesystem: FileSystem, path: str, entry: Struct) -> Iterator[tuple[Any, ...]]:
    """The entries of an index, without the zeros that Kafka allocates in advance."""
    data = read_file(filesystem, path)
    whole = len(data) - len(data) % entry.size
    end = whole
    if entry is not _TRANSACTION_ENTRY and whole > entry.size:
        end = -(-len(data[:whole].rstrip(b"\0")) // entry.size) * entry.size
    yield from entry.iter_unpack(data[:end])
    if whole < len(data):
        raise DamagedFileError(path, f"{len(data)} bytes are no multiple of {entry.size}")


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    """Bytes for people: text if they are; if not, with escapes, and exactly in base64."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        escaped = data.decode("utf-8", "backslashreplace")
        return {name: escaped, f"{name}_base64": b64encode(data).decode()}
