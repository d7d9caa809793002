"""Moving replicas (KIP-455).

A reassignment adds the new replicas, waits until they are in the ISR, and takes the old ones away.
Nothing is ever dropped in the step that moves the leadership (DESIGN.md, rule 13):

    wanted --all added are in the ISR--> leader is to stay? --no--> move the leader, wait
                                              | yes
                                              v
    those who leave the ISR know the leader epoch, or are fenced --> complete

Cancelling is a reassignment back to where it came from, so that it obeys the same rules.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    AlterPartitionReassignments,
    PartitionReassignmentsAltered,
    PartitionResult,
    Reassignment,
    Refused,
)
from quorum.metadata.heartbeats import Heartbeats
from quorum.metadata.image import MetadataImage
from quorum.metadata.isr import may_leave
from quorum.metadata.partition_change import (
    change_record,
    in_batches,
    with_isr,
    with_leader,
    with_min_isr,
    with_replicas,
)
from quorum.metadata.partition_index import keys_of
from quorum.metadata.records import PartitionRecord, Record
from quorum.metadata.result import Result
from quorum.metadata.topic_settings import min_isr_of
from quorum.metadata.types import BrokerId, PartitionKey


def alter(image: MetadataImage, command: AlterPartitionReassignments) -> Result:
    """Starts, replaces and cancels reassignments, each by itself."""
    results: list[PartitionResult] = []
    records: list[Record] = []
    seen: set[PartitionKey] = set()
    for wanted in command.reassignments:
        outcome = _alter_one(image, wanted, seen)
        error = outcome if isinstance(outcome, Refused) else None
        results.append(PartitionResult(topic=wanted.topic, partition=wanted.partition, error=error))
        if outcome is not None and not isinstance(outcome, Refused):
            records.append(outcome)
    return Result(
        answer=PartitionReassignmentsAltered(partitions=tuple(results)),
        batches=in_batches(records),
    )


def _alter_one(
    image: MetadataImage, wanted: Reassignment, seen: set[PartitionKey]
) -> Record | Refused | None:
    topic = image.topic(wanted.topic)
    partition = None if topic is None else topic.partitions.get(wanted.partition)
    if partition is None:
        return Refused(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            message=f"there is no partition {wanted.topic}-{wanted.partition}",
        )
    if partition.key in seen:
        return Refused(code=ErrorCode.INVALID_REQUEST, message="the partition is named twice")
    seen.add(partition.key)
    if wanted.replicas is None:
        if not partition.is_reassigning:
            return Refused(
                code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                message=f"{wanted.topic}-{wanted.partition} is not being reassigned",
            )
        return change_record(partition, _towards(partition, _origin(partition)))
    refused = _check(image, partition, wanted.replicas)
    return refused or change_record(partition, _towards(partition, wanted.replicas))


def _origin(partition: PartitionRecord) -> tuple[BrokerId, ...]:
    """The replicas before the reassignment under way began. Their order is not kept: what leaves
    is behind what stays."""
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def _towards(partition: PartitionRecord, target: tuple[BrokerId, ...]) -> PartitionRecord:
    """The partition on its way to these replicas."""
    current = partition.replicas
    removing = tuple(replica for replica in current if replica not in target)
    adding = tuple(r for r in target if r not in current or r in partition.adding)
    return with_replicas(partition, (*target, *removing), adding=adding, removing=removing)


def _check(
    image: MetadataImage, partition: PartitionRecord, target: tuple[BrokerId, ...]
) -> Refused | None:
    new = sorted(replica for replica in target if replica not in partition.replicas)
    unknown = [replica for replica in new if replica not in image.brokers]
    why = None
    if not target:
        why = "a partition has at least one replica"
    elif len(set(target)) != len(target):
        why = f"a broker is twice in {list(target)}"
    elif unknown:
        why = f"brokers {unknown} are not registered"
    if why is None:
        return None
    return Refused(code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, message=why)


# ------------------------------------------------------------------------------- progress


def advance(image: MetadataImage, heartbeats: Heartbeats) -> tuple[tuple[Record, ...], ...]:
    """Brings every reassignment on by the step that is possible now, if one is."""
    records: list[Record] = []
    for partition in image.partitions(keys_of(image.index.reassigning)):
        record = change_record(partition, _advanced(image, partition, heartbeats))
        if record is not None:
            records.append(record)
    return in_batches(records)


def _advanced(
    image: MetadataImage, partition: PartitionRecord, heartbeats: Heartbeats
) -> PartitionRecord:
    target = partition.target_replicas
    if any(replica not in partition.isr for replica in partition.adding):
        return partition
    isr = tuple(replica for replica in partition.isr if replica in target)
    min_isr = min_isr_of(image, image.topics[partition.topic_id].name, len(target))
    if len(isr) < min_isr:
        # It would be complete with fewer copies of new records than the topic asks for.
        return partition
    if partition.leader not in target:
        leader = next((r for r in target if r in isr and image.is_active(r)), None)
        return partition if leader is None else with_leader(partition, leader)
    leaving = [replica for replica in partition.isr if replica not in target]
    if not all(may_leave(image, partition, replica, heartbeats) for replica in leaving):
        return partition
    return with_isr(with_min_isr(with_replicas(partition, target), min_isr), isr)


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingReassignment:
    topic: str
    partition: int
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


def ongoing(
    image: MetadataImage, partitions: Iterable[tuple[str, int]] | None = None
) -> tuple[OngoingReassignment, ...]:
    """The reassignments under way, all or those of some partitions."""
    wanted = None if partitions is None else set(partitions)
    return tuple(
        OngoingReassignment(
            topic=name,
            partition=partition.partition,
            replicas=partition.replicas,
            adding=partition.adding,
            removing=partition.removing,
        )
        for partition in image.partitions(keys_of(image.index.reassigning))
        for name in (image.topics[partition.topic_id].name,)
        if wanted is None or (name, partition.partition) in wanted
    )
