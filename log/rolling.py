"""When a new segment begins: before one grows too large, too old, or beyond its indexes."""

from kafka_wire.records import BatchHeader
from log.config import LogConfig
from log.segment import MAX_RELATIVE_OFFSET, Segment


class Run:
    """Neighbouring batches of a leader's answer that go into one segment, for one write."""

    __slots__ = ("data", "end", "headers", "segment", "start")

    def __init__(self, data: memoryview, segment: Segment) -> None:
        self.data = data
        self.segment = segment
        self.start = self.end = 0
        self.headers: list[BatchHeader] = []


class RollRule:
    """Knows when the active segment began, by the time of its first batch."""

    __slots__ = ("_begun_ms", "_config")

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._begun_ms: int | None = None

    def begin(self, header: BatchHeader | None, now_ms: int) -> None:
        """A segment begins with this batch; None if that is to be looked up."""
        self._begun_ms = None if header is None else _time_of(header, now_ms)

    def is_due(
        self, active: Segment, header: BatchHeader, now_ms: int, run: Run | None = None
    ) -> bool:
        """Whether a batch has to go to a new segment, rather than behind a run in this one."""
        size_bytes, entries_left = active.size_bytes, active.indexes.offsets.entries_left
        if run is not None:
            size_bytes += run.end - run.start
            entries_left -= len(run.headers)
        time_ms = now_ms if header.max_timestamp_ms is None else header.max_timestamp_ms
        if size_bytes == 0:
            self._begun_ms = time_ms
            return False
        if self._begun_ms is None:
            _, first, _ = next(active.batches())
            self._begun_ms = _time_of(first, time_ms)
        config = self._config
        return (
            size_bytes + header.size_bytes > config.segment_bytes
            or time_ms - self._begun_ms > config.segment_ms
            or header.base_offset + header.last_offset_delta - active.base_offset
            > MAX_RELATIVE_OFFSET
            or entries_left <= 0
        )


def _time_of(header: BatchHeader, otherwise_ms: int) -> int:
    return otherwise_ms if header.max_timestamp_ms is None else header.max_timestamp_ms
