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


def replay(
    producers: ProducerState, segment: Segment | None, header: BatchHeader, batch: Buffer
) -> None:
    """Draws the consequences of a batch for its producer, and for readers of its segment."""
    if not header.is_control:
        producers.update(header)
        return
    for record in iter_records(batch):
        marker = parse_control_record(record)
        if marker is None:
            continue
        completed = producers.update_marker(header, marker)
        if completed is not None and completed.is_aborted and segment is not None:
            segment.indexes.transactions.append(_aborted(producers, completed))


def load_producers(
    filesystem: FileSystem,
    directory: str,
    segments: Segments,
    end_offset: Offset,
    *,
    trusted_end: Offset | None = None,
) -> ProducerState:
    """The producer state at the end of the log: from the latest snapshot, and the batches since.

    Snapshots behind the end belong to what was cut. After a crash those from `trusted_end` on, the
    recovery point, do not count either: whoever begins with one trusts the transaction indexes
    before it, and they are synced together. Both are removed for good before this returns, for
    the log may soon reach their offsets again, with other records.

    The transaction indexes of the segments that are read again are made anew as far as they are
    read.
    """
    snapshots = _snapshots(filesystem, directory, segments, end_offset, trusted_end)
    while True:
        producers, offset = _latest(filesystem, snapshots, segments.first.base_offset)
        again = list(segments.from_offset(offset))
        damaged = [segment for segment in again if not _truncate_transactions(segment, offset)]
        if not damaged:
            break
        # An index is damaged before the snapshot, too: begin with its segment.
        snapshots = [item for item in snapshots if item[0] <= damaged[0].base_offset]
    for segment in again:
        position = 0 if segment.base_offset >= offset else segment.position_of(offset)
        for _, header, batch in segment.batches(position):
            if header.producer_id is not None:
                replay(producers, segment, header, batch)
        if segment is not segments.active:
            segment.indexes.transactions.save()
    return producers


def rebuild_transactions(
    filesystem: FileSystem, directory: str, segments: Segments, damaged: Segment
) -> None:
    """Makes the transaction index of one segment anew, from a snapshot before it."""
    end_offset = damaged.base_offset
    snapshots = [item for item in _list_snapshots(filesystem, directory) if item[0] <= end_offset]
    producers, offset = _latest(filesystem, snapshots, segments.first.base_offset)
    damaged.indexes.transactions.clear()
    for segment in segments.from_offset(offset):
        position = 0 if segment.base_offset >= offset else segment.position_of(offset)
        for _, header, batch in segment.batches(position):
            if header.producer_id is not None:
                replay(producers, segment if segment is damaged else None, header, batch)
        if segment is damaged:
            return


def _truncate_transactions(segment: Segment, offset: Offset) -> bool:
    """Forgets what the segment's index knows from `offset` on; False if it is damaged before."""
    try:
        segment.indexes.transactions.truncate(offset)
    except DamagedFileError:
        segment.indexes.transactions.clear()
        return segment.base_offset >= offset
    return True


def _snapshots(
    filesystem: FileSystem,
    directory: str,
    segments: Segments,
    end_offset: Offset,
    trusted_end: Offset | None,
) -> list[tuple[Offset, str]]:
    """The snapshots that count, oldest first; others are removed.

    Besides those at the starts of segments only the latest is kept, which a clean stop has left.
    """
    found: list[tuple[Offset, str]] = []
    stale = False
    if trusted_end is None:
        kept_end = Offset(end_offset + 1)
    else:
        # Before the first segment there is no index to trust, so a snapshot of its start will do.
        kept_end = max(trusted_end, Offset(segments.first.base_offset + 1))
        kept_end = min(kept_end, Offset(end_offset + 1))
    for offset, path in _list_snapshots(filesystem, directory):
        if offset >= kept_end:
            filesystem.remove(path)
            stale = True
        else:
            found.append((offset, path))
    if stale:
        filesystem.sync_directory(directory)
    bases = {segment.base_offset for segment in segments}
    for offset, path in found[:-1]:
        if offset not in bases:
            filesystem.remove(path)
    return [item for item in found[:-1] if item[0] in bases] + found[-1:]


def _list_snapshots(filesystem: FileSystem, directory: str) -> list[tuple[Offset, str]]:
    found = []
    for entry in filesystem.list(directory):
        offset = offset_of(entry.name, SNAPSHOT)
        if offset is not None:
            found.append((offset, f"{directory}/{entry.name}"))
    return sorted(found)


def _latest(
    filesystem: FileSystem, snapshots: list[tuple[Offset, str]], first_offset: Offset
) -> tuple[ProducerState, Offset]:
    """The newest snapshot that is whole; without one, nothing at the start of the log."""
    for offset, path in reversed(snapshots):
        if offset < first_offset:
            break  # Its batches are gone, and so is what lay between them and the log's start.
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
