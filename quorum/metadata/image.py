"""The state of the cluster at one offset of the metadata log, and how records change it.

An image is immutable and shares what did not change with the image before it, so that a thread
may read one while the next is made, and a speculative image costs no more than its changes.
Replay is the only way to a new image, on voters and on brokers alike. It is told offsets and gives
them to what is numbered by them: a broker's epoch, the place where a leader epoch began.

What must hold before a record may change anything is checked here as an invariant: a record that
does not fit the image was committed by mistake, and whoever goes on would hide it.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar, assert_never

import msgspec
from immutables import Map

from floodmark.invariant import invariant
from kafka_wire.types import LeaderEpoch, ProducerId
from quorum.metadata.partition_index import PartitionIndex, PartitionIndexBuilder
from quorum.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    RequestAnsweredRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_batch,
    next_chain,
)
from quorum.metadata.request_log import RequestLog
from quorum.metadata.types import (
    BrokerEpoch,
    BrokerId,
    ConfigResource,
    MetadataOffset,
    PartitionEpoch,
    PartitionKey,
    ResourceType,
    TopicId,
)

METADATA_VERSION: Final = "metadata.version"
FIRST_METADATA_VERSION: Final = 1
"""The level at which a cluster starts that has finalized none."""

NO_OFFSET: Final = MetadataOffset(0)
FIRST_PRODUCER_ID: Final = ProducerId(0)
NO_CONFIGS: Final[Map[str, str]] = Map()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    topic_id: TopicId
    name: str
    partitions: Map[int, PartitionRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """Everything that the records up to `offset` say."""

    offset: MetadataOffset = NO_OFFSET
    """The last entry that is in it; entries count from 1."""
    epoch: int = 0
    """The raft term of that entry."""
    chain: int = 0
    """The checksum over all batches that took effect."""
    brokers: Map[BrokerId, RegisterBrokerRecord] = field(default_factory=Map)
    topics: Map[TopicId, TopicImage] = field(default_factory=Map)
    topic_ids: Map[str, TopicId] = field(default_factory=Map)
    normalized_names: Map[str, str] = field(default_factory=Map)
    """Topic names with `.` read as `_`, since metrics cannot tell the two apart."""
    index: PartitionIndex = field(default_factory=PartitionIndex)
    configs: Map[ConfigResource, Map[str, str]] = field(default_factory=Map)
    features: Map[str, int] = field(default_factory=Map)
    next_producer_id: ProducerId = FIRST_PRODUCER_ID
    requests: RequestLog = field(default_factory=RequestLog)

    # ------------------------------------------------------------------------- lookups

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, FIRST_METADATA_VERSION)

    def topic(self, name: str) -> TopicImage | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics.get(topic_id)

    def partition(self, key: PartitionKey) -> PartitionRecord | None:
        topic = self.topics.get(key.topic_id)
        return None if topic is None else topic.partitions.get(key.partition)

    def partitions(self, keys: Iterable[PartitionKey]) -> list[PartitionRecord]:
        """The partitions with these keys, which the image is known to hold."""
        return [self.topics[key.topic_id].partitions[key.partition] for key in keys]

    def is_active(self, broker_id: BrokerId) -> bool:
        """May lead and join ISRs: registered, not fenced, not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def config(self, resource: ConfigResource) -> Map[str, str]:
        return self.configs.get(resource, NO_CONFIGS)

    # -------------------------------------------------------------------------- replay

    def replay(
        self, records: Iterable[Record], *, offset: MetadataOffset, epoch: int
    ) -> "MetadataImage":
        """The image after a batch that took effect at `offset`, in raft's term `epoch`."""
        invariant(offset > self.offset, "offsets only grow", offset=offset, image=self.offset)
        invariant(epoch >= self.epoch, "terms only grow", epoch=epoch, image=self.epoch)
        builder = ImageBuilder(self, offset=offset)
        for record in records:
            builder.replay(record)
        return builder.finish(epoch=epoch)

    def chained(self, data: bytes) -> "MetadataImage":
        """The same image with its checksum moved on by the bytes of the batch that made it."""
        return dataclasses.replace(self, chain=next_chain(self.chain, data))


EMPTY_IMAGE: Final = MetadataImage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """An image after a raft entry."""

    image: MetadataImage
    accepted: bool
    """False: the entry was decided on another state than this one, and changed nothing."""


def apply_batch(
    image: MetadataImage, data: bytes, *, offset: MetadataOffset, epoch: int
) -> Applied:
    """Takes a committed raft entry, as every voter and every broker does.

    An entry that raft made for itself is empty. A batch whose position is not the image's was
    proposed after another that failed: it counts nowhere.
    """
    if not data:
        return Applied(image=image.replay((), offset=offset, epoch=epoch), accepted=True)
    batch = decode_batch(data)
    if batch.offset != offset or batch.chain != image.chain:
        return Applied(image=image.replay((), offset=offset, epoch=epoch), accepted=False)
    after = image.replay(batch.records, offset=offset, epoch=epoch).chained(data)
    return Applied(image=after, accepted=True)


