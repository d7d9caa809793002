"""A replica of a partition on this broker: leader, follower or neither, as the metadata says.

    (idle) --metadata: another leads--> follower --metadata: we lead--> leader
       ^                                   ^                              |
       |                                   +-----metadata: another leads--+
       +--- StorageFailed, from everywhere and for good

Every leader epoch has its own leader or follower object: neither what followers had, nor who
waited, nor which answers are expected outlives its epoch.
"""

from collections.abc import Mapping
from typing import TypeAlias, assert_never

from broker.replica.effects import (
    Effect,
    FollowerFetchAnswered,
    ProduceAnswered,
    ReadAnswered,
    RequestFlush,
    RoleChanged,
)
from broker.replica.events import (
    Append,
    BrokerState,
    CancelRead,
    Event,
    FetchAnswered,
    FetchFailed,
    FlushCompleted,
    FollowerFetch,
    IsrAltered,
    IsrRefused,
    IsrUnknown,
    MetadataChanged,
    Read,
    ReadLatest,
    StorageFailed,
    Tick,
)
from broker.replica.follower import PartitionFollower
from broker.replica.leader import PartitionLeader
from broker.replica.ports import Lease, ReplicaLog
from broker.replica.settings import ReplicaSettings
from floodmark.invariant import invariant
from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch
from log.epochs import EpochEnd
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerEpoch, BrokerId

Request: TypeAlias = Append | FollowerFetch | Read | ReadLatest


