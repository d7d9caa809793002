"""Brokers around the replication core: a disk, a clock, and connections that do what they want.

The controller is the real one; its raft commits at once. What a broker learns, sends and flushes
takes time, gets lost, comes twice and is overtaken.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from broker.replica import BrokerLease, Partition, ReplicaSettings
from broker.replica.effects import (
    Effect,
    FetchFromLeader,
    FollowerFetchAnswered,
    HighWatermarkAdvanced,
    ProduceAnswered,
    ProposeIsr,
    ReadAnswered,
    RequestFlush,
    RoleChanged,
    Truncated,
)
from broker.replica.events import (
    BrokerState,
    Event,
    FetchAnswered,
    FetchFailed,
    FlushCompleted,
    FollowerFetch,
    IsrUnknown,
    MetadataChanged,
    RequestId,
    Tick,
)
from jepsen_style.sim.world import World
from kafka_wire.types import LeaderEpoch, Offset
from log.config import LogConfig
from log.filesystem.memory import MemoryFileSystem
from log.flush import FlushTicket
from log.partition_log import PartitionLog
from quorum.metadata.image import MetadataImage
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerEpoch, BrokerId
from tests.broker.replica.judge import Judge
from tests.log.logs import new_files, open_at

SETTINGS = ReplicaSettings(replica_lag_time_max_ms=1500, replica_fetch_backoff_ms=50)
FETCH_WAIT_MS = 300
FETCH_TIMEOUT_MS = 800
PROPOSAL_TIMEOUT_MS = 700
LARGE = LogConfig(retention_ms=None, index_interval_bytes=200)
TOPIC = "topic"


@dataclass
class Transport:
    """How a broker reaches the rest of the world."""

    to_broker: Callable[[BrokerId, BrokerId, Callable[["SimBroker"], None]], None]
    """From, to, what happens there."""
    current_epoch: Callable[[], LeaderEpoch]
    propose: Callable[["SimBroker", ProposeIsr], None]
    produced: Callable[["SimBroker", ProduceAnswered], None]
    read: Callable[["SimBroker", ReadAnswered], None]


@dataclass
class SimBroker:
    """A machine with one process on it at a time."""

    broker_id: BrokerId
    world: World
    judge: Judge
    transport: Transport
    files: MemoryFileSystem = field(init=False)
    log: PartitionLog = field(init=False)
    partition: Partition | None = None
    broker_epoch: BrokerEpoch | None = None
    lease: BrokerLease = field(default_factory=BrokerLease)
    life: int = 0
    disk: int = 0
    is_up: bool = False
    is_paused: bool = False
    metadata_offset: int = 0
    flush_ms: tuple[int, ...] = (1, 2, 5)
    _queue: list[Callable[[], None]] = field(default_factory=list)
    _answers: dict[RequestId, Callable[[FollowerFetchAnswered], None]] = field(default_factory=dict)
    _requests: int = 0
    _tick_at: int | None = None

    def __post_init__(self) -> None:
        self.files = new_files(self.world.random.randrange(2**32))

    @property
    def who(self) -> tuple[int, int]:
        return (self.broker_id, self.life)

    @property
    def now_ms(self) -> int:
        return int(self.world.now_s * 1000)

    # ------------------------------------------------------------------------------ life

    def start(self) -> None:
        self.life += 1
        self.is_up, self.is_paused = True, False
        self.broker_epoch, self.partition = None, None
        self.lease = BrokerLease()
        self.metadata_offset = 0
        self._queue, self._answers, self._tick_at = [], {}, None
        self.log = open_at(self.files, LARGE)

    def kill(self, *, power: bool) -> None:
        self.is_up = False
        self.partition = None
        self.judge.compared.pop(self.who, None)
        if power:
            self.files.crash()

    def wipe(self) -> None:
        self.kill(power=True)
        self.disk += 1
        self.files = new_files(random.Random(self.disk).randrange(2**32))

    def run(self, action: Callable[[], None]) -> None:
        """Does something in this process: later if it is paused, never if it has died."""
        if self.is_paused:
            self._queue.append(action)
        elif self.is_up:
            action()

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        life = self.life

        def happen() -> None:
            if self.is_up and self.life == life:
                self.run(action)

        self.world.after(delay_ms / 1000, happen)

    def resume(self) -> None:
        self.is_paused = False
        queue, self._queue = self._queue, []
        for action in queue:
            self.run(action)

    # --------------------------------------------------------------------------- metadata

    def learn(self, image: MetadataImage) -> None:
        """A newer image. The first one holds this process's own registration."""
        if self.broker_epoch is None or image.offset < self.broker_epoch:
            return
        if image.offset <= self.metadata_offset:
            return
        self.metadata_offset = image.offset
        partition = partition_of(image)
        if partition is None:
            return
        if self.partition is None:
            self.partition = Partition(
                broker_id=self.broker_id,
                broker_epoch=self.broker_epoch,
                log=self.log,
                lease=lambda: self.lease.holds(self.now_ms),
                settings=SETTINGS,
            )
        self.step(MetadataChanged(partition=partition, brokers=brokers_of(image)))

    # -------------------------------------------------------------------------- the driver

    def step(self, event: Event) -> None:
        partition = self.partition
        if partition is None or not self.is_up:
            return
        effects = partition.step(event, self.now_ms)
        partition.check_invariants()
        for effect in effects:
            self._perform(partition, effect)
        self._schedule_tick(partition)

    def request_id(self) -> RequestId:
        self._requests += 1
        return RequestId(self._requests)

    def _perform(self, partition: Partition, effect: Effect) -> None:
        match effect:
            case RequestFlush():
                self._flush()
            case FetchFromLeader():
                self._fetch(effect)
            case FollowerFetchAnswered():
                self._answers.pop(effect.request_id)(effect)
            case ProposeIsr():
                self.transport.propose(self, effect)
                lost = IsrUnknown(proposal_id=effect.proposal_id)
                self.later(PROPOSAL_TIMEOUT_MS, lambda: self.step(lost))
            case HighWatermarkAdvanced():
                self._high_watermark(partition, effect.high_watermark)
            case ProduceAnswered():
                self.transport.produced(self, effect)
            case ReadAnswered():
                self.transport.read(self, effect)
            case RoleChanged():
                self.world.tell(self.who, "leads" if effect.is_leader else "follows", effect)
                if effect.is_leader:
                    is_current = effect.leader_epoch == self.transport.current_epoch()
                    self.judge.leads(
                        self.who, effect.leader_epoch, self.log if is_current else None
                    )
            case Truncated():
                self.world.tell(self.who, effect)
                self.judge.truncated(self.who, effect.end_offset)

    def _high_watermark(self, partition: Partition, high_watermark: Offset) -> None:
        epoch = None if partition.leader is None else partition.leader.leader_epoch
        self.judge.high_watermark(self.who, self.log, high_watermark, epoch)

    def _schedule_tick(self, partition: Partition) -> None:
        deadline_ms = partition.deadline_ms()
        if deadline_ms is None:
            return
        at = max(deadline_ms, self.now_ms + 1)
        if self._tick_at is None or at < self._tick_at:
            self._tick_at = at
            self.later(at - self.now_ms, self._tick)

    def _tick(self) -> None:
        self._tick_at = None
        self.step(Tick())

    def _flush(self) -> None:
        ticket = self.log.prepare_flush()
        self.later(self.world.random.choice(self.flush_ms), lambda: self._flushed(ticket))

    def _flushed(self, ticket: FlushTicket | None) -> None:
        if ticket is not None:
            ticket.run()
            self.log.complete_flush(ticket)
        self.step(FlushCompleted())

    # ------------------------------------------------------------------------------ fetching

    def _fetch(self, effect: FetchFromLeader) -> None:
        broker_epoch = self.broker_epoch
        assert broker_epoch is not None
        follower, life = self, self.life
        answered: list[bool] = []

        def at_leader(leader: "SimBroker") -> None:
            request_id = leader.request_id()
            leader._answers[request_id] = lambda answer: leader.transport.to_broker(
                leader.broker_id, follower.broker_id, at_follower(read_records(answer), answer)
            )
            request = FollowerFetch(
                request_id=request_id,
                replica_id=follower.broker_id,
                broker_epoch=broker_epoch,
                leader_epoch=effect.leader_epoch,
                fetch_offset=effect.fetch_offset,
                last_fetched_epoch=effect.last_fetched_epoch,
                max_bytes=1500,
                deadline_ms=leader.now_ms + FETCH_WAIT_MS,
            )
            if leader.partition is None:
                leader._answers.pop(request_id)
            else:
                leader.step(request)

        def at_follower(
            records: memoryview | None, answer: FollowerFetchAnswered
        ) -> Callable[["SimBroker"], None]:
            event = FetchAnswered(
                leader_epoch=effect.leader_epoch,
                fetch_id=effect.fetch_id,
                high_watermark=answer.high_watermark,
                log_start_offset=answer.log_start_offset,
                records=records,
                diverging=answer.diverging,
                error=answer.error,
            )

            def arrive(broker: "SimBroker") -> None:
                if broker.life == life:
                    answered.append(True)
                    broker.step(event)

            return arrive

        def give_up() -> None:
            if not answered:
                self.step(FetchFailed(leader_epoch=effect.leader_epoch, fetch_id=effect.fetch_id))

        self.transport.to_broker(self.broker_id, effect.leader, at_leader)
        self.later(FETCH_TIMEOUT_MS, give_up)


def read_records(answer: FollowerFetchAnswered) -> memoryview | None:
    return None if answer.records is None else memoryview(answer.records.read())


def partition_of(image: MetadataImage) -> PartitionRecord | None:
    topic = image.topic(TOPIC)
    return None if topic is None else topic.partitions[0]


def brokers_of(image: MetadataImage) -> Mapping[BrokerId, BrokerState]:
    return {
        broker_id: BrokerState(broker_epoch=broker.epoch, is_eligible=image.is_active(broker_id))
        for broker_id, broker in image.brokers.items()
    }
