"""Topics: create, delete, give more partitions."""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch
from quorum.metadata.commands import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    PartitionsCreated,
    Refused,
    TopicReference,
    TopicResult,
    TopicsCreated,
    TopicsDeleted,
)
from quorum.metadata.configs import checked_topic_configs
from quorum.metadata.image import MetadataImage, TopicImage, normalized_name
from quorum.metadata.placement import Randomness, place, usable_brokers
from quorum.metadata.records import (
    ConfigRecord,
    PartitionRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
)
from quorum.metadata.result import Result, refuse
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.topic_settings import (
    DEFAULT_PARTITIONS,
    DEFAULT_REPLICATION_FACTOR,
    MIN_ISR,
    cluster_number,
    effective_min_isr,
    min_isr_of,
)
from quorum.metadata.types import (
    CLUSTER_DEFAULT,
    ID_BYTES,
    NO_ID,
    BrokerId,
    PartitionEpoch,
    ResourceType,
    TopicId,
)

MAX_NAME: Final = 249
NAME_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")
MAX_NEW_PARTITIONS: Final = 10_000
"""In one request, as in Kafka."""
MAX_RF_BY_DEFAULT: Final = 3


# ------------------------------------------------------------------------------- creation


def create(image: MetadataImage, command: CreateTopics, settings: ControllerSettings) -> Result:
    """Creates topics; one that is refused does not stop the others."""
    asked = sum(topic.partitions or len(topic.assignments) or 1 for topic in command.topics)
    if asked > MAX_NEW_PARTITIONS:
        return refuse(
            ErrorCode.POLICY_VIOLATION,
            f"{asked} partitions are too many for one request: {MAX_NEW_PARTITIONS} at most",
        )
    planned = _Planned(image)
    randomness = Randomness(command.seed)
    results: list[CreatedTopic] = []
    records: list[Record] = []
    for topic in command.topics:
        refused = planned.check(topic)
        seed = randomness.below(2**63)
        made = refused or _new_topic(image, topic, seed, settings, planned.partitions)
        if isinstance(made, Refused):
            results.append(CreatedTopic(name=topic.name, error=made))
            continue
        planned.add(topic, len(made.partitions))
        records += made.records
        results.append(
            CreatedTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=len(made.partitions),
                replication_factor=len(made.partitions[0].replicas),
                configs=made.configs,
            )
        )
    return Result(
        answer=TopicsCreated(topics=tuple(results)),
        batches=(tuple(records),) if records and not command.validate_only else (),
    )


