"""A controller with a raft that commits at once, and brokers that do what they are told."""

from dataclasses import dataclass, field

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    AlteredPartition,
    AlterPartition,
    Answer,
    BrokerRegistered,
    Command,
    ConfigChange,
    ConfigsAltered,
    CreatedTopic,
    CreateTopics,
    Endpoint,
    Heartbeat,
    HeartbeatAnswer,
    IncrementalAlterConfigs,
    IsrChange,
    IsrMember,
    NewTopic,
    PartitionsAltered,
    Refused,
    RegisterBroker,
    ResourceChange,
    TopicsCreated,
)
from quorum.metadata.controller import Controller
from quorum.metadata.image import MetadataImage
from quorum.metadata.records import PartitionRecord
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.speculation import ProposedBatch
from quorum.metadata.types import (
    CLUSTER_DEFAULT,
    BrokerEpoch,
    BrokerId,
    ConfigOperation,
    ConfigResource,
    DirectoryId,
    MetadataOffset,
    ResourceType,
    TopicId,
)

CLUSTER_ID = "test-cluster"
SESSION_MS = 3000


def identity(*numbers: int) -> bytes:
    """16 bytes that differ for different numbers."""
    return bytes([1, *numbers]).ljust(16, b"\xff")


def directory(broker_id: BrokerId, generation: int = 0) -> DirectoryId:
    return DirectoryId(identity(7, broker_id, generation))


def registration(
    broker_id: BrokerId,
    *,
    incarnation: int = 0,
    rack: str | None = None,
    directories: tuple[DirectoryId, ...] | None = None,
    previous_broker_epoch: BrokerEpoch | None = None,
    cluster_id: str = CLUSTER_ID,
) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=identity(9, broker_id, incarnation),
        endpoints=(Endpoint(name="PLAINTEXT", host="localhost", port=9092),),
        directories=(directory(broker_id),) if directories is None else directories,
        rack=rack,
        previous_broker_epoch=previous_broker_epoch,
    )