class Partition:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        log: ReplicaLog,
        lease: Lease,
        settings: ReplicaSettings,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.metadata: PartitionRecord | None = None
        self._log = log
        self._lease = lease
        self._settings = settings
        self._role: PartitionLeader | PartitionFollower | None = None
        self._is_offline = False
        self._is_flushing = False
        self._effects: list[Effect] = []

    @property
    def leader(self) -> PartitionLeader | None:
        """The leader's state, if this replica leads."""
        return self._role if isinstance(self._role, PartitionLeader) else None

    @property
    def follower(self) -> PartitionFollower | None:
        return self._role if isinstance(self._role, PartitionFollower) else None

    @property
    def leader_epoch(self) -> LeaderEpoch | None:
        return None if self.metadata is None else self.metadata.leader_epoch

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """What follows from an event."""
        match event:
            case MetadataChanged():
                self._learn(event.partition, event.brokers, now_ms)
            case StorageFailed():
                self._is_offline = True
                self._resign(ErrorCode.KAFKA_STORAGE_ERROR)
                self._role = None
            case Append() | FollowerFetch() | Read() | ReadLatest():
                self._request(event, now_ms)
            case CancelRead() | IsrAltered() | IsrRefused() | IsrUnknown():
                if isinstance(self._role, PartitionLeader):
                    self._role.step(event, now_ms)
            case FetchAnswered() | FetchFailed():
                if isinstance(self._role, PartitionFollower):
                    self._role.step(event, now_ms)
            case FlushCompleted():
                self._is_flushing = False
                if self._role is not None:
                    self._role.step(event, now_ms)
            case Tick():
                if self._role is not None:
                    self._role.step(event, now_ms)
            case _:
                assert_never(event)
        self._flush_if_needed()
        effects, self._effects = self._effects, []
        return effects

    def deadline_ms(self) -> int | None:
        """When the next `Tick` is due, if nothing happens before."""
        return None if self._role is None else self._role.deadline_ms()

    def end_of_epoch(
        self, epoch: LeaderEpoch, *, leader_epoch: LeaderEpoch | None
    ) -> EpochEnd | ErrorCode | None:
        """OffsetForLeaderEpoch, which leaders answer (KIP-320); None for an epoch to come."""
        error = self._why_not(leader_epoch)
        if error is not None:
            return error
        if self.leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch == self.leader.leader_epoch:
            return EpochEnd(epoch, self._log.log_end_offset)
        if epoch > self.leader.leader_epoch:
            return None
        latest = self._log.epochs.latest
        if latest is not None and epoch > latest:
            # Nothing was written since the latest: all of these end where the log does.
            return EpochEnd(latest, self._log.log_end_offset)
        return self._log.end_of_epoch(epoch)

    def check_invariants(self) -> None:
        invariant(
            self._role is None
            or (self.metadata is not None and self._role.leader_epoch == self.leader_epoch),
            "the role is of the current leader epoch",
            leader_epoch=self.leader_epoch,
        )
        if self._role is not None:
            self._role.check_invariants()

    # ------------------------------------------------------------------------------------ role

    def _learn(
        self, partition: PartitionRecord, brokers: Mapping[BrokerId, BrokerState], now_ms: int
    ) -> None:
        known = self.metadata
        if known is not None and partition.partition_epoch < known.partition_epoch:
            return
        self.metadata = partition
        if self._is_offline:
            return
        if (
            self._role is not None
            and known is not None
            and known.leader_epoch == partition.leader_epoch
        ):
            if isinstance(self._role, PartitionLeader):
                self._role.learn(partition, brokers, now_ms)
            return
        # Somebody else's epoch, or a new one of ours: nobody may be answered in it (rule 15).
        self._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._begin_epoch(partition, brokers, now_ms)

    def _begin_epoch(
        self, partition: PartitionRecord, brokers: Mapping[BrokerId, BrokerState], now_ms: int
    ) -> None:
        self._role = None
        leads = self._may_lead(partition)
        self._effects.append(
            RoleChanged(
                leader=partition.leader, leader_epoch=partition.leader_epoch, is_leader=leads
            )
        )
        if leads:
            self._role = PartitionLeader(
                broker_id=self.broker_id,
                partition=partition,
                brokers=brokers,
                log=self._log,
                lease=self._lease,
                settings=self._settings,
                emit=self._effects_append,
                now_ms=now_ms,
            )
        elif partition.leader != self.broker_id:
            self._role = PartitionFollower(
                partition=partition,
                log=self._log,
                settings=self._settings,
                emit=self._effects_append,
            )

    def _effects_append(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _may_lead(self, partition: PartitionRecord) -> bool:
        """Rule 14: an epoch that began before this process was registered is another process's,
        which may have lost since what this one does not have."""
        since = partition.leader_epoch_offset
        return partition.leader == self.broker_id and (since is None or since > self.broker_epoch)

    def _resign(self, error: ErrorCode) -> None:
        if isinstance(self._role, PartitionLeader):
            leader = None if self.metadata is None else self.metadata.leader
            self._role.resign(error, leader)

    # --------------------------------------------------------------------------------- requests

    def _request(self, event: Request, now_ms: int) -> None:
        error = self._why_not(event.leader_epoch)
        role = self._role
        if error is not None:
            self._refuse(event, error)
            return
        match role, event:
            case PartitionLeader(), _:
                role.step(event, now_ms)
            case PartitionFollower(), Read():
                role.step(event, now_ms)
            case _:
                self._refuse(event, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _why_not(self, leader_epoch: LeaderEpoch | None) -> ErrorCode | None:
        """Rule 1: an old epoch is fenced, and by a newer one we know that we are behind."""
        if self._is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self.leader_epoch
        if leader_epoch is None or leader_epoch == known:
            return None
        if known is None or leader_epoch > known:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.FENCED_LEADER_EPOCH

    def _refuse(self, event: Request, error: ErrorCode) -> None:
        leader = None if self.metadata is None else self.metadata.leader
        epoch = self.leader_epoch
        effect: Effect
        match event:
            case Append():
                effect = ProduceAnswered(request_id=event.request_id, error=error)
            case FollowerFetch():
                effect = FollowerFetchAnswered(
                    request_id=event.request_id, error=error, leader_epoch=epoch, leader=leader
                )
            case Read() | ReadLatest():
                effect = ReadAnswered(
                    request_id=event.request_id, error=error, leader_epoch=epoch, leader=leader
                )
            case _:
                assert_never(event)
        self._effects.append(effect)

    def _flush_if_needed(self) -> None:
        """One flush at a time; what comes meanwhile shares the next one (group commit). What
        recovery has found is flushed before it counts (rule 16)."""
        if self._is_flushing or self._is_offline:
            return
        if self._log.durable_end_offset < self._log.log_end_offset:
            self._is_flushing = True
            self._effects.append(RequestFlush())
