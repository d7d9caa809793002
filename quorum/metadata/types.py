"""The vocabulary of numbers and ids in the metadata."""

from enum import Enum, IntEnum
from typing import Final, NamedTuple, NewType, TypeAlias

BrokerId: TypeAlias = int

BrokerEpoch = NewType("BrokerEpoch", int)
"""Which registration of a broker: the metadata offset of the batch that holds it."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Grows with every change of a partition."""

MetadataOffset = NewType("MetadataOffset", int)
"""Position in the metadata log: the raft index of a batch."""

TopicId = NewType("TopicId", bytes)
"""16 raw bytes, as on the wire."""

DirectoryId = NewType("DirectoryId", bytes)
"""16 raw bytes that name a data directory for as long as its data is there (KIP-858)."""

ID_BYTES: Final = 16
NO_ID: Final = bytes(ID_BYTES)
UNASSIGNED_DIRECTORY: Final = DirectoryId(NO_ID)
"""The replica has not said yet in which directory it is."""


class PartitionKey(NamedTuple):
    """A partition by the id of its topic."""

    topic_id: TopicId
    partition: int


class ResourceType(IntEnum):
    """What a config belongs to, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class ConfigResource(NamedTuple):
    """The owner of configs. A broker resource with the name "" is the cluster's default."""

    resource_type: ResourceType
    name: str


CLUSTER_DEFAULT: Final = ConfigResource(ResourceType.BROKER, "")


class ElectionType(IntEnum):
    """Why an operator wants an election, with Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


class ConfigOperation(IntEnum):
    """What to do with a config key, with Kafka's numbers (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class UpgradeType(Enum):
    """How far a feature update may go (KIP-584)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
