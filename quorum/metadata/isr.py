"""AlterPartition: a leader asks for another ISR (KIP-497, KIP-841, KIP-903).

The rules (DESIGN.md 5, 10 to 13, 17), each of which some history needs:
- the request is of the current registration of the current leader, in its leader epoch, and of the
  partition epoch that is current: two requests that overtake each other cannot both count;
- every member is named with its broker epoch, so that a follower that restarted since the leader
  counted its fetches does not join on the strength of what it had before;
- who joins is registered, not fenced and not shutting down;
- who leaves is fenced, or its heartbeat has shown that it knows the current leader epoch: a former
  leader that does not could still answer reads under its lease, without what came since.
The answer carries the min ISR that belongs to the new partition epoch.
"""

import msgspec

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.brokers import checked_broker
from quorum.metadata.commands import (
    AlteredPartition,
    AlterPartition,
    IsrChange,
    IsrMember,
    PartitionsAltered,
    Refused,
)
from quorum.metadata.heartbeats import Heartbeats
from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_change import change_record, in_batches, with_isr
from quorum.metadata.records import PartitionRecord, Record
from quorum.metadata.result import Result
from quorum.metadata.types import BrokerId, PartitionEpoch, PartitionKey


def alter(image: MetadataImage, command: AlterPartition, heartbeats: Heartbeats) -> Result:
    """Decides on every partition by itself."""
    leader = checked_broker(image, command.broker_id, command.broker_epoch)
    if isinstance(leader, Refused):
        return Result(answer=leader)
    results: list[AlteredPartition] = []
    records: list[Record] = []
    seen: set[PartitionKey] = set()
    for change in command.changes:
        key = PartitionKey(change.topic_id, change.partition)
        error = _check(image, command.broker_id, change, heartbeats)
        if error is None and key in seen:
            error = _invalid("the partition is named twice")
        partition = image.partition(key)
        if error is not None or partition is None:
            results.append(
                AlteredPartition(topic_id=change.topic_id, partition=change.partition, error=error)
            )
            continue
        seen.add(key)
        after = _altered(partition, change)
        record = change_record(partition, after)
        if record is not None:
            records.append(record)
            epoch = record.partition_epoch
        else:
            epoch = partition.partition_epoch
        results.append(_answer(after, epoch))
    return Result(answer=PartitionsAltered(partitions=tuple(results)), batches=in_batches(records))


def _altered(partition: PartitionRecord, change: IsrChange) -> PartitionRecord:
    isr = tuple(member.broker_id for member in change.new_isr)
    after = msgspec.structs.replace(partition, is_recovering=change.is_recovering)
    return after if sorted(isr) == sorted(partition.isr) else with_isr(after, isr)


def _answer(after: PartitionRecord, partition_epoch: PartitionEpoch) -> AlteredPartition:
    return AlteredPartition(
        topic_id=after.topic_id,
        partition=after.partition,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        partition_epoch=partition_epoch,
        isr=after.isr,
        effective_min_isr=after.effective_min_isr,
        is_recovering=after.is_recovering,
    )


def _check(
    image: MetadataImage, broker_id: BrokerId, change: IsrChange, heartbeats: Heartbeats
) -> Refused | None:
    if change.topic_id not in image.topics:
        return Refused(code=ErrorCode.UNKNOWN_TOPIC_ID, message="there is no topic with this id")
    partition = image.partition(PartitionKey(change.topic_id, change.partition))
    if partition is None:
        return Refused(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="there is no such partition"
        )
    return (
        _check_epochs(partition, broker_id, change)
        or _check_shape(partition, change)
        or _check_members(image, partition, change)
        or _check_leavers(image, partition, change, heartbeats)
    )


def _check_epochs(
    partition: PartitionRecord, broker_id: BrokerId, change: IsrChange
) -> Refused | None:
    if change.leader_epoch > partition.leader_epoch:
        # Only committed epochs are given out, so somebody else has committed more.
        return Refused(code=ErrorCode.NOT_CONTROLLER, message="the leader epoch is newer than ours")
    if change.leader_epoch < partition.leader_epoch:
        return Refused(
            code=ErrorCode.FENCED_LEADER_EPOCH,
            message=f"the leader epoch is {partition.leader_epoch}",
        )
    if partition.leader != broker_id:
        return _invalid(f"broker {broker_id} does not lead the partition")
    if change.partition_epoch > partition.partition_epoch:
        return Refused(
            code=ErrorCode.NOT_CONTROLLER, message="the partition epoch is newer than ours"
        )
    if change.partition_epoch < partition.partition_epoch:
        return Refused(
            code=ErrorCode.INVALID_UPDATE_VERSION,
            message=f"the partition epoch is {partition.partition_epoch}",
        )
    return None


def _check_shape(partition: PartitionRecord, change: IsrChange) -> Refused | None:
    isr = [member.broker_id for member in change.new_isr]
    if len(set(isr)) != len(isr):
        return _invalid("a broker is twice in the ISR")
    strangers = sorted(set(isr) - set(partition.replicas))
    if strangers:
        return _invalid(f"brokers {strangers} do not replicate the partition")
    if partition.leader not in isr:
        return _invalid("a leader cannot leave the ISR")
    if change.is_recovering and not partition.is_recovering:
        return _invalid("a leader that has recovered cannot be recovering again")
    if change.is_recovering and len(isr) > 1:
        return _invalid("while the leader is recovering nobody can be in sync with it")
    return None


def _check_members(
    image: MetadataImage, partition: PartitionRecord, change: IsrChange
) -> Refused | None:
    for member in change.new_isr:
        joins = member.broker_id not in partition.isr
        why = _why_ineligible(image, member, joins=joins)
        if why is not None:
            return Refused(
                code=ErrorCode.INELIGIBLE_REPLICA, message=f"broker {member.broker_id} {why}"
            )
    return None


def _why_ineligible(image: MetadataImage, member: IsrMember, *, joins: bool) -> str | None:
    broker = image.brokers.get(member.broker_id)
    if broker is None:
        return "is not registered"
    if broker.broker_epoch != member.broker_epoch:
        return f"has broker epoch {broker.broker_epoch}, not {member.broker_epoch}"
    if joins and broker.fenced:
        return "is fenced"
    if joins and broker.in_controlled_shutdown:
        return "is shutting down"
    return None


def _check_leavers(
    image: MetadataImage, partition: PartitionRecord, change: IsrChange, heartbeats: Heartbeats
) -> Refused | None:
    stay = {member.broker_id for member in change.new_isr}
    for broker_id in partition.isr:
        if broker_id not in stay and not may_leave(image, partition, broker_id, heartbeats):
            return Refused(
                code=ErrorCode.INELIGIBLE_REPLICA,
                message=f"broker {broker_id} may not leave yet: it has not shown that it knows "
                f"leader epoch {partition.leader_epoch}, and its lease may not be over",
            )
    return None


def may_leave(
    image: MetadataImage, partition: PartitionRecord, broker_id: BrokerId, heartbeats: Heartbeats
) -> bool:
    """Whether a member of the ISR cannot take itself for the leader any more (rule 13)."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced or partition.leader_epoch_offset is None:
        return True
    return heartbeats.knows(broker, partition.leader_epoch_offset)


def _invalid(message: str) -> Refused:
    return Refused(code=ErrorCode.INVALID_REQUEST, message=message)
