"""The segments of a log in ascending order; the last one is active, the others are sealed."""

from bisect import bisect_right
from collections.abc import Iterator

from floodmark.invariant import invariant
from kafka_wire.types import Offset
from log.segment import Segment


class Segments:
    """At least one segment, found by offset in logarithmic time."""

    __slots__ = ("_base_offsets", "_items", "active")

    def __init__(self, items: list[Segment]) -> None:
        invariant(bool(items), "a log has at least one segment")
        self._items = items
        self.active = items[-1]
        """The last one. An attribute, because every append and every read asks for it."""
        self._base_offsets = [segment.base_offset for segment in items]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def first(self) -> Segment:
        return self._items[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._items)

    def sealed(self) -> list[Segment]:
        return self._items[:-1]

    def from_offset(self, offset: Offset) -> Iterator[Segment]:
        """The segment that holds `offset`, and those behind it."""
        first = max(0, bisect_right(self._base_offsets, offset) - 1)
        return iter(self._items[first:])

    def end_of(self, segment: Segment, log_end_offset: Offset) -> Offset:
        """Where the next segment begins, or the log ends."""
        following = bisect_right(self._base_offsets, segment.base_offset)
        return self._base_offsets[following] if following < len(self) else log_end_offset

    def append(self, segment: Segment) -> None:
        invariant(
            segment.base_offset > self.active.base_offset,
            "segments ascend",
            active=self.active.base_offset,
            new=segment.base_offset,
        )
        self._items.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def remove_first(self) -> Segment:
        invariant(len(self) > 1, "the active segment stays")
        del self._base_offsets[0]
        return self._items.pop(0)

    def remove_last(self) -> Segment:
        invariant(len(self) > 1, "a log has at least one segment")
        self._base_offsets.pop()
        removed = self._items.pop()
        self.active = self._items[-1]
        return removed

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Puts a compacted segment in the place of those that it was made from."""
        at = self._items.index(old[0])
        invariant(self._items[at : at + len(old)] == old, "compacted segments are neighbours")
        self._items[at : at + len(old)] = [new]
        self._base_offsets[at : at + len(old)] = [new.base_offset]
        self.active = self._items[-1]

    def reset(self, segment: Segment) -> list[Segment]:
        """Begins anew with one segment; returns those that were there."""
        old = self._items
        self._items = [segment]
        self._base_offsets = [segment.base_offset]
        self.active = segment
        return old
