"""Which of the oldest segments are deleted: the old ones, and those beyond the size."""

from log.config import LogConfig
from log.segment import Segment


class Retention:
    """Asked segment by segment from the start of a log, until it says no."""

    def __init__(self, config: LogConfig, *, now_ms: int, size_bytes: int) -> None:
        self._now_ms = now_ms
        self._size_bytes = size_bytes
        deletes = "delete" in config.cleanup_policy
        self._retention_ms = config.retention_ms if deletes else None
        self._retention_bytes = config.retention_bytes if deletes else None

    def may_go(self, segment: Segment, *, deleted: bool) -> bool:
        """Whether a segment has no more use; one below the log start (`deleted`) never has."""
        if deleted or self._is_too_old(segment) or self._is_too_much(segment):
            self._size_bytes -= segment.size_bytes
            return True
        return False

    def _is_too_old(self, segment: Segment) -> bool:
        if self._retention_ms is None or segment.size_bytes == 0:
            return False
        newest = segment.indexes.max_timestamp
        return newest is not None and newest[0] < self._now_ms - self._retention_ms

    def _is_too_much(self, segment: Segment) -> bool:
        if self._retention_bytes is None or segment.size_bytes == 0:
            return False
        return self._size_bytes - segment.size_bytes >= self._retention_bytes
