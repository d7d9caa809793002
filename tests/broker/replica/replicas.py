"""One replica by itself, on a disk in memory, with whatever metadata a test wants."""

from dataclasses import dataclass, field

from broker.replica import Partition, ReplicaSettings
from broker.replica.effects import Effect, FollowerFetchAnswered, ProposeIsr, ReadAnswered
from broker.replica.events import (
    Acks,
    Append,
    BrokerState,
    Event,
    FlushCompleted,
    FollowerFetch,
    IsrAltered,
    MetadataChanged,
    Read,
    RequestId,
)
from kafka_wire.types import LeaderEpoch, Offset
from log.partition_log import PartitionLog
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerEpoch, BrokerId, MetadataOffset, PartitionEpoch, TopicId
from tests.log.batches import batch_of
from tests.log.logs import new_files, open_at

SETTINGS = ReplicaSettings(replica_lag_time_max_ms=1000)
ME: BrokerId = 1


@dataclass
class Replica:
    """Broker 1 of 1, 2 and 3. Broker b is registered with epoch 10 * b."""

    log: PartitionLog = field(default_factory=lambda: open_at(new_files()))
    now_ms: int = 0
    has_lease: bool = True
    lease_checks: list[Offset] = field(default_factory=list)
    """The high watermark at each of them."""
    flushes: bool = True
    epochs: dict[BrokerId, int] = field(default_factory=lambda: {1: 10, 2: 20, 3: 30})
    ineligible: set[BrokerId] = field(default_factory=set)
    requests: int = 0
    partition_epoch: int = 0

    def __post_init__(self) -> None:
        self.partition = Partition(
            broker_id=ME,
            broker_epoch=BrokerEpoch(10),
            log=self.log,
            lease=self._lease,
            settings=SETTINGS,
        )

    def _lease(self) -> bool:
        self.lease_checks.append(self.log.high_watermark)
        return self.has_lease

    def step(self, event: Event) -> list[Effect]:
        """One step, and the flush that it asks for."""
        effects = self.partition.step(event, self.now_ms)
        self.partition.check_invariants()
        return effects + (self.flush() if self.flushes else [])

    def flush(self) -> list[Effect]:
        if self.log.recovery_point == self.log.log_end_offset:
            return []
        self.log.flush()
        effects = self.partition.step(FlushCompleted(), self.now_ms)
        self.partition.check_invariants()
        return effects

    def learn(
        self,
        *,
        leader: BrokerId | None = ME,
        epoch: int = 1,
        isr: tuple[BrokerId, ...] = (1, 2, 3),
        min_isr: int = 2,
        partition_epoch: int | None = None,
        began_at: int = 100,
    ) -> list[Effect]:
        self.partition_epoch = partition_epoch or self.partition_epoch + 1
        record = PartitionRecord(
            topic_id=TopicId(bytes(16)),
            partition=0,
            replicas=(1, 2, 3),
            isr=isr,
            leader=leader,
            leader_epoch=LeaderEpoch(epoch),
            partition_epoch=PartitionEpoch(self.partition_epoch),
            effective_min_isr=min_isr,
            leader_epoch_offset=MetadataOffset(began_at),
        )
        brokers = {
            b: BrokerState(broker_epoch=BrokerEpoch(e), is_eligible=b not in self.ineligible)
            for b, e in self.epochs.items()
        }
        return self.step(MetadataChanged(partition=record, brokers=brokers))

    def request_id(self) -> RequestId:
        self.requests += 1
        return RequestId(self.requests)

    def append(self, acks: Acks = Acks.ALL, *, timeout_ms: int = 500) -> list[Effect]:
        return self.step(
            Append(
                request_id=self.request_id(),
                batch=batch_of([b"value"]),
                acks=acks,
                deadline_ms=self.now_ms + timeout_ms,
            )
        )

    def fetch(
        self,
        replica_id: BrokerId,
        offset: int,
        *,
        last_epoch: int | None = None,
        epoch: int = 1,
        broker_epoch: int | None = None,
        wait_ms: int | None = None,
    ) -> list[Effect]:
        if last_epoch is None and offset > 0:
            last_epoch = self.log.epochs.epoch_at(Offset(offset - 1))
        return self.step(
            FollowerFetch(
                request_id=self.request_id(),
                replica_id=replica_id,
                broker_epoch=BrokerEpoch(broker_epoch or self.epochs[replica_id]),
                leader_epoch=LeaderEpoch(epoch),
                fetch_offset=Offset(offset),
                last_fetched_epoch=None if last_epoch is None else LeaderEpoch(last_epoch),
                max_bytes=100_000,
                deadline_ms=None if wait_ms is None else self.now_ms + wait_ms,
            )
        )

    def read(self, offset: int = 0, *, wait_ms: int | None = None) -> list[Effect]:
        return self.step(
            Read(
                request_id=self.request_id(),
                fetch_offset=Offset(offset),
                max_bytes=100_000,
                deadline_ms=None if wait_ms is None else self.now_ms + wait_ms,
            )
        )

    def altered(self, proposal: ProposeIsr, *, min_isr: int = 2) -> list[Effect]:
        """The controller has committed a proposal."""
        self.partition_epoch = proposal.partition_epoch + 1
        return self.step(
            IsrAltered(
                proposal_id=proposal.proposal_id,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=PartitionEpoch(self.partition_epoch),
                isr=tuple(member.broker_id for member in proposal.new_isr),
                effective_min_isr=min_isr,
            )
        )


def fetch_answer(effects: list[Effect]) -> FollowerFetchAnswered:
    (answer,) = [e for e in effects if isinstance(e, FollowerFetchAnswered)]
    return answer


def read_answer(effects: list[Effect]) -> ReadAnswered:
    (answer,) = [e for e in effects if isinstance(e, ReadAnswered)]
    return answer


def proposal(effects: list[Effect]) -> ProposeIsr:
    (found,) = [e for e in effects if isinstance(e, ProposeIsr)]
    return found


def proposals(effects: list[Effect]) -> list[ProposeIsr]:
    return [e for e in effects if isinstance(e, ProposeIsr)]