class _Planned:
    """The names, ids and partitions that exist or that this request is about to make."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._names: dict[str, str] = {}
        self._ids: set[TopicId] = set()
        self.partitions = image.index.count

    def add(self, topic: NewTopic, partitions: int) -> None:
        self._names[normalized_name(topic.name)] = topic.name
        self._ids.add(topic.topic_id)
        self.partitions += partitions

    def check(self, topic: NewTopic) -> Refused | None:
        wrong = why_invalid_name(topic.name)
        if wrong is not None:
            return Refused(code=ErrorCode.INVALID_TOPIC_EXCEPTION, message=wrong)
        normalized = normalized_name(topic.name)
        taken = self._names.get(normalized) or self._image.normalized_names.get(normalized)
        if taken == topic.name:
            return Refused(
                code=ErrorCode.TOPIC_ALREADY_EXISTS, message=f"topic {topic.name} exists"
            )
        if taken is not None:
            return Refused(
                code=ErrorCode.INVALID_TOPIC_EXCEPTION,
                message=f"{topic.name} collides with topic {taken}: metrics do not tell '.' "
                "from '_'",
            )
        if len(topic.topic_id) != ID_BYTES or topic.topic_id == NO_ID:
            return Refused(code=ErrorCode.INVALID_REQUEST, message="a topic id has 16 bytes")
        if topic.topic_id in self._ids or topic.topic_id in self._image.topics:
            return Refused(code=ErrorCode.INVALID_REQUEST, message="the topic id is taken")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewTopicRecords:
    topic: TopicRecord
    partitions: tuple[PartitionRecord, ...]
    configs: tuple[tuple[str, str], ...]

    @property
    def records(self) -> list[Record]:
        configs = [
            ConfigRecord(
                resource_type=ResourceType.TOPIC,
                resource_name=self.topic.name,
                key=key,
                value=value,
            )
            for key, value in self.configs
        ]
        return [self.topic, *configs, *self.partitions]


def _new_topic(
    image: MetadataImage,
    topic: NewTopic,
    seed: int,
    settings: ControllerSettings,
    partitions_so_far: int,
) -> _NewTopicRecords | Refused:
    configs = checked_topic_configs(topic.configs)
    if isinstance(configs, Refused):
        return configs
    replicas = _replicas(image, topic, seed, settings, partitions_so_far)
    if isinstance(replicas, Refused):
        return replicas
    min_isr = effective_min_isr(
        topic_value=dict(configs).get(MIN_ISR),
        cluster_value=image.config(CLUSTER_DEFAULT).get(MIN_ISR),
        replication_factor=len(replicas[0]),
    )
    partitions = _new_partitions(image, topic.topic_id, 0, replicas, min_isr)
    if isinstance(partitions, Refused):
        return partitions
    record = TopicRecord(topic_id=topic.topic_id, name=topic.name)
    return _NewTopicRecords(topic=record, partitions=partitions, configs=configs)


def _replicas(
    image: MetadataImage,
    topic: NewTopic,
    seed: int,
    settings: ControllerSettings,
    partitions_so_far: int,
) -> tuple[tuple[BrokerId, ...], ...] | Refused:
    if topic.assignments:
        if topic.partitions is not None or topic.replication_factor is not None:
            return _invalid("give counts or replicas, not both")
        count = len(topic.assignments)
    else:
        count = topic.partitions or cluster_number(image, DEFAULT_PARTITIONS) or 1
        if topic.partitions is not None and topic.partitions < 1:
            return _bad_count("a topic has at least one partition")
    refused = _check_limits(count, partitions_so_far + count, settings)
    if refused is not None:
        return refused
    if topic.assignments:
        return checked_assignments(image, topic.assignments, replication_factor=None)
    factor = topic.replication_factor
    if factor is None:
        factor = cluster_number(image, DEFAULT_REPLICATION_FACTOR)
    if factor is None:
        factor = max(1, min(MAX_RF_BY_DEFAULT, len(usable_brokers(image))))
    return place(usable_brokers(image), partitions=count, replication_factor=factor, seed=seed)


def _new_partitions(
    image: MetadataImage,
    topic_id: TopicId,
    first: int,
    assignments: Sequence[tuple[BrokerId, ...]],
    min_isr: int,
) -> tuple[PartitionRecord, ...] | Refused:
    """New partitions: everybody who is alive is in sync, as there is nothing yet."""
    partitions: list[PartitionRecord] = []
    for number, replicas in enumerate(assignments, first):
        isr = tuple(replica for replica in replicas if image.is_active(replica))
        if not isr:
            return Refused(
                code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                message=f"none of the replicas {list(replicas)} of partition {number} is alive",
            )
        partitions.append(
            PartitionRecord(
                topic_id=topic_id,
                partition=number,
                replicas=replicas,
                isr=isr,
                leader=isr[0],
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                effective_min_isr=min_isr,
            )
        )
    return tuple(partitions)


def checked_assignments(
    image: MetadataImage,
    assignments: tuple[tuple[BrokerId, ...], ...],
    *,
    replication_factor: int | None,
) -> tuple[tuple[BrokerId, ...], ...] | Refused:
    """Manual assignments, if they can be carried out."""
    wanted = replication_factor or len(assignments[0])
    for number, replicas in enumerate(assignments):
        unknown = sorted(set(replicas) - set(image.brokers))
        why = None
        if not replicas:
            why = "it has no replica"
        elif len(set(replicas)) != len(replicas):
            why = f"a broker is twice in {list(replicas)}"
        elif unknown:
            why = f"brokers {unknown} are not registered"
        elif len(replicas) != wanted:
            why = f"it has {len(replicas)} replicas where others have {wanted}"
        if why is not None:
            return Refused(
                code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                message=f"assignment {number} cannot be: {why}",
            )
    return assignments


def why_invalid_name(name: str) -> str | None:
    """Why a topic cannot have this name; None if it can. The rules are Kafka's."""
    if not name:
        return "a topic's name cannot be empty"
    if name in (".", ".."):
        return f"a topic cannot be called {name}"
    if len(name) > MAX_NAME:
        return f"a topic's name has at most {MAX_NAME} characters"
    if not NAME_CHARACTERS.issuperset(name):
        return f"{name!r} has other characters than letters, digits, '.', '_' and '-'"
    return None


# ------------------------------------------------------------------------------- deletion


