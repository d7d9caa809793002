"""Finding records by their timestamps (KIP-79, KIP-734)."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from kafka_wire.records import BatchHeader, iter_records
from kafka_wire.types import LeaderEpoch, Offset
from log.segment import Segment
from log.segments import Segments

Batches: TypeAlias = Iterator[tuple[int, BatchHeader, memoryview]]


class TimedOffset(NamedTuple):
    """A record that was found by time."""

    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch | None


def first_at_or_after(
    segments: Segments, timestamp_ms: int, start: Offset, end: Offset
) -> TimedOffset | None:
    """The first record from `start` to `end` that is not older than a timestamp.

    First in the order of offsets: timestamps need not ascend, so all before it are older.
    """
    for segment in segments.from_offset(start):
        newest = segment.indexes.max_timestamp
        if newest is None or newest[0] < timestamp_ms:
            continue
        entry = segment.indexes.times.before_timestamp(timestamp_ms)
        for _, header, batch in _batches_from(segment, entry, start):
            if header.base_offset >= end:
                return None
            if header.is_control or _newest_of(header) < timestamp_ms:
                continue
            for record in iter_records(batch):
                if (
                    record.timestamp_ms is not None
                    and record.timestamp_ms >= timestamp_ms
                    and start <= record.offset < end
                ):
                    return TimedOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return None


def newest(segments: Segments, start: Offset, end: Offset) -> TimedOffset | None:
    """The first of the records with the largest timestamp.

    The latest segment most often has it, so looking begins there; of the others only those count
    whose largest timestamp is not smaller.
    """
    best: TimedOffset | None = None
    for segment in reversed(list(segments.from_offset(start))):
        bound = segment.indexes.max_timestamp
        if segment.base_offset >= end or bound is None:
            continue
        if best is None or bound[0] >= best.timestamp_ms:
            found = _newest_in(segment, start, end)
            if found is not None and (best is None or found.timestamp_ms >= best.timestamp_ms):
                best = found
    return best


def _newest_in(segment: Segment, start: Offset, end: Offset) -> TimedOffset | None:
    """The first of the newest records of a segment, which the time index leads to."""
    entry = segment.indexes.times.before_offset(end)
    while True:
        found = _newest_of_batches(_batches_from(segment, entry, start), start, end)
        if entry is None or (found is not None and found.timestamp_ms >= entry[0]):
            return found
        # The entry was a marker's, or its record lies before the start: look from the one before.
        entry = segment.indexes.times.before_offset(entry[1])


def _newest_of_batches(batches: Batches, start: Offset, end: Offset) -> TimedOffset | None:
    best: TimedOffset | None = None
    for _, header, batch in batches:
        if header.base_offset >= end:
            break
        if header.is_control or (best is not None and _newest_of(header) <= best.timestamp_ms):
            continue
        for record in iter_records(batch):
            if (
                record.timestamp_ms is not None
                and start <= record.offset < end
                and (best is None or record.timestamp_ms > best.timestamp_ms)
            ):
                best = TimedOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return best


def _batches_from(segment: Segment, entry: tuple[int, Offset] | None, start: Offset) -> Batches:
    """Batches from that of a time index entry on, but not before `start`.

    The entry is believed only if its batch has its timestamp; otherwise the index is made anew,
    and all batches are gone through.
    """
    if entry is not None and entry[1] > start:
        timestamp_ms, offset = entry
        position = segment.position_of(offset)
        _, header, _ = next(segment.batches(position), (0, None, None))
        if header is not None and header.max_timestamp_ms == timestamp_ms:
            return segment.batches(position)
        segment.rebuild_indexes()
    return segment.batches(segment.position_of(start))


def _newest_of(header: BatchHeader) -> int:
    return -1 if header.max_timestamp_ms is None else header.max_timestamp_ms
