"""In which directory of its broker a replica is (KIP-858).

Until a broker has said so, a replica counts as being in any of the directories of its broker's
registration, so it counts as lost if any of them is missing at the next one.
"""

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.brokers import checked_broker
from quorum.metadata.commands import (
    AssignedReplica,
    AssignReplicasToDirectories,
    DirectoryAssignment,
    Refused,
    ReplicasAssigned,
)
from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_change import change_record, in_batches, with_directory
from quorum.metadata.records import PartitionRecord, Record, RegisterBrokerRecord
from quorum.metadata.result import Result
from quorum.metadata.types import PartitionKey


def assign(image: MetadataImage, command: AssignReplicasToDirectories) -> Result:
    """Notes the directories of a broker's replicas, each by itself."""
    broker = checked_broker(image, command.broker_id, command.broker_epoch)
    if isinstance(broker, Refused):
        return Result(answer=broker)
    results: list[AssignedReplica] = []
    records: list[Record] = []
    seen: set[PartitionKey] = set()
    for assignment in command.assignments:
        partition = _checked_partition(image, broker, assignment, seen)
        error = partition if isinstance(partition, Refused) else None
        if not isinstance(partition, Refused):
            after = with_directory(partition, broker.broker_id, assignment.directory)
            record = change_record(partition, after)
            records += [record] if record is not None else []
        results.append(
            AssignedReplica(
                topic_id=assignment.topic_id, partition=assignment.partition, error=error
            )
        )
    return Result(answer=ReplicasAssigned(replicas=tuple(results)), batches=in_batches(records))


def _checked_partition(
    image: MetadataImage,
    broker: RegisterBrokerRecord,
    assignment: DirectoryAssignment,
    seen: set[PartitionKey],
) -> PartitionRecord | Refused:
    key = PartitionKey(assignment.topic_id, assignment.partition)
    partition = image.partition(key)
    if assignment.topic_id not in image.topics:
        return Refused(code=ErrorCode.UNKNOWN_TOPIC_ID, message="there is no topic with this id")
    if partition is None:
        return Refused(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="there is no such partition"
        )
    if broker.broker_id not in partition.replicas:
        return Refused(
            code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            message=f"broker {broker.broker_id} does not replicate the partition",
        )
    if assignment.directory not in broker.directories:
        return Refused(
            code=ErrorCode.LOG_DIR_NOT_FOUND, message="the broker has registered no such directory"
        )
    if key in seen:
        return Refused(code=ErrorCode.INVALID_REQUEST, message="the partition is named twice")
    seen.add(key)
    return partition
