"""Finding records by their timestamps (KIP-79, KIP-734)."""

from typing import NamedTuple

from kafka_wire.records import iter_records
from kafka_wire.types import LeaderEpoch, Offset
from log.segments import Segments


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
        from_offset = max(start, segment.indexes.times.offset_before(timestamp_ms))
        for _, header, batch in segment.batches(segment.position_of(from_offset)):
            if header.base_offset >= end:
                return None
            if header.is_control or (header.max_timestamp_ms or -1) < timestamp_ms:
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
    """The first of the records with the largest timestamp."""
    best: tuple[int, Offset] | None = None
    for segment in segments.from_offset(start):
        candidate = segment.indexes.max_timestamp
        if candidate is not None and (best is None or candidate[0] > best[0]):
            best = candidate
    if best is None:
        return None
    found = first_at_or_after(segments, best[0], start, end)
    # The record may lie outside of what may be seen: then look for the largest before it.
    return found if found is not None else _newest_by_reading(segments, start, end)


def _newest_by_reading(segments: Segments, start: Offset, end: Offset) -> TimedOffset | None:
    best: TimedOffset | None = None
    for segment in segments.from_offset(start):
        for _, header, batch in segment.batches(0):
            if header.base_offset >= end or header.is_control:
                continue
            if best is not None and (header.max_timestamp_ms or -1) <= best.timestamp_ms:
                continue
            for record in iter_records(batch):
                if (
                    record.timestamp_ms is not None
                    and start <= record.offset < end
                    and (best is None or record.timestamp_ms > best.timestamp_ms)
                ):
                    best = TimedOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return best