def delete(image: MetadataImage, command: DeleteTopics) -> Result:
    """Deletes topics by name or by id."""
    results: list[DeletedTopic] = []
    deleted: dict[TopicId, None] = {}
    for reference in command.topics:
        topic = _referenced(image, reference)
        if isinstance(topic, Refused):
            results.append(
                DeletedTopic(name=reference.name, topic_id=reference.topic_id, error=topic)
            )
        elif topic.topic_id in deleted:
            error = _invalid(f"topic {topic.name} is named twice")
            results.append(DeletedTopic(name=topic.name, topic_id=topic.topic_id, error=error))
        else:
            deleted[topic.topic_id] = None
            results.append(DeletedTopic(name=topic.name, topic_id=topic.topic_id))
    records = tuple(RemoveTopicRecord(topic_id=topic_id) for topic_id in deleted)
    return Result(
        answer=TopicsDeleted(topics=tuple(results)), batches=(records,) if records else ()
    )


def _referenced(image: MetadataImage, reference: TopicReference) -> TopicImage | Refused:
    if (reference.name is None) == (reference.topic_id is None):
        return _invalid("name a topic by its name or by its id")
    if reference.topic_id is not None:
        found = image.topics.get(reference.topic_id)
        return found or Refused(
            code=ErrorCode.UNKNOWN_TOPIC_ID, message="there is no topic with this id"
        )
    return image.topic(reference.name or "") or _unknown(reference.name or "")


# ------------------------------------------------------------------------ more partitions


def create_partitions(
    image: MetadataImage, command: CreatePartitions, settings: ControllerSettings
) -> Result:
    """Gives topics more partitions; one that is refused does not stop the others."""
    results: list[TopicResult] = []
    records: list[Record] = []
    seen: set[str] = set()
    randomness = Randomness(command.seed)
    for more in command.topics:
        seed = randomness.below(2**63)
        made = (
            _invalid(f"topic {more.name} is named twice")
            if more.name in seen
            else _more_partitions(image, more, seed, settings, image.index.count + len(records))
        )
        seen.add(more.name)
        if isinstance(made, Refused):
            results.append(TopicResult(name=more.name, error=made))
        else:
            results.append(TopicResult(name=more.name))
            records += made
    return Result(
        answer=PartitionsCreated(topics=tuple(results)),
        batches=(tuple(records),) if records and not command.validate_only else (),
    )


def _more_partitions(
    image: MetadataImage,
    more: MorePartitions,
    seed: int,
    settings: ControllerSettings,
    partitions_so_far: int,
) -> tuple[PartitionRecord, ...] | Refused:
    topic = image.topic(more.name)
    if topic is None:
        return _unknown(more.name)
    existing = len(topic.partitions)
    added = more.count - existing
    if added <= 0:
        return _bad_count(f"topic {more.name} has {existing} partitions, and they cannot be fewer")
    refused = _check_limits(more.count, partitions_so_far + added, settings)
    if refused is None and added > MAX_NEW_PARTITIONS:
        refused = _bad_count(f"{MAX_NEW_PARTITIONS} at most can be added at once")
    if refused is None and more.assignments and len(more.assignments) != added:
        refused = Refused(
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            message=f"{len(more.assignments)} assignments are given for {added} new partitions",
        )
    if refused is not None:
        return refused
    factor = len(topic.partitions[0].target_replicas)
    replicas = (
        checked_assignments(image, more.assignments, replication_factor=factor)
        if more.assignments
        else place(usable_brokers(image), partitions=added, replication_factor=factor, seed=seed)
    )
    if isinstance(replicas, Refused):
        return replicas
    min_isr = min_isr_of(image, topic.name, factor)
    return _new_partitions(image, topic.topic_id, existing, replicas, min_isr)


def _check_limits(count: int, total: int, settings: ControllerSettings) -> Refused | None:
    if count > settings.max_partitions_per_topic:
        return _bad_count(
            f"a topic can have {settings.max_partitions_per_topic} partitions, not {count}"
        )
    if total > settings.max_partitions:
        return _bad_count(f"the cluster can have {settings.max_partitions} partitions in all")
    return None


def _unknown(name: str) -> Refused:
    return Refused(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"there is no topic {name!r}")


def _bad_count(message: str) -> Refused:
    return Refused(code=ErrorCode.INVALID_PARTITIONS, message=message)


def _invalid(message: str) -> Refused:
    return Refused(code=ErrorCode.INVALID_REQUEST, message=message)
