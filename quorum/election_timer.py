"""How long elections take, as one voter sees it: from no known leader to a known one."""

from collections import deque
from collections.abc import Callable
from typing import Final

from quorum.metadata.image import MetadataImage
from quorum.raft.port import Entry, Leadership

REMEMBERED: Final = 1000


class RecentTimes:
    """The last durations of something, for an average and a maximum that tell of now."""

    def __init__(self) -> None:
        self._times_ms: deque[int] = deque(maxlen=REMEMBERED)

    def add(self, time_ms: int) -> None:
        self._times_ms.append(time_ms)

    @property
    def average_ms(self) -> float | None:
        return sum(self._times_ms) / len(self._times_ms) if self._times_ms else None

    @property
    def max_ms(self) -> int | None:
        return max(self._times_ms, default=None)


class ElectionTimer:
    """A listener that measures."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.times = RecentTimes()
        self._now_ms = now_ms
        self._leaderless_since_ms: int | None = now_ms()

    @property
    def leaderless_ms(self) -> int:
        """For how long no leader has been known; 0 if one is."""
        since = self._leaderless_since_ms
        return 0 if since is None else self._now_ms() - since

    def entry_applied(self, entry: Entry) -> None:
        """Entries say nothing about elections."""

    def image_restored(self, image: MetadataImage) -> None:
        """Nor do snapshots."""

    def leadership_changed(self, leadership: Leadership, image: MetadataImage) -> None:
        if leadership.leader_id is None:
            if self._leaderless_since_ms is None:
                self._leaderless_since_ms = self._now_ms()
        elif self._leaderless_since_ms is not None:
            self.times.add(self._now_ms() - self._leaderless_since_ms)
            self._leaderless_since_ms = None
