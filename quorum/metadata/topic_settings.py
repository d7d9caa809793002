"""The topic configs that the controller itself goes by: the topic's, else the cluster's."""

from typing import Final

from quorum.metadata.image import MetadataImage
from quorum.metadata.types import CLUSTER_DEFAULT, ConfigResource, ResourceType, TopicId

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
FLUSH_MODE: Final = "log.flush.mode"
DEFAULT_PARTITIONS: Final = "num.partitions"
DEFAULT_REPLICATION_FACTOR: Final = "default.replication.factor"


def effective_min_isr(
    *, topic_value: str | None, cluster_value: str | None, replication_factor: int
) -> int:
    """The min ISR of a partition: the topic's, else the cluster's, else 2 where three replicas can
    spare one, else 1. More than there are replicas cannot be in sync."""
    value = cluster_value if topic_value is None else topic_value
    if value is None:
        return 2 if replication_factor >= 3 else 1
    return max(1, min(int(value), replication_factor))


def min_isr_of(image: MetadataImage, topic_name: str, replication_factor: int) -> int:
    """What the configs in the image make of it."""
    return effective_min_isr(
        topic_value=image.config(ConfigResource(ResourceType.TOPIC, topic_name)).get(MIN_ISR),
        cluster_value=image.config(CLUSTER_DEFAULT).get(MIN_ISR),
        replication_factor=replication_factor,
    )


def allows_unclean_election(image: MetadataImage, topic_id: TopicId) -> bool:
    name = image.topics[topic_id].name
    value = image.config(ConfigResource(ResourceType.TOPIC, name)).get(UNCLEAN)
    if value is None:
        value = image.config(CLUSTER_DEFAULT).get(UNCLEAN, "false")
    return value == "true"


def flushes_before_acknowledging(image: MetadataImage) -> bool:
    """Whether what a replica has acknowledged survives that its machine stops uncleanly."""
    return image.config(CLUSTER_DEFAULT).get(FLUSH_MODE, "group") == "group"


def cluster_number(image: MetadataImage, key: str) -> int | None:
    value = image.config(CLUSTER_DEFAULT).get(key)
    return None if value is None else int(value)
