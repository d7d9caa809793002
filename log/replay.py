"""Producer state from batches: as they are appended, and again when a log is opened or cut."""

from kafka_wire.records import BatchHeader, iter_records, parse_control_record
from kafka_wire.types import Buffer, Offset
from log.errors import DamagedFileError
from log.filesystem import FileSystem
from log.flush import read_file
from log.names import SNAPSHOT, offset_of
from log.producer_snapshot import decode_snapshot
from log.producer_state import CompletedTransaction, ProducerState
from log.segment import Segment
from log.segments import Segments
from log.transaction_index import AbortedTransaction


def replay(producers: ProducerState, segment: Segment, header: BatchHeader, batch: Buffer) -> None:
    """Draws the consequences of a batch for its producer, and for readers of its segment."""
    if not header.is_control:
        producers.update(header)
        return
    for record in iter_records(batch):
        marker = parse_control_record(record)
        if marker is None:
            continue
        completed = producers.update_marker(header, marker)
        if completed is not None and completed.is_aborted:
            segment.indexes.transactions.append(_aborted(producers, completed))


def load_producers(
    filesystem: FileSystem, directory: str, segments: Segments, end_offset: Offset
) -> ProducerState:
    """The producer state at the end of the log: from the latest snapshot, and the batches since.

    Snapshots behind the end belong to what was cut, and are removed. The transaction indexes of
    the segments that are read again are made anew as far as they are read.
    """
    snapshots = _snapshots(filesystem, directory, end_offset)
    producers, offset = _latest(filesystem, snapshots, segments.first.base_offset)
    for segment in segments.from_offset(offset):
        if not _truncate_transactions(segment, offset):
            # The index is damaged before the snapshot, too: begin with the segment.
            snapshots = [item for item in snapshots if item[0] <= segment.base_offset]
            producers, offset = _latest(filesystem, snapshots, segments.first.base_offset)
    for segment in segments.from_offset(offset):
        position = 0 if segment.base_offset >= offset else segment.position_of(offset)
        for _, header, batch in segment.batches(position):
            if header.producer_id is not None:
                replay(producers, segment, header, batch)
    return producers


def _truncate_transactions(segment: Segment, offset: Offset) -> bool:
    """Forgets what the segment's index knows from `offset` on; False if it is damaged before."""
    try:
        segment.indexes.transactions.truncate(offset)
    except DamagedFileError:
        segment.indexes.transactions.clear()
        return segment.base_offset >= offset
    return True


def _snapshots(
    filesystem: FileSystem, directory: str, end_offset: Offset
) -> list[tuple[Offset, str]]:
    """The snapshots up to the end of the log, oldest first; those behind it are removed."""
    found = []
    for entry in filesystem.list(directory):
        offset = offset_of(entry.name, SNAPSHOT)
        path = f"{directory}/{entry.name}"
        if offset is not None and offset <= end_offset:
            found.append((offset, path))
        elif offset is not None:
            filesystem.remove(path)
    return sorted(found)


def _latest(
    filesystem: FileSystem, snapshots: list[tuple[Offset, str]], first_offset: Offset
) -> tuple[ProducerState, Offset]:
    """The newest snapshot that is whole; without one, nothing at the start of the log."""
    for offset, path in reversed(snapshots):
        try:
            return decode_snapshot(read_file(filesystem, path), path), offset
        except DamagedFileError:
            filesystem.remove(path)
    return ProducerState(), first_offset


def _aborted(producers: ProducerState, completed: CompletedTransaction) -> AbortedTransaction:
    still_open = producers.first_open_offset
    return AbortedTransaction(
        producer_id=completed.producer_id,
        first_offset=completed.first_offset,
        last_offset=completed.last_offset,
        last_stable_offset=(
            Offset(completed.last_offset + 1) if still_open is None else still_open
        ),
    )
