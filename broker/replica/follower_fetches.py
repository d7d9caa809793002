"""Followers' fetches at a leader: what they are told, and for how long they wait for it.

A follower has one fetch under way. It is answered when there are records, or when the high
watermark has moved since it was last told: otherwise, on a partition with little load, it would
learn of a committed record only with the next one.
"""

from collections.abc import Callable

from broker.replica.effects import Effect, FollowerFetchAnswered
from broker.replica.events import DivergingEpoch, FollowerFetch, RequestId
from broker.replica.ports import ReplicaLog
from broker.replica.progress import FollowerProgress
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import LeaderEpoch
from quorum.metadata.types import BrokerId


class FollowerFetches:
    """The fetches of one leader epoch."""

    def __init__(
        self, log: ReplicaLog, emit: Callable[[Effect], None], *, leader_epoch: LeaderEpoch
    ) -> None:
        self._log = log
        self._emit = emit
        self._leader_epoch = leader_epoch
        self._waiting: dict[BrokerId, tuple[FollowerFetch, FollowerProgress]] = {}

    def fetch(self, request: FollowerFetch, follower: FollowerProgress, now_ms: int) -> None:
        """Answers a fetch that does not diverge, or lets it wait."""
        before = self._waiting.pop(request.replica_id, None)
        if before is not None:
            # The follower has given it up; its connection wants an answer all the same.
            self._answer(*before)
        has_news = (
            request.fetch_offset < self._log.log_end_offset
            or follower.high_watermark_sent != self._log.high_watermark
        )
        if has_news or request.deadline_ms is None or request.deadline_ms <= now_ms:
            self._answer(request, follower)
        else:
            self._waiting[request.replica_id] = (request, follower)

    def diverges(self, request: FollowerFetch, diverging: DivergingEpoch) -> None:
        """The follower has to cut its log first, so it is not told the high watermark (rule 7)."""
        self._emit(
            FollowerFetchAnswered(
                request_id=request.request_id,
                diverging=diverging,
                log_start_offset=self._log.log_start_offset,
                leader_epoch=self._leader_epoch,
            )
        )

    def refuse(
        self, request_id: RequestId, error: ErrorCode, leader: BrokerId | None = None
    ) -> None:
        self._emit(
            FollowerFetchAnswered(
                request_id=request_id,
                error=error,
                log_start_offset=self._log.log_start_offset,
                leader_epoch=self._leader_epoch,
                leader=leader,
            )
        )

    def news(self) -> None:
        """There are records, or a higher high watermark: every follower is interested."""
        waiting, self._waiting = self._waiting, {}
        for request, follower in waiting.values():
            self._answer(request, follower)

    def expire(self, now_ms: int) -> None:
        for replica_id, (request, follower) in list(self._waiting.items()):
            if request.deadline_ms is None or request.deadline_ms <= now_ms:
                del self._waiting[replica_id]
                self._answer(request, follower)

    def resign(self, error: ErrorCode, leader: BrokerId | None) -> None:
        waiting, self._waiting = self._waiting, {}
        for request, _ in waiting.values():
            self.refuse(request.request_id, error, leader)

    def deadline_ms(self) -> int | None:
        deadlines = (request.deadline_ms for request, _ in self._waiting.values())
        return min((d for d in deadlines if d is not None), default=None)

    def _answer(self, request: FollowerFetch, follower: FollowerProgress) -> None:
        log = self._log
        try:
            records = log.read(
                request.fetch_offset, max_bytes=request.max_bytes, end_offset=log.log_end_offset
            )
        except KafkaError as error:
            self.refuse(request.request_id, error.code)
            return
        follower.high_watermark_sent = log.high_watermark
        self._emit(
            FollowerFetchAnswered(
                request_id=request.request_id,
                records=records,
                high_watermark=log.high_watermark,
                log_start_offset=log.log_start_offset,
                leader_epoch=self._leader_epoch,
            )
        )
