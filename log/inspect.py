"""What is in a log's files, as plain data: for people, scripts and tests. Nothing is changed.

Unlike the log itself this reads whatever is there, as far as it goes, and says where it stops
making sense.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from struct import Struct
from typing import Any

from kafka_wire.errors import WireError
from kafka_wire.records import (
    BatchHeader,
    iter_records,
    parse_control_record,
    parse_header,
    validate_batch,
)
from kafka_wire.records.batch import HEADER_SIZE_BYTES
from kafka_wire.types import Offset
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
    file_name,
    offset_of,
)
from log.partition_metadata import read_topic_id
from log.producer_snapshot import decode_snapshot

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in a file that cannot be true."""

    path: str
    position: int | None
    offset: int | None
    reason: str

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def dump_file(filesystem: FileSystem, path: str, *, records: bool) -> Iterator[Mapping[str, Any]]:
    """The contents of one file of a log, by the kind that its name tells."""
    name = path.rpartition("/")[2]
    if offset_of(name, LOG) is not None:
        yield from _dump_batches(filesystem, path, records=records)
    elif (base := offset_of(name, OFFSET_INDEX)) is not None:
        for relative, position in _entries(filesystem, path, _OFFSET_ENTRY):
            yield {"offset": base + relative, "position": position}
    elif (base := offset_of(name, TIME_INDEX)) is not None:
        for timestamp, relative in _entries(filesystem, path, _TIME_ENTRY):
            yield {"timestamp_ms": timestamp, "offset": base + relative}
    elif offset_of(name, TRANSACTION_INDEX) is not None:
        for _, producer_id, first, last, stable in _entries(filesystem, path, _TRANSACTION_ENTRY):
            yield {
                "producer_id": producer_id,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            }
    elif offset_of(name, SNAPSHOT) is not None:
        yield from _dump_snapshot(read_file(filesystem, path), path)
    elif name == LEADER_EPOCHS:
        for entry in decode_epochs(read_file(filesystem, path), path):
            yield entry._asdict()
    elif name == PARTITION_METADATA:
        topic_id = read_topic_id(filesystem, path.rpartition("/")[0])
        yield {"topic_id": topic_id.hex() if topic_id else None}
    else:
        raise DamagedFileError(path, "its name is not that of a file of a log")


def is_log_file(name: str) -> bool:
    """Whether `dump_file` can tell what is in a file, by its name."""
    suffixes = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)
    return name in (LEADER_EPOCHS, PARTITION_METADATA) or any(
        offset_of(name, suffix) is not None for suffix in suffixes
    )


def verify_log(filesystem: FileSystem, directory: str) -> Iterator[Problem]:
    """Everything that is wrong in a partition's directory: batches, offsets, epochs, indexes."""
    expected: Offset | None = None
    epoch = -1
    for entry in filesystem.list(directory):
        path = f"{directory}/{entry.name}"
        base_offset = offset_of(entry.name, LOG)
        if base_offset is not None:
            if expected is not None and base_offset != expected:
                reason = f"the segment before reaches to offset {expected}"
                yield Problem(path=path, position=None, offset=base_offset, reason=reason)
                expected = base_offset
            starts: dict[int, int] = {}
            for position, header, problem in _walk(filesystem, path, checked=True):
                if header is None:
                    where = base_offset if expected is None else expected
                    yield Problem(path=path, position=position, offset=where, reason=problem)
                    break
                starts[position] = header.last_offset
                if header.base_offset < (base_offset if expected is None else expected):
                    reason = f"offset {header.base_offset} follows where {expected} should"
                    yield Problem(
                        path=path, position=position, offset=header.base_offset, reason=reason
                    )
                if header.leader_epoch is None or header.leader_epoch < epoch:
                    reason = f"leader epoch {header.leader_epoch} follows {epoch}"
                    yield Problem(
                        path=path, position=position, offset=header.base_offset, reason=reason
                    )
                epoch = max(epoch, header.leader_epoch or 0)
                expected = header.next_offset
            yield from _verify_index(filesystem, directory, base_offset, starts)
        elif not entry.is_directory and is_log_file(entry.name):
            try:
                for _ in dump_file(filesystem, path, records=False):
                    pass
            except DamagedFileError as error:
                yield Problem(path=path, position=None, offset=None, reason=error.reason)


def _verify_index(
    filesystem: FileSystem, directory: str, base_offset: Offset, starts: Mapping[int, int]
) -> Iterator[Problem]:
    """Every entry of the offset index must point to a batch that ends where it says."""
    path = f"{directory}/{file_name(base_offset, OFFSET_INDEX)}"
    if not filesystem.exists(path):
        return
    try:
        entries = list(_entries(filesystem, path, _OFFSET_ENTRY))
    except DamagedFileError:
        return  # Told when the file itself is looked at.
    for relative, position in entries:
        if starts.get(position) != base_offset + relative:
            reason = f"no batch at position {position} ends with offset {base_offset + relative}"
            yield Problem(
                path=path, position=position, offset=base_offset + relative, reason=reason
            )


def _walk(
    filesystem: FileSystem, path: str, *, checked: bool
) -> Iterator[tuple[int, BatchHeader | None, str]]:
    """From batch to batch; where it stops making sense, no header but the reason."""
    file = filesystem.open(path)
    try:
        position = 0
        while position < file.size_bytes:
            try:
                header = parse_header(file.read(HEADER_SIZE_BYTES, position))
                if header.size_bytes > file.size_bytes - position:
                    yield position, None, "the last batch is torn"
                    return
                if checked:
                    validate_batch(file.read(header.size_bytes, position))
            except WireError as error:
                yield position, None, str(error)
                return
            yield position, header, ""
            position += header.size_bytes
    finally:
        file.close()


def _dump_batches(
    filesystem: FileSystem, path: str, *, records: bool
) -> Iterator[Mapping[str, Any]]:
    file = filesystem.open(path)
    try:
        for position, header, problem in _walk(filesystem, path, checked=True):
            if header is None:
                raise DamagedFileError(path, f"at byte {position}: {problem}")
            row = _describe(position, header)
            if records or header.is_control:
                row["records"] = list(_dump_records(file, position, header))
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
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": {key: _text(value) for key, value in record.headers},
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
    data = read_file(filesystem, path)
    if len(data) % entry.size:
        raise DamagedFileError(path, f"{len(data)} bytes are no multiple of {entry.size}")
    return entry.iter_unpack(data)


def _text(data: bytes | None) -> str | None:
    """Bytes for people: as text where they are text, in escapes where not."""
    return None if data is None else data.decode("utf-8", "backslashreplace")
