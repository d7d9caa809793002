"""Requests that wait for an offset, or for their deadline.

An offset that advances touches the requests that it satisfies and no other, however many wait.
"""

import heapq
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from broker.replica.events import RequestId
from kafka_wire.types import Offset

T = TypeVar("T")

SLACK: Final = 64
"""Entries of requests that are gone stay in the heaps until they are more than the others."""


class OffsetPurgatory(Generic[T]):
    """Requests by the offset that must be reached (`end_offset`, exclusive) before they go on."""

    def __init__(self) -> None:
        self._waiting: dict[RequestId, tuple[Offset, int, T]] = {}
        self._by_offset: list[tuple[Offset, RequestId]] = []
        self._by_deadline: list[tuple[int, RequestId]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._waiting

    def add(self, request_id: RequestId, end_offset: Offset, deadline_ms: int, item: T) -> None:
        self._waiting[request_id] = (end_offset, deadline_ms, item)
        heapq.heappush(self._by_offset, (end_offset, request_id))
        heapq.heappush(self._by_deadline, (deadline_ms, request_id))
        if len(self._by_offset) > 2 * len(self._waiting) + SLACK:
            self._forget_gone()

    def reached(self, end_offset: Offset) -> Iterator[tuple[RequestId, T]]:
        """Takes out those that an offset satisfies, the lowest first."""
        heap = self._by_offset
        while heap and heap[0][0] <= end_offset:
            wanted, request_id = heapq.heappop(heap)
            waiting = self._waiting.get(request_id)
            if waiting is not None and waiting[0] == wanted:
                yield request_id, self.remove_known(request_id)

    def expired(self, now_ms: int) -> Iterator[tuple[RequestId, T]]:
        """Takes out those whose deadline has come."""
        heap = self._by_deadline
        while heap and heap[0][0] <= now_ms:
            deadline_ms, request_id = heapq.heappop(heap)
            waiting = self._waiting.get(request_id)
            if waiting is not None and waiting[1] == deadline_ms:
                yield request_id, self.remove_known(request_id)

    def drain(self) -> list[tuple[RequestId, T]]:
        """Takes out all, in the order in which they came."""
        waiting, self._waiting = self._waiting, {}
        self._by_offset.clear()
        self._by_deadline.clear()
        return [(request_id, item) for request_id, (_, _, item) in waiting.items()]

    def remove(self, request_id: RequestId) -> None:
        self._waiting.pop(request_id, None)

    def remove_known(self, request_id: RequestId) -> T:
        return self._waiting.pop(request_id)[2]

    @property
    def lowest_end_offset(self) -> Offset | None:
        return min((waiting[0] for waiting in self._waiting.values()), default=None)

    def deadline_ms(self) -> int | None:
        heap = self._by_deadline
        while heap and heap[0][1] not in self._waiting:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _forget_gone(self) -> None:
        """On a partition where nothing happens, long polls come and go at one and the same offset:
        their entries would pile up."""
        self._by_offset = [(waiting[0], key) for key, waiting in self._waiting.items()]
        self._by_deadline = [(waiting[1], key) for key, waiting in self._waiting.items()]
        heapq.heapify(self._by_offset)
        heapq.heapify(self._by_deadline)
