"""`floodmark.quorum.v1.QuorumService`: committed metadata, and the state of the quorum."""

# ruff: noqa: N802 - the methods have the names that they have in the interface

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias

import grpc.aio

from kafka_wire.error_codes import ErrorCode
from quorum.active_controller import ActiveController
from quorum.api import quorum_pb2 as pb
from quorum.api import quorum_pb2_grpc
from quorum.errors import QuorumError
from quorum.metadata_feed import FeedItem, MetadataFeed, SnapshotPiece
from quorum.raft.port import RaftEngine, VoterStatus
from quorum.service.handling import abort, answered

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class QuorumService(quorum_pb2_grpc.QuorumServiceServicer):
    """On every voter."""

    def __init__(
        self,
        *,
        engine: RaftEngine,
        controller: ActiveController,
        feed: MetadataFeed,
        now_ms: Callable[[], int],
        wall_clock_ms: Callable[[], int],
        engine_clock_ms: Callable[[], int],
        address_of: Callable[[int], str | None],
    ) -> None:
        """The feed and the controller use the clock `now_ms`, the engine one of its own, and
        answers tell the time of day."""
        self._engine = engine
        self._controller = controller
        self._feed = feed
        self._now_ms = now_ms
        self._wall_clock_ms = wall_clock_ms
        self._engine_clock_ms = engine_clock_ms
        self._address_of = address_of

    async def FetchMetadata(
        self, request: pb.FetchMetadataRequest, context: Context
    ) -> AsyncIterator[pb.FetchMetadataResponse]:
        if request.from_offset < 0:
            await abort(
                context,
                QuorumError(ErrorCode.OFFSET_OUT_OF_RANGE, "from_offset is less than 0"),
            )
        broker_id = request.broker_id if request.HasField("broker_id") else None
        try:
            stream = self._feed.stream(request.from_offset, broker_id=broker_id)
            async with aclosing(stream):
                async for item in stream:
                    yield self._fed(item)
        except QuorumError as error:
            await abort(context, error)

    async def DescribeQuorum(
        self, request: pb.DescribeQuorumRequest, context: Context
    ) -> pb.DescribeQuorumResponse:
        async def call(_: float) -> pb.DescribeQuorumResponse:
            return self._describe()

        return await answered(context, call)

    def _fed(self, item: FeedItem) -> pb.FetchMetadataResponse:
        response = pb.FetchMetadataResponse(high_watermark=self._feed.end_offset)
        if isinstance(item, SnapshotPiece):
            chunk = response.snapshot_chunk
            chunk.last_offset = item.last_offset
            chunk.last_epoch = item.last_epoch
            chunk.index = item.index
            chunk.is_last = item.is_last
            chunk.data = item.data
        else:
            for entry in item:
                response.batches.batches.add(
                    offset=entry.index, epoch=entry.term, records=entry.data
                )
        return response

    def _describe(self) -> pb.DescribeQuorumResponse:
        status = self._engine.status()
        # The status may be a moment old; what the engine has told its observer is not.
        leadership = self._controller.leadership
        leader_id = leadership.leader_id
        high_watermark = max(status.high_watermark, self._feed.end_offset)
        leads = leader_id == status.voter_id
        end = max(status.log_end_index, high_watermark)
        return pb.DescribeQuorumResponse(
            voter_id=status.voter_id,
            leader_id=leader_id,
            leader_epoch=leadership.term,
            high_watermark=high_watermark,
            voters=[self._voter(voter, end if leads else None) for voter in status.voters],
            observers=self._observers(high_watermark),
            leader_address="" if leader_id is None else self._address_of(leader_id) or "",
            log_start_offset=status.log_start_index,
            log_end_offset=end,
            is_controller_active=self._controller.is_active,
        )

    def _voter(
        self, voter: VoterStatus, leader_end: int | None
    ) -> pb.DescribeQuorumResponse.Replica:
        """`leader_end` is None unless we lead: only a leader knows how far others are."""
        now_ms = self._engine_clock_ms()
        skew_ms = self._wall_clock_ms() - now_ms
        fetched_ms, caught_up_ms = voter.last_fetch_ms, voter.last_caught_up_ms
        if leader_end is not None and voter.voter_id == self._controller.leadership.leader_id:
            # A leader is never behind itself.
            fetched_ms = caught_up_ms = now_ms
            voter = replace(voter, log_end_index=leader_end)
        return pb.DescribeQuorumResponse.Replica(
            replica_id=voter.voter_id,
            log_end_offset=voter.log_end_index,
            lag=None if leader_end is None else max(0, leader_end - voter.log_end_index),
            last_fetch_timestamp_ms=_shifted(fetched_ms, skew_ms),
            last_caught_up_timestamp_ms=_shifted(caught_up_ms, skew_ms),
        )

    def _observers(self, high_watermark: int) -> list[pb.DescribeQuorumResponse.Replica]:
        """What heartbeats say is what a broker has applied; what the feed says is what was sent to
        it, and counts only for brokers that have not told us more."""
        skew_ms = self._wall_clock_ms() - self._now_ms()
        found: dict[int, pb.DescribeQuorumResponse.Replica] = {}
        for observer in self._feed.observers():
            if observer.broker_id is not None:
                found[observer.broker_id] = pb.DescribeQuorumResponse.Replica(
                    replica_id=observer.broker_id,
                    log_end_offset=observer.next_offset,
                    lag=max(0, high_watermark - observer.next_offset),
                    last_fetch_timestamp_ms=_shifted(observer.last_fetch_ms, skew_ms),
                    last_caught_up_timestamp_ms=_shifted(observer.last_caught_up_ms, skew_ms),
                )
        for broker_id, contact in self._controller.contacts().items():
            replica = found.setdefault(
                broker_id, pb.DescribeQuorumResponse.Replica(replica_id=broker_id)
            )
            replica.log_end_offset = contact.metadata_offset + 1
            replica.lag = max(0, high_watermark - replica.log_end_offset)
            replica.last_fetch_timestamp_ms = max(
                replica.last_fetch_timestamp_ms, contact.at_ms + skew_ms
            )
        return [found[broker_id] for broker_id in sorted(found)]


def _shifted(time_ms: int | None, skew_ms: int) -> int | None:
    return None if time_ms is None else time_ms + skew_ms
