"""What the controller can be asked, and what it answers.

Every command and answer is a frozen value. Commands that carry a `request_id` change something
that their sender cannot tell from the state afterwards (was it my topic, or another's?); the id
lets a retry be answered instead of repeated (see `requests.py`). The others are safe to repeat by
themselves: a registration by its incarnation id, a heartbeat and an AlterPartition by their epochs.

A command as a whole is refused with a `Refused`; an item of a command is refused in the answer's
result for that item, and the other items go ahead, as Kafka does it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch, ProducerId
from quorum.metadata.types import (
    BrokerEpoch,
    BrokerId,
    ConfigOperation,
    ConfigResource,
    DirectoryId,
    ElectionType,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
    UpgradeType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A typed error: nothing was changed."""

    code: ErrorCode
    message: str


# ------------------------------------------------------------------------------------ brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a broker listens."""

    name: str
    """The listener's name."""
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeature:
    """The levels of a feature that a node understands, both ends included."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker process announces itself."""

    broker_id: BrokerId
    cluster_id: str
    incarnation_id: bytes
    """16 random bytes, new in every process: tells a retry from a restart."""
    endpoints: tuple[Endpoint, ...]
    directories: tuple[DirectoryId, ...]
    """The data directories that are there now. A missing one took its replicas with it."""
    rack: str | None = None
    features: tuple[SupportedFeature, ...] = ()
    previous_broker_epoch: BrokerEpoch | None = None
    """The epoch in the clean-shutdown file; None if the last stop was not clean (KIP-966)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    broker_epoch: BrokerEpoch
    session_timeout_ms: int
    """What the broker's lease is counted from: the controller's value, so that both agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A broker is alive, and how far it has read the metadata."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    metadata_offset: MetadataOffset
    """Everything up to here is applied on the broker (inclusive)."""
    want_fence: bool = False
    """It does not want to serve, and has given up its lease before it said so."""
    want_shut_down: bool = False
    """It wants to stop, and waits until its leaders have moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    is_caught_up: bool
    """It has read the metadata up to its registration."""
    is_fenced: bool
    should_shut_down: bool
    session_timeout_ms: int
    """The lease that this answer gives, counted from when the heartbeat was sent; only while the
    broker is not fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """Forget a broker that will not come back. It has to be down (fenced)."""

    broker_id: BrokerId
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered:
    broker_id: BrokerId


# ------------------------------------------------------------------------------------- topics


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create: by counts, or by the replicas of every partition."""

    name: str
    topic_id: TopicId
    """16 random bytes, chosen by the shell: the core has no randomness."""
    partitions: int | None = None
    """None: `num.partitions`."""
    replication_factor: int | None = None
    """None: `default.replication.factor`."""
    assignments: tuple[tuple[BrokerId, ...], ...] = ()
    """The replicas of partition 0, 1, ... If given, both counts must be None."""
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    topics: tuple[NewTopic, ...]
    seed: int
    """Any random number: where placement starts."""
    validate_only: bool = False
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    name: str
    error: Refused | None = None
    topic_id: TopicId | None = None
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()
    """What the topic sets itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsCreated:
    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReference:
    """A topic by its name or by its id: exactly one is given."""

    name: str | None = None
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    topics: tuple[TopicReference, ...]
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    name: str | None
    topic_id: TopicId | None
    error: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsDeleted:
    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """How many partitions a topic shall have, and where the new ones go."""

    name: str
    count: int
    """The new total."""
    assignments: tuple[tuple[BrokerId, ...], ...] = ()
    """The replicas of every new partition; empty: placed as on creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    topics: tuple[MorePartitions, ...]
    seed: int
    validate_only: bool = False
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    name: str
    error: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsCreated:
    topics: tuple[TopicResult, ...]


# --------------------------------------------------------------------------------- partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrMember:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    """The registration from which the leader knows it (KIP-903)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """What a leader wants the ISR of one partition to be."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    new_isr: tuple[IsrMember, ...]
    is_recovering: bool = False
    """The leader was elected uncleanly and has not recovered yet (KIP-704)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    changes: tuple[IsrChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredPartition:
    """The state of the partition after the change, or why it was refused."""

    topic_id: TopicId
    partition: int
    error: Refused | None = None
    leader: BrokerId | None = None
    leader_epoch: LeaderEpoch | None = None
    partition_epoch: PartitionEpoch | None = None
    isr: tuple[BrokerId, ...] = ()
    effective_min_isr: int | None = None
    """The min ISR that belongs to this partition epoch."""
    is_recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAltered:
    partitions: tuple[AlteredPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders:
    election_type: ElectionType
    partitions: tuple[tuple[str, int], ...] | None
    """Topic names with partitions; None: every partition that needs it."""
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    topic: str
    partition: int
    error: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersElected:
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None
    """None cancels what is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignments:
    reassignments: tuple[Reassignment, ...]
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReassignmentsAltered:
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAssignment:
    topic_id: TopicId
    partition: int
    directory: DirectoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirectories:
    """A broker says in which of its directories its replicas are (KIP-858)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    assignments: tuple[DirectoryAssignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedReplica:
    topic_id: TopicId
    partition: int
    error: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasAssigned:
    replicas: tuple[AssignedReplica, ...]


# ------------------------------------------------------- configs, producer ids, features


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    key: str
    operation: ConfigOperation
    value: str | None = None
    """None only with DELETE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    resource: ConfigResource
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigs:
    resources: tuple[ResourceChange, ...]
    validate_only: bool = False
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceResult:
    resource: ConfigResource
    error: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsAltered:
    resources: tuple[ResourceResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsAllocated:
    first_producer_id: ProducerId
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    name: str
    level: int
    """0 turns the feature off."""
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeatures:
    """All updates happen, or none."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesUpdated:
    features: tuple[tuple[str, int], ...]
    """All finalized levels afterwards."""


BrokerCommand: TypeAlias = (
    RegisterBroker | Heartbeat | AlterPartition | AssignReplicasToDirectories | AllocateProducerIds
)
AdminCommand: TypeAlias = (
    UnregisterBroker
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | ElectLeaders
    | AlterPartitionReassignments
    | IncrementalAlterConfigs
    | UpdateFeatures
)
"""The commands with a request id."""
Command: TypeAlias = BrokerCommand | AdminCommand

BrokerAnswer: TypeAlias = (
    BrokerRegistered | HeartbeatAnswer | PartitionsAltered | ReplicasAssigned | ProducerIdsAllocated
)
AdminAnswer: TypeAlias = (
    BrokerUnregistered
    | TopicsCreated
    | TopicsDeleted
    | PartitionsCreated
    | LeadersElected
    | PartitionReassignmentsAltered
    | ConfigsAltered
    | FeaturesUpdated
)
Answer: TypeAlias = BrokerAnswer | AdminAnswer
