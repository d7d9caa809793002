"""Reads at a leader: what a consumer may see, and when it may be told.

A read is answered
- up to the high watermark (or the last stable offset), and only once the high watermark has reached
  the start of the leader's epoch (rule 3, KIP-207): before that, records that the leader before has
  acknowledged may lie above it;
- in the epoch in which it came in, for this object ends with its epoch (rule 15);
- while the broker's lease holds, checked after the high watermark was taken (rule 15): a leader
  that does not know yet that it is deposed must not give an old end for the current one.
"""

from collections.abc import Callable
from typing import Final

from broker.replica.effects import Effect, ReadAnswered
from broker.replica.events import Isolation, Read, ReadLatest, RequestId
from broker.replica.ports import Lease, ReplicaLog
from broker.replica.purgatory import OffsetPurgatory
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import LeaderEpoch, Offset
from quorum.metadata.types import BrokerId

MAX_WAITING_READS: Final = 10_000
"""Of one partition and isolation level; one more is answered at once, as if its time were over."""


class LeaderReads:
    """The reads of one leader epoch, those that wait included."""

    def __init__(
        self,
        log: ReplicaLog,
        lease: Lease,
        emit: Callable[[Effect], None],
        *,
        leader_epoch: LeaderEpoch,
        epoch_start_offset: Offset,
    ) -> None:
        self._log = log
        self._lease = lease
        self._emit = emit
        self._leader_epoch = leader_epoch
        self._epoch_start_offset = epoch_start_offset
        self._uncommitted: OffsetPurgatory[Read] = OffsetPurgatory()
        self._committed: OffsetPurgatory[Read] = OffsetPurgatory()

    def __len__(self) -> int:
        return len(self._uncommitted) + len(self._committed)

    def read(self, request: Read) -> None:
        """Answers, or waits until there is something to answer."""
        waiting = self._purgatory(request)
        deadline_ms = request.deadline_ms
        if (
            deadline_ms is None
            or len(waiting) >= MAX_WAITING_READS
            or not self._has_to_wait(request)
        ):
            self._answer(request)
            return
        # Nobody is told anything before the epoch's start is reached.
        wanted = Offset(max(request.fetch_offset + 1, self._epoch_start_offset))
        waiting.add(request.request_id, wanted, deadline_ms, request)

    def read_latest(self, request: ReadLatest) -> None:
        if not self.is_readable():
            self._refuse(request.request_id, ErrorCode.OFFSET_NOT_AVAILABLE)
            return
        answer = self._answer_with(request.request_id)
        self._emit_under_lease(answer)

    def high_watermark_advanced(self) -> None:
        """Answers those that waited for it."""
        if not self.is_readable():
            return
        for _, request in self._uncommitted.reached(self._log.high_watermark):
            self._answer(request)
        for _, request in self._committed.reached(self._log.last_stable_offset):
            self._answer(request)

    def cancel(self, request_id: RequestId) -> None:
        self._uncommitted.remove(request_id)
        self._committed.remove(request_id)

    def expire(self, now_ms: int) -> None:
        for purgatory in (self._uncommitted, self._committed):
            for _, request in purgatory.expired(now_ms):
                self._answer(request)

    def resign(self, error: ErrorCode, leader: BrokerId | None) -> None:
        """The epoch is over: whoever waited asks the next leader (rule 15)."""
        for purgatory in (self._uncommitted, self._committed):
            for request_id, _ in purgatory.drain():
                self._emit(ReadAnswered(request_id=request_id, error=error, leader=leader))

    def deadline_ms(self) -> int | None:
        deadlines = (self._uncommitted.deadline_ms(), self._committed.deadline_ms())
        return min((d for d in deadlines if d is not None), default=None)

    def is_readable(self) -> bool:
        """Rule 3 (KIP-207)."""
        return self._log.high_watermark >= self._epoch_start_offset

    # ------------------------------------------------------------------------------ internals

    def _purgatory(self, request: Read) -> OffsetPurgatory[Read]:
        if request.isolation is Isolation.READ_COMMITTED:
            return self._committed
        return self._uncommitted

    def _visible_end(self, request: Read) -> Offset:
        if request.isolation is Isolation.READ_COMMITTED:
            return self._log.last_stable_offset
        return self._log.high_watermark

    def _has_to_wait(self, request: Read) -> bool:
        """An offset that does not exist is answered at once: waiting does not make it better."""
        if not self.is_readable():
            return True
        return self._visible_end(request) <= request.fetch_offset <= self._log.log_end_offset

    def _answer(self, request: Read) -> None:
        if not self.is_readable():
            self._refuse(request.request_id, ErrorCode.OFFSET_NOT_AVAILABLE)
            return
        try:
            answer = self._answer_with(request.request_id, request)
        except KafkaError as error:
            self._refuse(request.request_id, error.code)
            return
        self._emit_under_lease(answer)

    def _answer_with(self, request_id: RequestId, read: Read | None = None) -> ReadAnswered:
        log = self._log
        records = None
        high_watermark, last_stable_offset = log.high_watermark, log.last_stable_offset
        if read is not None:
            end_offset = self._visible_end(read)
            records = log.read(read.fetch_offset, max_bytes=read.max_bytes, end_offset=end_offset)
        return ReadAnswered(
            request_id=request_id,
            records=records,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log.log_start_offset,
            leader_epoch=self._leader_epoch,
        )

    def _emit_under_lease(self, answer: ReadAnswered) -> None:
        """Everything in the answer was taken before: only now is the lease of use (rule 15)."""
        if self._lease():
            self._emit(answer)
        else:
            self._refuse(answer.request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _refuse(self, request_id: RequestId, error: ErrorCode) -> None:
        self._emit(
            ReadAnswered(request_id=request_id, error=error, leader_epoch=self._leader_epoch)
        )