class ImageBuilder:
    """Collects the changes of a batch, or of a whole snapshot."""

    def __init__(self, base: MetadataImage, *, offset: MetadataOffset) -> None:
        self._base = base
        self._offset = offset
        self._brokers = base.brokers
        # Mutations: change by change, a map would copy the path to each.
        self._topics = base.topics.mutate()
        self._topic_ids = base.topic_ids.mutate()
        self._normalized_names = base.normalized_names.mutate()
        self._touched: dict[TopicId, tuple[TopicImage, dict[int, PartitionRecord]]] = {}
        self._index: PartitionIndexBuilder | None = None
        self._configs = base.configs
        self._features = base.features
        self._next_producer_id = base.next_producer_id
        self._requests = base.requests
        self._interned: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = {}

    def replay(self, record: Record) -> None:
        match record:
            case PartitionRecord():
                self._add_partition(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case TopicRecord():
                self._add_topic(record)
            case RemoveTopicRecord():
                self._remove_topic(record)
            case RegisterBrokerRecord():
                self._register_broker(record)
            case UnregisterBrokerRecord():
                self._unregister_broker(record)
            case BrokerRegistrationChangeRecord():
                self._change_broker(record)
            case ConfigRecord():
                self._config(record)
            case ProducerIdsRecord():
                self._producer_ids(record)
            case FeatureLevelRecord():
                self._feature_level(record)
            case RequestAnsweredRecord():
                self._requests = self._requests.add(record)
            case NoOpRecord():
                pass
            case _:
                assert_never(record)

    def finish(self, *, epoch: int) -> MetadataImage:
        for topic_id, (topic, changed) in self._touched.items():
            self._topics[topic_id] = TopicImage(
                topic_id=topic_id, name=topic.name, partitions=topic.partitions.update(changed)
            )
        return MetadataImage(
            offset=self._offset,
            epoch=epoch,
            chain=self._base.chain,
            brokers=self._brokers,
            topics=self._topics.finish(),
            topic_ids=self._topic_ids.finish(),
            normalized_names=self._normalized_names.finish(),
            index=self._base.index if self._index is None else self._index.finish(),
            configs=self._configs,
            features=self._features,
            next_producer_id=self._next_producer_id,
            requests=self._requests,
        )

    # ------------------------------------------------------------------------- brokers

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        epoch, since = record.broker_epoch, record.fencing_offset
        self._put(
            msgspec.structs.replace(
                record,
                broker_epoch=BrokerEpoch(self._offset) if epoch is None else epoch,
                fencing_offset=self._offset if since is None else since,
            )
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._registration(record.broker_id, record.broker_epoch)
        self._brokers = self._brokers.delete(record.broker_id)

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._registration(record.broker_id, record.broker_epoch)
        fenced = broker.fenced if record.fenced is None else record.fenced
        shutdown = record.in_controlled_shutdown
        withdraws = bool(record.fenced) or bool(shutdown)
        self._put(
            msgspec.structs.replace(
                broker,
                fenced=fenced,
                in_controlled_shutdown=_or(shutdown, broker.in_controlled_shutdown),
                fencing_offset=self._offset if withdraws else broker.fencing_offset,
            )
        )

    def _put(self, broker: RegisterBrokerRecord) -> None:
        self._brokers = self._brokers.set(broker.broker_id, broker)

    def _registration(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> RegisterBrokerRecord:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            invariant(False, "no such registration", broker=broker_id, epoch=broker_epoch)
            raise KeyError(broker_id)
        return broker

    def _withdrawn(self, broker_id: BrokerId) -> None:
        """A broker lost a leadership or its place in an ISR. If it is on its way out it has to
        learn of that before it may come back."""
        broker = self._brokers.get(broker_id)
        if broker is None or broker.is_active:
            return
        if broker.fencing_offset != self._offset:
            self._put(msgspec.structs.replace(broker, fencing_offset=self._offset))

    # -------------------------------------------------------------------------- topics

    def _add_topic(self, record: TopicRecord) -> None:
        invariant(record.name not in self._topic_ids, "the topic exists", name=record.name)
        invariant(record.topic_id not in self._topics, "the topic id exists", id=record.topic_id)
        topic = TopicImage(topic_id=record.topic_id, name=record.name, partitions=Map())
        self._topics[record.topic_id] = topic
        self._topic_ids[record.name] = record.topic_id
        self._normalized_names[normalized_name(record.name)] = record.name

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic, changed = self._touch(record.topic_id)
        for partition in sorted(set(topic.partitions) | set(changed)):
            key = PartitionKey(record.topic_id, partition)
            self._changed(key, self._partition(key), None)
        del self._touched[record.topic_id]
        del self._topics[record.topic_id]
        del self._topic_ids[topic.name]
        del self._normalized_names[normalized_name(topic.name)]
        self._put_configs(ConfigResource(ResourceType.TOPIC, topic.name), NO_CONFIGS)

    def _add_partition(self, record: PartitionRecord) -> None:
        topic, changed = self._touch(record.topic_id)
        key = PartitionKey(topic.topic_id, record.partition)
        invariant(self._partition(key) is None, "the partition exists", key=key)
        since = record.leader_epoch_offset
        replicas = self._shared(record.replicas)
        partition = msgspec.structs.replace(
            record,
            topic_id=topic.topic_id,
            replicas=replicas,
            isr=self._shared(record.isr),
            leader_epoch_offset=self._offset if since is None else since,
        )
        changed[record.partition] = partition
        self._changed(key, None, partition)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic, changed = self._touch(record.topic_id)
        key = PartitionKey(topic.topic_id, record.partition)
        old = self._partition(key)
        if old is None:
            invariant(False, "no such partition", key=key)
            return
        new = _changed_partition(old, record, self._offset)
        changed[record.partition] = new
        self._changed(key, old, new)
        if old.leader is not None and old.leader != new.leader:
            self._withdrawn(old.leader)
        for broker_id in old.isr:
            if broker_id not in new.isr:
                self._withdrawn(broker_id)

    def _touch(self, topic_id: TopicId) -> tuple[TopicImage, dict[int, PartitionRecord]]:
        touched = self._touched.get(topic_id)
        if touched is None:
            invariant(topic_id in self._topics, "no such topic", topic_id=topic_id)
            touched = self._touched[topic_id] = (self._topics[topic_id], {})
        return touched

    def _partition(self, key: PartitionKey) -> PartitionRecord | None:
        topic, changed = self._touch(key.topic_id)
        found = changed.get(key.partition)
        return topic.partitions.get(key.partition) if found is None else found

    def _changed(
        self, key: PartitionKey, old: PartitionRecord | None, new: PartitionRecord | None
    ) -> None:
        if self._index is None:
            self._index = PartitionIndexBuilder(self._base.index)
        self._index.change(key, old, new)

    def _shared(self, brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        """One object for equal tuples: a cluster has few of them and many partitions."""
        return self._interned.setdefault(brokers, brokers)

    # ---------------------------------------------------------------------- all others

    def _config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = self._configs.get(resource, NO_CONFIGS)
        if record.value is not None:
            values = values.set(record.key, record.value)
        elif record.key in values:
            values = values.delete(record.key)
        self._put_configs(resource, values)

    def _put_configs(self, resource: ConfigResource, values: Map[str, str]) -> None:
        if values:
            self._configs = self._configs.set(resource, values)
        elif resource in self._configs:
            self._configs = self._configs.delete(resource)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        invariant(
            record.next_producer_id >= self._next_producer_id,
            "producer ids only grow",
            next=record.next_producer_id,
        )
        self._next_producer_id = record.next_producer_id

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.level != 0:
            self._features = self._features.set(record.name, record.level)
        elif record.name in self._features:
            self._features = self._features.delete(record.name)


def _changed_partition(
    old: PartitionRecord, record: PartitionChangeRecord, offset: MetadataOffset
) -> PartitionRecord:
    invariant(
        record.partition_epoch == old.partition_epoch + 1,
        "the partition epoch grows by one with every change",
        partition=old.partition,
        old=old.partition_epoch,
        new=record.partition_epoch,
    )
    leader_epoch = old.leader_epoch if record.leader_epoch is None else record.leader_epoch
    invariant(leader_epoch >= old.leader_epoch, "leader epochs only grow", new=leader_epoch)
    return PartitionRecord(
        version=old.version,
        topic_id=old.topic_id,
        partition=old.partition,
        replicas=_or(record.replicas, old.replicas),
        isr=_or(record.isr, old.isr),
        leader=old.leader if record.has_leader is None else record.leader,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(record.partition_epoch),
        effective_min_isr=_or(record.effective_min_isr, old.effective_min_isr),
        elr=_or(record.elr, old.elr),
        last_known_elr=_or(record.last_known_elr, old.last_known_elr),
        adding=_or(record.adding, old.adding),
        removing=_or(record.removing, old.removing),
        directories=_or(record.directories, old.directories),
        is_recovering=_or(record.is_recovering, old.is_recovering),
        leader_epoch_offset=offset if leader_epoch > old.leader_epoch else old.leader_epoch_offset,
    )


def normalized_name(name: str) -> str:
    """Topics whose names differ only in `.` and `_` share it: their metrics would collide."""
    return name.replace(".", "_")


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
