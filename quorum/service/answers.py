"""From the controller's answers to gRPC responses."""

from quorum.api import quorum_pb2 as pb
from quorum.metadata import commands
from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_index import keys_of
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import ConfigResource, PartitionKey, ResourceType

_RESOURCE_TYPES = {
    ResourceType.TOPIC: pb.CONFIG_RESOURCE_TYPE_TOPIC,
    ResourceType.BROKER: pb.CONFIG_RESOURCE_TYPE_BROKER,
}


def broker_registered(answer: commands.BrokerRegistered) -> pb.RegisterBrokerResponse:
    return pb.RegisterBrokerResponse(
        broker_epoch=answer.broker_epoch, session_timeout_ms=answer.session_timeout_ms
    )


def heartbeat(answer: commands.HeartbeatAnswer) -> pb.HeartbeatResponse:
    return pb.HeartbeatResponse(
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shutdown=answer.should_shut_down,
        session_timeout_ms=answer.session_timeout_ms,
    )


def broker_unregistered(answer: commands.BrokerUnregistered) -> pb.UnregisterBrokerResponse:
    return pb.UnregisterBrokerResponse()


def partitions_altered(answer: commands.PartitionsAltered) -> pb.AlterPartitionResponse:
    return pb.AlterPartitionResponse(
        partitions=[
            pb.AlterPartitionResponse.Partition(
                topic_id=item.topic_id,
                partition=item.partition,
                error=_error(item.error),
                leader_id=item.leader,
                leader_epoch=item.leader_epoch or 0,
                partition_epoch=item.partition_epoch or 0,
                isr=item.isr,
                is_recovering=item.is_recovering,
                min_insync_replicas=item.effective_min_isr or 0,
            )
            for item in answer.partitions
        ]
    )


def replicas_assigned(
    answer: commands.ReplicasAssigned,
) -> pb.AssignReplicasToDirectoriesResponse:
    return pb.AssignReplicasToDirectoriesResponse(
        replicas=[
            pb.AssignReplicasToDirectoriesResponse.Replica(
                topic_id=item.topic_id, partition=item.partition, error=_error(item.error)
            )
            for item in answer.replicas
        ]
    )


def producer_ids_allocated(
    answer: commands.ProducerIdsAllocated,
) -> pb.AllocateProducerIdsResponse:
    return pb.AllocateProducerIdsResponse(
        first_producer_id=answer.first_producer_id, count=answer.count
    )


def topics_created(answer: commands.TopicsCreated) -> pb.CreateTopicsResponse:
    return pb.CreateTopicsResponse(
        topics=[
            pb.CreateTopicsResponse.Topic(
                name=item.name,
                error=_error(item.error),
                topic_id=item.topic_id or b"",
                num_partitions=item.partitions,
                replication_factor=item.replication_factor,
                configs=[pb.ConfigEntry(name=name, value=value) for name, value in item.configs],
            )
            for item in answer.topics
        ]
    )


def topics_deleted(answer: commands.TopicsDeleted) -> pb.DeleteTopicsResponse:
    return pb.DeleteTopicsResponse(
        topics=[
            pb.DeleteTopicsResponse.Topic(
                name=item.name or "", topic_id=item.topic_id or b"", error=_error(item.error)
            )
            for item in answer.topics
        ]
    )


def partitions_created(answer: commands.PartitionsCreated) -> pb.CreatePartitionsResponse:
    return pb.CreatePartitionsResponse(
        topics=[
            pb.CreatePartitionsResponse.Topic(name=item.name, error=_error(item.error))
            for item in answer.topics
        ]
    )


def configs_altered(answer: commands.ConfigsAltered) -> pb.IncrementalAlterConfigsResponse:
    return pb.IncrementalAlterConfigsResponse(
        resources=[
            pb.IncrementalAlterConfigsResponse.Resource(
                resource=_resource(item.resource), error=_error(item.error)
            )
            for item in answer.resources
        ]
    )


def configs_replaced(answer: commands.ConfigsAltered) -> pb.ReplaceConfigsResponse:
    return pb.ReplaceConfigsResponse(
        resources=[
            pb.ReplaceConfigsResponse.Resource(
                resource=_resource(item.resource), error=_error(item.error)
            )
            for item in answer.resources
        ]
    )


def leaders_elected(answer: commands.LeadersElected) -> pb.ElectLeadersResponse:
    return pb.ElectLeadersResponse(
        partitions=[
            pb.ElectLeadersResponse.Partition(
                partition=pb.TopicPartition(topic=item.topic, partition=item.partition),
                error=_error(item.error),
            )
            for item in answer.partitions
        ]
    )


def reassignments_altered(
    answer: commands.PartitionReassignmentsAltered,
) -> pb.AlterPartitionReassignmentsResponse:
    return pb.AlterPartitionReassignmentsResponse(
        partitions=[
            pb.AlterPartitionReassignmentsResponse.Partition(
                partition=pb.TopicPartition(topic=item.topic, partition=item.partition),
                error=_error(item.error),
            )
            for item in answer.partitions
        ]
    )


def reassignments_listed(
    image: MetadataImage, wanted: tuple[tuple[str, int], ...] | None
) -> pb.ListPartitionReassignmentsResponse:
    """What is under way among the wanted partitions; all of them if None."""
    return pb.ListPartitionReassignmentsResponse(
        partitions=[
            pb.ListPartitionReassignmentsResponse.Partition(
                partition=pb.TopicPartition(topic=name, partition=found.partition),
                replicas=found.replicas,
                adding_replicas=found.adding,
                removing_replicas=found.removing,
            )
            for name, found in _reassigning(image, wanted)
        ]
    )


def _reassigning(
    image: MetadataImage, wanted: tuple[tuple[str, int], ...] | None
) -> list[tuple[str, PartitionRecord]]:
    if wanted is None:
        keys = list(keys_of(image.index.reassigning))
    else:
        ids = [(image.topic_ids.get(name), partition) for name, partition in wanted]
        keys = [PartitionKey(topic_id, number) for topic_id, number in ids if topic_id is not None]
    found = [image.partition(key) for key in keys]
    return [
        (image.topics[record.topic_id].name, record)
        for record in found
        if record is not None and record.is_reassigning
    ]


def features_updated(answer: commands.FeaturesUpdated) -> pb.UpdateFeaturesResponse:
    return pb.UpdateFeaturesResponse(
        features=[
            pb.UpdateFeaturesResponse.Feature(name=name, level=level)
            for name, level in answer.features
        ]
    )


def _resource(resource: ConfigResource) -> pb.ConfigResource:
    return pb.ConfigResource(type=_RESOURCE_TYPES[resource.resource_type], name=resource.name)


def _error(refused: commands.Refused | None) -> pb.Error | None:
    if refused is None:
        return None
    return pb.Error(code=refused.code, name=refused.code.name, message=refused.message)