@dataclass
class Cluster:
    """Every change is committed before the next command."""

    settings: ControllerSettings = field(
        default_factory=lambda: ControllerSettings(cluster_id=CLUSTER_ID)
    )
    now_ms: int = 1_000_000
    entries: list[tuple[MetadataOffset, int, bytes]] = field(default_factory=list)
    epochs: dict[BrokerId, BrokerEpoch] = field(default_factory=dict)
    incarnations: dict[BrokerId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.controller = Controller(self.settings)
        self.term = 0
        self.fail_over()

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def fail_over(self) -> None:
        """A new active controller, in a new term."""
        self.term += 1
        self.controller.deactivate()
        self._commit_entry(b"")
        self.controller.activate(self.now_ms, epoch=self.term)

    def submit(self, command: Command) -> Answer | Refused:
        decision = self.controller.submit(command, self.now_ms)
        self._commit(decision.proposals)
        return decision.answer

    def refused(self, command: Command) -> ErrorCode:
        """Submits a command that must be refused as a whole, and change nothing."""
        before = self.image
        answer = self.submit(command)
        assert isinstance(answer, Refused), answer
        assert answer.message
        assert self.image is before
        assert self.controller.speculative_image is before
        return answer.code

    def periodic(self) -> None:
        self._commit(self.controller.periodic(self.now_ms))

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    # ------------------------------------------------------------------------- brokers

    def register(self, command: RegisterBroker) -> BrokerEpoch:
        answer = self.submit(command)
        assert isinstance(answer, BrokerRegistered), answer
        self.epochs[command.broker_id] = answer.broker_epoch
        return answer.broker_epoch

    def start(self, *broker_ids: BrokerId, racks: dict[BrokerId, str] | None = None) -> None:
        """Registers brokers and unfences them."""
        for broker_id in broker_ids:
            incarnation = self.incarnations.get(broker_id, 0) + 1
            self.incarnations[broker_id] = incarnation
            rack = (racks or {}).get(broker_id)
            self.register(registration(broker_id, incarnation=incarnation, rack=rack))
        for broker_id in broker_ids:
            assert not self.beat(broker_id).is_fenced

    def heartbeat(
        self,
        broker_id: BrokerId,
        *,
        offset: int | None = None,
        want_fence: bool = False,
        want_shut_down: bool = False,
    ) -> Heartbeat:
        return Heartbeat(
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id],
            metadata_offset=self.image.offset if offset is None else MetadataOffset(offset),
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )

    def beat(self, broker_id: BrokerId, offset: int | None = None) -> HeartbeatAnswer:
        answer = self.submit(self.heartbeat(broker_id, offset=offset))
        assert isinstance(answer, HeartbeatAnswer), answer
        return answer

    def shut_down_step(self, broker_id: BrokerId) -> HeartbeatAnswer:
        answer = self.submit(self.heartbeat(broker_id, want_shut_down=True))
        assert isinstance(answer, HeartbeatAnswer), answer
        return answer

    def lose(self, *broker_ids: BrokerId) -> None:
        """These fall silent until they are fenced; all others go on."""
        self.advance(SESSION_MS)
        for broker_id, broker in sorted(self.image.brokers.items()):
            if broker_id not in broker_ids and not broker.fenced:
                self.beat(broker_id)
        self.advance(1)
        self.periodic()
        for broker_id in broker_ids:
            assert self.image.brokers[broker_id].fenced

    # -------------------------------------------------------------------------- topics

    def create(
        self,
        name: str,
        *assignments: tuple[BrokerId, ...],
        configs: tuple[tuple[str, str], ...] = (),
    ) -> TopicId:
        topic_id = TopicId(identity(5, *name.encode()[:12]))
        topic = NewTopic(name=name, topic_id=topic_id, assignments=assignments, configs=configs)
        created = self.create_topic(topic)
        assert created.error is None, created
        return topic_id

    def create_topic(self, topic: NewTopic, *, seed: int = 1) -> CreatedTopic:
        answer = self.submit(CreateTopics(topics=(topic,), seed=seed))
        assert isinstance(answer, TopicsCreated), answer
        return answer.topics[0]

    def partition(self, name: str, number: int = 0) -> PartitionRecord:
        topic = self.image.topic(name)
        assert topic is not None
        return topic.partitions[number]

    def isr_change(self, name: str, isr: tuple[BrokerId, ...], number: int = 0) -> IsrChange:
        partition = self.partition(name, number)
        return IsrChange(
            topic_id=partition.topic_id,
            partition=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=tuple(IsrMember(broker_id=b, broker_epoch=self.epochs[b]) for b in isr),
        )

    def alter(self, change: IsrChange, *, by: BrokerId | None = None) -> AlteredPartition:
        partition = self.image.topics[change.topic_id].partitions[change.partition]
        leader = partition.leader if by is None else by
        assert leader is not None
        answer = self.submit(
            AlterPartition(broker_id=leader, broker_epoch=self.epochs[leader], changes=(change,))
        )
        assert isinstance(answer, PartitionsAltered), answer
        return answer.partitions[0]

    def set_isr(self, name: str, *isr: BrokerId) -> AlteredPartition:
        altered = self.alter(self.isr_change(name, isr))
        assert altered.error is None, altered
        return altered

    def configure(self, key: str, value: str | None, *, topic: str | None = None) -> Refused | None:
        resource = CLUSTER_DEFAULT if topic is None else ConfigResource(ResourceType.TOPIC, topic)
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        change = ConfigChange(key=key, operation=operation, value=value)
        answer = self.submit(
            IncrementalAlterConfigs(
                resources=(ResourceChange(resource=resource, changes=(change,)),)
            )
        )
        assert isinstance(answer, ConfigsAltered), answer
        return answer.resources[0].error

    # ----------------------------------------------------------------------- internals

    def _commit(self, proposals: tuple[ProposedBatch, ...]) -> None:
        for batch in proposals:
            assert batch.offset == self.image.offset + 1
            self._commit_entry(batch.data)

    def _commit_entry(self, data: bytes) -> None:
        offset = MetadataOffset(self.image.offset + 1)
        applied = self.controller.apply(data, offset=offset, epoch=self.term)
        assert applied.accepted
        assert applied.speculation_kept
        self.entries.append((offset, self.term, data))


def code_of(error: Refused | None) -> ErrorCode | None:
    return None if error is None else error.code
