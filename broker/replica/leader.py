"""The leader of a partition, for one leader epoch.

It appends, counts what its followers have, moves the high watermark, and answers whoever waits for
it. Its transitions, and the rules of DESIGN.md that they keep:

    Append           stamped with the epoch (1); refused while the ISR is below min (4)
    FollowerFetch    credited if of this epoch, of the follower's current registration, and not
                     diverging (9); may make the follower join the ISR (6)
    FlushCompleted   what is flushed counts, nothing else does (2)
    Metadata,        confirm another ISR and min ISR with a newer partition epoch (5, 10, 11)
      IsrAltered
    Tick             proposes to drop followers that lag; ends what has waited for too long

Invariants: the high watermark never goes back; it is at or below what every member of the maximal
ISR has flushed at the moment it moves; it stands still while the confirmed ISR is below min; who
waits for it lies above it.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

from broker.replica.divergence import divergence_of
from broker.replica.effects import Effect, HighWatermarkAdvanced, ProposeIsr
from broker.replica.events import (
    Append,
    BrokerState,
    CancelRead,
    FlushCompleted,
    FollowerFetch,
    IsrAltered,
    IsrRefused,
    IsrUnknown,
    Read,
    ReadLatest,
    Tick,
)
from broker.replica.follower_fetches import FollowerFetches
from broker.replica.isr import IsrState
from broker.replica.leader_reads import LeaderReads
from broker.replica.ports import Lease, ReplicaLog
from broker.replica.produces import Produces
from broker.replica.progress import FollowerProgress
from broker.replica.settings import ReplicaSettings
from floodmark.invariant import invariant
from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch, Offset
from quorum.metadata.commands import IsrMember
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerEpoch, BrokerId


class PartitionLeader:
    """See the module's docstring. A new epoch gets a new object: nothing is carried over."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        partition: PartitionRecord,
        brokers: Mapping[BrokerId, BrokerState],
        log: ReplicaLog,
        lease: Lease,
        settings: ReplicaSettings,
        emit: Callable[[Effect], None],
        now_ms: int,
    ) -> None:
        self.broker_id = broker_id
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self.epoch_start_offset: Offset = log.log_end_offset
        """Everything from here on was written in this epoch."""
        self.isr = IsrState(partition)
        self.reads = LeaderReads(
            log,
            lease,
            emit,
            leader_epoch=self.leader_epoch,
            epoch_start_offset=self.epoch_start_offset,
        )
        self.fetches = FollowerFetches(log, emit, leader_epoch=self.leader_epoch)
        self.produces = Produces(log, emit, leader_epoch=self.leader_epoch)
        self._log = log
        self._settings = settings
        self._emit = emit
        self._brokers = brokers
        self._followers: dict[BrokerId, FollowerProgress] = {}
        self._highest_high_watermark = log.high_watermark
        self._follow_replicas(partition, now_ms)
        self._learn_brokers(brokers)
        self._advance_high_watermark()
        self._review_isr(now_ms)

    # --------------------------------------------------------------------------------- events

    def step(
        self,
        event: Append
        | FollowerFetch
        | Read
        | ReadLatest
        | CancelRead
        | FlushCompleted
        | IsrAltered
        | IsrRefused
        | IsrUnknown
        | Tick,
        now_ms: int,
    ) -> None:
        match event:
            case Append():
                self._append(event, now_ms)
            case FollowerFetch():
                self._follower_fetch(event, now_ms)
            case Read():
                self.reads.read(event)
            case ReadLatest():
                self.reads.read_latest(event)
            case CancelRead():
                self.reads.cancel(event.request_id)
            case FlushCompleted():
                self.produces.flushed(self._log.durable_end_offset)
                self._advance_high_watermark()
                self._review_isr(now_ms)
            case IsrAltered():
                before = self.isr.committed
                if event.leader_epoch == self.leader_epoch and self.isr.altered(event):
                    self._isr_confirmed(before, now_ms)
            case IsrRefused() | IsrUnknown():
                # Rule 11: this alone takes nobody out of the maximal ISR.
                retry_at_ms = now_ms + self._settings.isr_retry_backoff_ms
                self.isr.not_altered(event.proposal_id, retry_at_ms=retry_at_ms)
            case Tick():
                self.produces.expire(now_ms)
                self.reads.expire(now_ms)
                self.fetches.expire(now_ms)
                self._review_isr(now_ms)
            case _:
                assert_never(event)

    def learn(
        self, partition: PartitionRecord, brokers: Mapping[BrokerId, BrokerState], now_ms: int
    ) -> None:
        """Metadata of this leader epoch; an AlterPartition answer may have overtaken it."""
        before = self.isr.committed
        is_news = self.isr.learned(partition)
        if partition.partition_epoch >= self.isr.partition_epoch:
            self._follow_replicas(partition, now_ms)
        may_advance = self._learn_brokers(brokers)
        if is_news:
            self._isr_confirmed(before, now_ms)
        elif may_advance:
            self._advance_high_watermark()
        self._review_isr(now_ms)

    def resign(self, error: ErrorCode, leader: BrokerId | None) -> None:
        """The epoch is over: whoever waits is told so, and asks elsewhere."""
        self.produces.resign(error)
        self.reads.resign(error, leader)
        self.fetches.resign(error, leader)

    def deadline_ms(self) -> int | None:
        deadlines = (
            self.produces.deadline_ms(),
            self.reads.deadline_ms(),
            self.fetches.deadline_ms(),
            self._isr_deadline_ms(),
        )
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # ------------------------------------------------------------------------------ appending

    def _append(self, event: Append, now_ms: int) -> None:
        if self.produces.append(event, is_below_min=self.isr.is_below_min, now_ms=now_ms):
            self._advance_high_watermark()
            self.fetches.news()

    # ------------------------------------------------------------------------------ followers

    def _follower_fetch(self, event: FollowerFetch, now_ms: int) -> None:
        """Rule 9. That the fetch is of this leader epoch, the partition has checked."""
        follower = self._followers.get(event.replica_id)
        if follower is None or follower.is_old_incarnation(event.broker_epoch):
            # As in Kafka: the asker looks at its metadata before it tries again.
            self.fetches.refuse(event.request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if event.fetch_offset < self._log.log_start_offset:
            self.fetches.refuse(event.request_id, ErrorCode.OFFSET_OUT_OF_RANGE)
            return
        diverging = divergence_of(self._log, event)
        if diverging is not None:
            self.fetches.diverges(event, diverging)
            return
        follower.registered(event.broker_epoch)
        follower.fetched(
            event.fetch_offset, leader_end_offset=self._log.log_end_offset, now_ms=now_ms
        )
        self._advance_high_watermark()
        self._review_isr(now_ms)
        self.fetches.fetch(event, follower, now_ms)

    def _follow_replicas(self, partition: PartitionRecord, now_ms: int) -> None:
        """Keeps an account of every other replica, in the order of the replicas."""
        known = self._followers
        self._followers = {
            broker_id: known.get(broker_id) or FollowerProgress(broker_id, now_ms=now_ms)
            for broker_id in (*partition.replicas, *sorted(partition.isr))
            if broker_id != self.broker_id
        }

    def _learn_brokers(self, brokers: Mapping[BrokerId, BrokerState]) -> bool:
        """Returns whether the maximal ISR may have become smaller."""
        self._brokers = brokers
        for broker_id, follower in self._followers.items():
            if broker_id in brokers:
                follower.registered(brokers[broker_id].broker_epoch)
        return self.isr.learned_brokers(brokers)

    # -------------------------------------------------------------------------- high watermark

    def _advance_high_watermark(self) -> None:
        """Rule 2, and whoever has waited for it."""
        end_offset = self._committed_end_offset()
        # It never goes back: a member that has just joined may be behind what was committed
        # before it did, or may not have fetched in this epoch yet.
        if end_offset is None or end_offset <= self._log.high_watermark:
            return
        self._log.set_high_watermark(end_offset)
        self._highest_high_watermark = end_offset
        self._emit(HighWatermarkAdvanced(high_watermark=end_offset))
        self.produces.committed(end_offset)
        self.reads.high_watermark_advanced()
        self.fetches.news()

    def _committed_end_offset(self) -> Offset | None:
        """What every member of the maximal ISR has flushed; None if nobody knows."""
        if self.isr.is_below_min:
            return None
        end_offset = self._log.durable_end_offset
        for broker_id in self.isr.maximal:
            if broker_id == self.broker_id:
                continue
            follower = self._followers.get(broker_id)
            if follower is None or follower.log_end_offset is None:
                return None
            end_offset = min(end_offset, follower.log_end_offset)
        return end_offset

    # ------------------------------------------------------------------------------------- ISR

    def _isr_confirmed(self, before: tuple[BrokerId, ...], now_ms: int) -> None:
        """A newer partition epoch."""
        for broker_id, follower in self._followers.items():
            if broker_id in self.isr.committed and broker_id not in before:
                # It was let in at the high watermark, which may be far from the log's end: without
                # a full term of grace it would be out again at once.
                follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        if self.isr.is_below_min:
            # The high watermark stands still from here on (rule 4).
            self.produces.not_enough_replicas()
        self._advance_high_watermark()
        self._review_isr(now_ms)

    def _review_isr(self, now_ms: int) -> None:
        """Proposes another ISR where there is reason to (rules 5, 6 and 11)."""
        if not self.isr.may_propose(now_ms):
            return
        self.isr.retry_at_ms = None
        joining = {
            follower.broker_id: follower.broker_epoch
            for follower in self._followers.values()
            if follower.broker_epoch is not None and self._may_join(follower)
        }
        lagging = () if joining else self._lagging(now_ms)
        if not joining and not lagging and not self.isr.is_recovering:
            return
        members = [b for b in self.isr.committed if b not in lagging]
        epochs = [self._epoch_of_member(broker_id) for broker_id in members]
        if None in epochs:
            # The metadata that we have does not know a member; newer one will.
            self.isr.retry_at_ms = now_ms + self._settings.isr_retry_backoff_ms
            return
        stay = {b: epoch for b, epoch in zip(members, epochs, strict=True) if epoch is not None}
        self._emit(
            ProposeIsr(
                proposal_id=self.isr.propose(joining),
                leader_epoch=self.leader_epoch,
                partition_epoch=self.isr.partition_epoch,
                new_isr=tuple(
                    IsrMember(broker_id=broker_id, broker_epoch=broker_epoch)
                    for broker_id, broker_epoch in (*stay.items(), *joining.items())
                ),
            )
        )

    def _may_join(self, follower: FollowerProgress) -> bool:
        """Rule 6. A leader that was elected uncleanly confirms itself first (KIP-704)."""
        state = self._brokers.get(follower.broker_id)
        return (
            follower.broker_id not in self.isr.committed
            and not self.isr.is_recovering
            and follower.log_end_offset is not None
            and self._has_reached(follower.log_end_offset)
            # The controller has the last word; asking for what it refuses holds the high
            # watermark back for nothing (KIP-841).
            and state is not None
            and state.is_eligible
            and state.broker_epoch == follower.broker_epoch
        )

    def _has_reached(self, log_end_offset: Offset) -> bool:
        """Both: below the epoch's start lies what earlier leaders acknowledged (KAFKA-7128)."""
        return log_end_offset >= max(self._log.high_watermark, self.epoch_start_offset)

    def _lagging(self, now_ms: int) -> tuple[BrokerId, ...]:
        return tuple(
            broker_id
            for broker_id in self.isr.committed
            if broker_id != self.broker_id
            and self._followers[broker_id].is_lagging(
                leader_end_offset=self._log.log_end_offset,
                lag_time_max_ms=self._settings.replica_lag_time_max_ms,
                now_ms=now_ms,
            )
        )

    def _epoch_of_member(self, broker_id: BrokerId) -> BrokerEpoch | None:
        """Which registration of a member we mean (KIP-903).

        It has not changed as long as the partition epoch has not: a broker that registers leaves
        the ISR in the same batch.
        """
        state = self._brokers.get(broker_id)
        return None if state is None else state.broker_epoch

    def _isr_deadline_ms(self) -> int | None:
        if self.isr.in_flight is not None:
            return None
        deadlines = [
            follower.caught_up_ms + self._settings.replica_lag_time_max_ms + 1
            for broker_id in self.isr.committed
            if broker_id != self.broker_id
            and (follower := self._followers[broker_id]).log_end_offset != self._log.log_end_offset
        ]
        if self.isr.retry_at_ms is not None:
            # What was refused is looked at again; what lags is part of that.
            return self.isr.retry_at_ms
        return min(deadlines, default=None)

    # ------------------------------------------------------------------------------ invariants

    def check_invariants(self) -> None:
        log, isr = self._log, self.isr
        facts = {"broker_id": self.broker_id, "leader_epoch": self.leader_epoch}
        invariant(
            log.high_watermark >= self._highest_high_watermark,
            "a leader's high watermark never goes back",
            high_watermark=log.high_watermark,
            highest=self._highest_high_watermark,
            **facts,
        )
        invariant(
            log.log_start_offset <= log.high_watermark <= log.log_end_offset,
            "the high watermark lies within the log",
            high_watermark=log.high_watermark,
            **facts,
        )
        invariant(
            self.broker_id in isr.committed and set(isr.committed) <= set(isr.maximal),
            "the maximal ISR holds the confirmed one, and that the leader",
            committed=isr.committed,
            maximal=isr.maximal,
            **facts,
        )
        self.produces.check_invariants(log.high_watermark, is_below_min=isr.is_below_min)
