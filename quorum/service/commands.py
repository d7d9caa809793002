"""From gRPC requests to the controller's commands.

What a message's type cannot say is checked here: the lengths of ids, enums that were left out. A
request that fails is refused as a whole with INVALID_REQUEST, before anything is decided. Whether
a name, a number or an epoch is right is the controller's business.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch
from quorum.api import quorum_pb2 as pb
from quorum.errors import QuorumError
from quorum.metadata import commands
from quorum.metadata.image import MetadataImage
from quorum.metadata.types import (
    ID_BYTES,
    BrokerEpoch,
    ConfigOperation,
    ConfigResource,
    DirectoryId,
    ElectionType,
    MetadataOffset,
    PartitionEpoch,
    ResourceType,
    TopicId,
    UpgradeType,
)

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

MAX_ITEMS: Final = 20_000
"""Topics, partitions or resources in one request. One turn of the event loop decides them all."""

SEED_BITS: Final = 63

_ELECTIONS: Final = {
    pb.ELECTION_TYPE_PREFERRED: ElectionType.PREFERRED,
    pb.ELECTION_TYPE_UNCLEAN: ElectionType.UNCLEAN,
}
_RESOURCES: Final = {
    pb.CONFIG_RESOURCE_TYPE_TOPIC: ResourceType.TOPIC,
    pb.CONFIG_RESOURCE_TYPE_BROKER: ResourceType.BROKER,
}
_OPERATIONS: Final = {
    pb.IncrementalAlterConfigsRequest.OP_TYPE_SET: ConfigOperation.SET,
    pb.IncrementalAlterConfigsRequest.OP_TYPE_DELETE: ConfigOperation.DELETE,
    pb.IncrementalAlterConfigsRequest.OP_TYPE_APPEND: ConfigOperation.APPEND,
    pb.IncrementalAlterConfigsRequest.OP_TYPE_SUBTRACT: ConfigOperation.SUBTRACT,
}
_UPGRADES: Final = {
    pb.UpdateFeaturesRequest.UPGRADE_TYPE_UPGRADE: UpgradeType.UPGRADE,
    pb.UpdateFeaturesRequest.UPGRADE_TYPE_SAFE_DOWNGRADE: UpgradeType.SAFE_DOWNGRADE,
    pb.UpdateFeaturesRequest.UPGRADE_TYPE_UNSAFE_DOWNGRADE: UpgradeType.UNSAFE_DOWNGRADE,
}


# --------------------------------------------------------------------------------- brokers


def register_broker(request: pb.RegisterBrokerRequest) -> commands.RegisterBroker:
    epoch = request.previous_broker_epoch if request.HasField("previous_broker_epoch") else None
    return commands.RegisterBroker(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=_id("incarnation_id", request.incarnation_id),
        endpoints=tuple(
            commands.Endpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol or "PLAINTEXT",
            )
            for listener in _items(request.listeners)
        ),
        directories=tuple(
            DirectoryId(_id("directory_ids", directory))
            for directory in _items(request.directory_ids)
        ),
        rack=request.rack if request.HasField("rack") else None,
        features=tuple(
            commands.SupportedFeature(
                name=feature.name, min_level=feature.min_level, max_level=feature.max_level
            )
            for feature in _items(request.features)
        ),
        previous_broker_epoch=None if epoch is None else BrokerEpoch(epoch),
    )


def heartbeat(request: pb.HeartbeatRequest) -> commands.Heartbeat:
    return commands.Heartbeat(
        broker_id=request.broker_id,
        broker_epoch=BrokerEpoch(request.broker_epoch),
        metadata_offset=MetadataOffset(request.metadata_offset),
        want_fence=request.want_fence,
        want_shut_down=request.want_shutdown,
    )


def unregister_broker(request: pb.UnregisterBrokerRequest) -> commands.UnregisterBroker:
    return commands.UnregisterBroker(
        broker_id=request.broker_id, request_id=_request_id(request.request_id)
    )


def alter_partition(request: pb.AlterPartitionRequest) -> commands.AlterPartition:
    return commands.AlterPartition(
        broker_id=request.broker_id,
        broker_epoch=BrokerEpoch(request.broker_epoch),
        changes=tuple(
            commands.IsrChange(
                topic_id=TopicId(_id("topic_id", change.topic_id)),
                partition=change.partition,
                leader_epoch=LeaderEpoch(change.leader_epoch),
                partition_epoch=PartitionEpoch(change.partition_epoch),
                new_isr=tuple(
                    commands.IsrMember(
                        broker_id=member.broker_id, broker_epoch=BrokerEpoch(member.broker_epoch)
                    )
                    for member in change.isr
                ),
                is_recovering=change.is_recovering,
            )
            for change in _items(request.partitions)
        ),
    )


def assign_replicas(
    request: pb.AssignReplicasToDirectoriesRequest,
) -> commands.AssignReplicasToDirectories:
    return commands.AssignReplicasToDirectories(
        broker_id=request.broker_id,
        broker_epoch=BrokerEpoch(request.broker_epoch),
        assignments=tuple(
            commands.DirectoryAssignment(
                topic_id=TopicId(_id("topic_id", replica.topic_id)),
                partition=replica.partition,
                directory=DirectoryId(_id("directory_id", replica.directory_id)),
            )
            for replica in _items(request.replicas)
        ),
    )


def allocate_producer_ids(request: pb.AllocateProducerIdsRequest) -> commands.AllocateProducerIds:
    return commands.AllocateProducerIds(
        broker_id=request.broker_id, broker_epoch=BrokerEpoch(request.broker_epoch)
    )


# ---------------------------------------------------------------------------------- topics


def create_topics(request: pb.CreateTopicsRequest) -> commands.CreateTopics:
    return commands.CreateTopics(
        topics=tuple(
            commands.NewTopic(
                name=topic.name,
                topic_id=_new_topic_id(),
                partitions=topic.num_partitions if topic.HasField("num_partitions") else None,
                replication_factor=(
                    topic.replication_factor if topic.HasField("replication_factor") else None
                ),
                assignments=_assignments(topic.assignments),
                configs=tuple((config.name, config.value) for config in topic.configs),
            )
            for topic in _items(request.topics)
        ),
        seed=secrets.randbits(SEED_BITS),
        validate_only=request.validate_only,
        request_id=_request_id(request.request_id),
    )


def delete_topics(request: pb.DeleteTopicsRequest) -> commands.DeleteTopics:
    return commands.DeleteTopics(
        topics=tuple(_topic_reference(topic) for topic in _items(request.topics)),
        request_id=_request_id(request.request_id),
    )


def _topic_reference(topic: pb.DeleteTopicsRequest.Topic) -> commands.TopicReference:
    match topic.WhichOneof("topic"):
        case "name":
            return commands.TopicReference(name=topic.name)
        case "topic_id":
            return commands.TopicReference(topic_id=TopicId(_id("topic_id", topic.topic_id)))
        case _:
            raise _invalid("a topic has neither a name nor an id")


def create_partitions(request: pb.CreatePartitionsRequest) -> commands.CreatePartitions:
    return commands.CreatePartitions(
        topics=tuple(
            commands.MorePartitions(
                name=topic.name,
                count=topic.total_count,
                assignments=_assignments(topic.assignments),
            )
            for topic in _items(request.topics)
        ),
        seed=secrets.randbits(SEED_BITS),
        validate_only=request.validate_only,
        request_id=_request_id(request.request_id),
    )


# --------------------------------------------------------------------------------- configs


def incremental_alter_configs(
    request: pb.IncrementalAlterConfigsRequest,
) -> commands.IncrementalAlterConfigs:
    return commands.IncrementalAlterConfigs(
        resources=tuple(
            commands.ResourceChange(
                resource=_resource(item.resource),
                changes=tuple(
                    commands.ConfigChange(
                        key=op.name,
                        operation=_choice("type of an op", _OPERATIONS, op.type),
                        value=op.value if op.HasField("value") else None,
                    )
                    for op in item.ops
                ),
            )
            for item in _items(request.resources)
        ),
        validate_only=request.validate_only,
        request_id=_request_id(request.request_id),
    )


def replace_configs(
    request: pb.ReplaceConfigsRequest,
) -> Callable[[MetadataImage], commands.IncrementalAlterConfigs]:
    """Replacing is setting what is given and deleting the rest of what there is, which only the
    image that the command is decided on can tell."""
    wanted = [
        (_resource(item.resource), {config.name: config.value for config in item.configs})
        for item in _items(request.resources)
    ]
    request_id = _request_id(request.request_id)

    def decide(image: MetadataImage) -> commands.IncrementalAlterConfigs:
        return commands.IncrementalAlterConfigs(
            resources=tuple(
                commands.ResourceChange(
                    resource=resource,
                    changes=_replacement(values, sorted(image.config(resource))),
                )
                for resource, values in wanted
            ),
            validate_only=request.validate_only,
            request_id=request_id,
        )

    return decide


def _replacement(
    values: dict[str, str], existing: Sequence[str]
) -> tuple[commands.ConfigChange, ...]:
    deleted = tuple(
        commands.ConfigChange(key=key, operation=ConfigOperation.DELETE)
        for key in existing
        if key not in values
    )
    return deleted + tuple(
        commands.ConfigChange(key=key, operation=ConfigOperation.SET, value=value)
        for key, value in values.items()
    )


def _resource(resource: pb.ConfigResource) -> ConfigResource:
    return ConfigResource(
        _choice("type of a config resource", _RESOURCES, resource.type), resource.name
    )


# ----------------------------------------------------------- elections, moves and features


def elect_leaders(request: pb.ElectLeadersRequest) -> commands.ElectLeaders:
    return commands.ElectLeaders(
        election_type=_choice("election_type", _ELECTIONS, request.election_type),
        partitions=_partitions(request.partitions, request.all_partitions),
        request_id=_request_id(request.request_id),
    )


def alter_partition_reassignments(
    request: pb.AlterPartitionReassignmentsRequest,
) -> commands.AlterPartitionReassignments:
    return commands.AlterPartitionReassignments(
        reassignments=tuple(
            commands.Reassignment(
                topic=item.partition.topic,
                partition=item.partition.partition,
                replicas=tuple(item.target.broker_ids) if item.HasField("target") else None,
            )
            for item in _items(request.partitions)
        ),
        request_id=_request_id(request.request_id),
    )


def listed_partitions(
    request: pb.ListPartitionReassignmentsRequest,
) -> tuple[tuple[str, int], ...] | None:
    return _partitions(request.partitions, request.all_partitions)


def update_features(request: pb.UpdateFeaturesRequest) -> commands.UpdateFeatures:
    return commands.UpdateFeatures(
        updates=tuple(
            commands.FeatureUpdate(
                name=update.name,
                level=update.level,
                upgrade_type=_choice("upgrade_type", _UPGRADES, update.upgrade_type),
            )
            for update in _items(request.updates)
        ),
        validate_only=request.validate_only,
        request_id=_request_id(request.request_id),
    )


# ----------------------------------------------------------------------------------- parts


def _partitions(
    partitions: Sequence[pb.TopicPartition], all_partitions: bool
) -> tuple[tuple[str, int], ...] | None:
    if all_partitions:
        return None
    return tuple((item.topic, item.partition) for item in _items(partitions))


def _assignments(assignments: Sequence[pb.Assignment]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(assignment.broker_ids) for assignment in _items(assignments))


def _request_id(request_id: bytes) -> str:
    return _id("request_id", request_id).hex()


def _new_topic_id() -> TopicId:
    """Random; Kafka keeps ids that begin with zeros for meanings of its own."""
    while True:
        topic_id = secrets.token_bytes(ID_BYTES)
        if any(topic_id[: ID_BYTES // 2]):
            return TopicId(topic_id)


def _id(name: str, value: bytes) -> bytes:
    if len(value) != ID_BYTES:
        raise _invalid(f"{name} has {len(value)} bytes, and {ID_BYTES} are wanted")
    return value


def _choice(name: str, choices: dict[K, V], value: K) -> V:
    found = choices.get(value)
    if found is None:
        raise _invalid(f"the {name} is missing or unknown: {value}")
    return found


def _items(items: Sequence[T]) -> Sequence[T]:
    if len(items) > MAX_ITEMS:
        raise _invalid(f"{len(items)} items in one request, and {MAX_ITEMS} are the most")
    return items


def _invalid(message: str) -> QuorumError:
    return QuorumError(ErrorCode.INVALID_REQUEST, message)
