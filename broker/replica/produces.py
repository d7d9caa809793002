"""Produce requests at a leader, and those of them that wait.

acks=0    answered when it is appended: nobody is promised anything
acks=1    answered when the leader has flushed it
acks=all  answered when the high watermark has passed it (rule 4)
"""

from collections.abc import Callable
from typing import Final, NamedTuple, assert_never

from broker.replica.effects import Effect, ProduceAnswered
from broker.replica.events import Acks, Append, RequestId
from broker.replica.ports import ReplicaLog
from broker.replica.purgatory import OffsetPurgatory
from floodmark.invariant import invariant
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import WireError
from kafka_wire.types import LeaderEpoch, Offset
from log.partition_log import Appended

MAX_WAITING_PRODUCES: Final = 100_000
"""Of one partition; one more is refused before it is appended, and may be sent again."""


class _Waiting(NamedTuple):
    base_offset: Offset
    log_append_time_ms: int | None


class Produces:
    """The produce requests of one leader epoch."""

    def __init__(
        self, log: ReplicaLog, emit: Callable[[Effect], None], *, leader_epoch: LeaderEpoch
    ) -> None:
        self._log = log
        self._emit = emit
        self._leader_epoch = leader_epoch
        self._for_flush: OffsetPurgatory[_Waiting] = OffsetPurgatory()
        self._for_commit: OffsetPurgatory[_Waiting] = OffsetPurgatory()

    def __len__(self) -> int:
        return len(self._for_flush) + len(self._for_commit)

    def append(self, event: Append, *, is_below_min: bool, now_ms: int) -> bool:
        """Appends; returns whether the log has grown."""
        if event.acks is Acks.ALL and is_below_min:
            # Rule 4: nothing was written, so it may be sent again without a doubt.
            self._refuse(event.request_id, ErrorCode.NOT_ENOUGH_REPLICAS)
            return False
        if len(self) >= MAX_WAITING_PRODUCES:
            self._refuse(event.request_id, ErrorCode.REQUEST_TIMED_OUT, "too many requests wait")
            return False
        try:
            # Rule 1: the log writes the leader epoch into the batch.
            appended = self._log.append_as_leader(
                event.batch, leader_epoch=self._leader_epoch, now_ms=now_ms, origin=event.origin
            )
        except KafkaError as error:
            self._refuse(event.request_id, error.code, error.message)
            return False
        except WireError as error:
            self._refuse(event.request_id, error.code, str(error))
            return False
        self._wait_or_answer(event, appended)
        return not appended.is_duplicate

    def flushed(self, end_offset: Offset) -> None:
        for request_id, waiting in self._for_flush.reached(end_offset):
            self._answer(request_id, waiting)

    def committed(self, high_watermark: Offset) -> None:
        for request_id, waiting in self._for_commit.reached(high_watermark):
            self._answer(request_id, waiting)

    def not_enough_replicas(self) -> None:
        """The ISR shrank below min after the append: whether it will be committed is open."""
        for request_id, _ in self._for_commit.drain():
            self._refuse(request_id, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def expire(self, now_ms: int) -> None:
        for purgatory in (self._for_flush, self._for_commit):
            for request_id, _ in purgatory.expired(now_ms):
                self._refuse(request_id, ErrorCode.REQUEST_TIMED_OUT)

    def resign(self, error: ErrorCode) -> None:
        for purgatory in (self._for_flush, self._for_commit):
            for request_id, _ in purgatory.drain():
                self._refuse(request_id, error)

    def deadline_ms(self) -> int | None:
        deadlines = (self._for_flush.deadline_ms(), self._for_commit.deadline_ms())
        return min((d for d in deadlines if d is not None), default=None)

    def check_invariants(self, high_watermark: Offset, *, is_below_min: bool) -> None:
        lowest = self._for_commit.lowest_end_offset
        invariant(
            lowest is None or lowest > high_watermark,
            "who waits for the high watermark lies above it",
            lowest=lowest,
            high_watermark=high_watermark,
        )
        invariant(
            lowest is None or not is_below_min,
            "nobody waits for a high watermark that stands still",
            lowest=lowest,
        )

    # ------------------------------------------------------------------------------ internals

    def _wait_or_answer(self, event: Append, appended: Appended) -> None:
        waiting = _Waiting(appended.base_offset, appended.log_append_time_ms)
        # A duplicate waits like the first: that it is in the log does not make it committed.
        end_offset = Offset(appended.last_offset + 1)
        match event.acks:
            case Acks.NONE:
                reached, purgatory = end_offset, self._for_flush
            case Acks.LEADER:
                reached, purgatory = self._log.durable_end_offset, self._for_flush
            case Acks.ALL:
                reached, purgatory = self._log.high_watermark, self._for_commit
            case _:
                assert_never(event.acks)
        if reached >= end_offset:
            self._answer(event.request_id, waiting)
        else:
            purgatory.add(event.request_id, end_offset, event.deadline_ms, waiting)

    def _answer(self, request_id: RequestId, waiting: _Waiting) -> None:
        self._emit(
            ProduceAnswered(
                request_id=request_id,
                base_offset=waiting.base_offset,
                log_append_time_ms=waiting.log_append_time_ms,
                log_start_offset=self._log.log_start_offset,
            )
        )

    def _refuse(self, request_id: RequestId, error: ErrorCode, message: str | None = None) -> None:
        self._emit(ProduceAnswered(request_id=request_id, error=error, message=message))
