"""A follower of a partition, for one leader epoch.

    must flush --flushed--> fetching --answered--> append, or cut, or nothing --> must flush
                               |
                               +--failed, refused--> backing off --Tick--> must flush

Its fetch offset is its acknowledgement: it asks for an offset only once everything below is
flushed (DESIGN.md, Durability; rule 16 for what recovery has found). It cuts its log where the
leader says that epochs diverge, and nowhere else (rule 7): its own high watermark may be behind
what the leader has acknowledged long ago (KIP-101). It raises its high watermark only by an answer
to a fetch that did not diverge, so after every cut (KAFKA-14704).

Invariant: while a fetch is under way, the log ends at the fetch offset.
"""

from collections.abc import Callable
from typing import assert_never

from broker.replica.divergence import last_fetched_epoch, truncation_offset
from broker.replica.effects import (
    Effect,
    FetchFromLeader,
    HighWatermarkAdvanced,
    ReadAnswered,
    Truncated,
)
from broker.replica.events import (
    DivergingEpoch,
    FetchAnswered,
    FetchFailed,
    FetchId,
    FlushCompleted,
    Isolation,
    Read,
    Tick,
)
from broker.replica.ports import ReplicaLog
from broker.replica.settings import ReplicaSettings
from floodmark.invariant import invariant
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import WireError
from kafka_wire.types import LeaderEpoch, Offset
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerId


class PartitionFollower:
    """See the module's docstring. A new epoch gets a new object: answers of an old one are void."""

    def __init__(
        self,
        *,
        partition: PartitionRecord,
        log: ReplicaLog,
        settings: ReplicaSettings,
        emit: Callable[[Effect], None],
    ) -> None:
        self.leader: BrokerId | None = partition.leader
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self._log = log
        self._settings = settings
        self._emit = emit
        self._fetch_offset: Offset | None = None
        """Of the fetch that is under way."""
        self._fetch_id = FetchId(0)
        self._retry_at_ms: int | None = None
        self._fetch_when_flushed()

    def step(
        self, event: FetchAnswered | FetchFailed | FlushCompleted | Read | Tick, now_ms: int
    ) -> None:
        match event:
            case FetchAnswered():
                if self._is_expected(event):
                    self._fetch_offset = None
                    self._take(event, now_ms)
                    self._fetch_when_flushed()
            case FetchFailed():
                if self._is_expected(event):
                    self._fetch_offset = None
                    self._back_off(now_ms)
            case FlushCompleted():
                self._fetch_when_flushed()
            case Read():
                self._read(event)
            case Tick():
                if self._retry_at_ms is not None and now_ms >= self._retry_at_ms:
                    self._retry_at_ms = None
                    self._fetch_when_flushed()
            case _:
                assert_never(event)

    def deadline_ms(self) -> int | None:
        return self._retry_at_ms

    def check_invariants(self) -> None:
        log = self._log
        invariant(
            self._fetch_offset is None or self._fetch_offset == log.log_end_offset,
            "while a fetch is under way, the log ends at the fetch offset",
            fetch_offset=self._fetch_offset,
            log_end_offset=log.log_end_offset,
        )
        invariant(
            self._fetch_offset is None or self._fetch_offset <= log.durable_end_offset,
            "a follower asks for what follows its flushed records",
            fetch_offset=self._fetch_offset,
            durable_end_offset=log.durable_end_offset,
        )

    # ------------------------------------------------------------------------------ internals

    def _fetch_when_flushed(self) -> None:
        log = self._log
        if self.leader is None or self._fetch_offset is not None or self._retry_at_ms is not None:
            return
        if not self._may_acknowledge():
            return
        self._fetch_offset = log.log_end_offset
        self._fetch_id = FetchId(self._fetch_id + 1)
        self._emit(
            FetchFromLeader(
                fetch_id=self._fetch_id,
                leader=self.leader,
                leader_epoch=self.leader_epoch,
                fetch_offset=log.log_end_offset,
                last_fetched_epoch=last_fetched_epoch(log),
            )
        )

    def _may_acknowledge(self) -> bool:
        """A fetch offset acknowledges everything below it."""
        return self._log.durable_end_offset >= self._log.log_end_offset

    def _is_expected(self, event: FetchAnswered | FetchFailed) -> bool:
        """Whether it belongs to the fetch under way: others may come late, or twice."""
        return (
            event.leader_epoch == self.leader_epoch
            and self._fetch_offset is not None
            and event.fetch_id == self._fetch_id
        )

    def _take(self, answer: FetchAnswered, now_ms: int) -> None:
        try:
            if answer.error is not None:
                self._take_error(answer, now_ms)
            elif answer.diverging is not None:
                self._truncate(answer.diverging)
            else:
                if answer.records is not None and len(answer.records):
                    self._log.append_as_follower(answer.records, now_ms=now_ms)
                self._raise_high_watermark(answer)
        except (KafkaError, WireError):
            # Damaged on its way, or our disk is; if it is the disk, the driver knows already.
            self._back_off(now_ms)

    def _truncate(self, diverging: DivergingEpoch) -> None:
        """Rule 7. The log forces it to disk before it returns."""
        end_offset = truncation_offset(self._log, diverging)
        self._log.truncate_to(end_offset)
        self._emit(Truncated(end_offset=self._log.log_end_offset, diverging=diverging))

    def _take_error(self, answer: FetchAnswered, now_ms: int) -> None:
        start = answer.log_start_offset
        if (
            answer.error is ErrorCode.OFFSET_OUT_OF_RANGE
            and start is not None
            and start > self._log.log_end_offset
        ):
            # The leader has deleted what comes next; it deletes nothing that is not committed.
            self._log.truncate_fully_and_start_at(start)
            self._emit(Truncated(end_offset=start, diverging=None))
        else:
            self._back_off(now_ms)

    def _raise_high_watermark(self, answer: FetchAnswered) -> None:
        log = self._log
        if answer.high_watermark is not None:
            high_watermark = min(answer.high_watermark, log.log_end_offset)
            if high_watermark > log.high_watermark:
                log.set_high_watermark(high_watermark)
                self._emit(HighWatermarkAdvanced(high_watermark=high_watermark))
        if answer.log_start_offset is not None:
            start = min(answer.log_start_offset, log.high_watermark)
            if start > log.log_start_offset:
                log.advance_log_start(start)

    def _back_off(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + self._settings.replica_fetch_backoff_ms

    def _read(self, request: Read) -> None:
        """A committed prefix, for a consumer that is content with that (KIP-392).

        It never waits: a follower does not know what the end is.
        """
        log = self._log
        if not request.from_follower:
            self._refuse(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if log.high_watermark < request.fetch_offset:
            self._refuse(request, ErrorCode.OFFSET_NOT_AVAILABLE)
            return
        is_committed = request.isolation is Isolation.READ_COMMITTED
        end_offset = log.last_stable_offset if is_committed else log.high_watermark
        try:
            records = log.read(
                request.fetch_offset, max_bytes=request.max_bytes, end_offset=end_offset
            )
        except KafkaError as error:
            self._refuse(request, error.code)
            return
        self._emit(
            ReadAnswered(
                request_id=request.request_id,
                records=records,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.log_start_offset,
                leader_epoch=self.leader_epoch,
                leader=self.leader,
            )
        )

    def _refuse(self, request: Read, error: ErrorCode) -> None:
        self._emit(
            ReadAnswered(
                request_id=request.request_id,
                error=error,
                leader_epoch=self.leader_epoch,
                leader=self.leader,
            )
        )
