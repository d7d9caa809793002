"""A partition before and after a decision: ELR upkeep, epochs, and the record of the difference.

A decision makes the partition as it shall be (`with_isr`, `with_leader`, ...); `change_record`
compares it with the partition as it is. So epochs are bumped in one place: the partition epoch
with every record, the leader epoch with every change of leader.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from kafka_wire.types import LeaderEpoch
from quorum.metadata.records import PartitionChangeRecord, PartitionRecord, Record
from quorum.metadata.types import (
    UNASSIGNED_DIRECTORY,
    BrokerId,
    DirectoryId,
    PartitionEpoch,
)

RECORDS_PER_BATCH: Final = 2000
"""Of partition changes: far below the limit of a batch in bytes, also with many replicas."""


def with_isr(
    partition: PartitionRecord,
    isr: tuple[BrokerId, ...],
    *,
    lost_data: Collection[BrokerId] = (),
) -> PartitionRecord:
    """The partition with another ISR.

    While the ISR is below min, the high watermark stands still, so whoever leaves has every
    committed record: it enters the ELR, and stays there until the ISR is at min again. Then the
    high watermark moves without it, and the ELR is emptied (DESIGN.md, rule 17; KIP-966). Whoever
    lost its data is no candidate, and is remembered as the last that was one.
    """
    if len(isr) >= partition.effective_min_isr:
        return msgspec.structs.replace(partition, isr=isr, elr=(), last_known_elr=())
    before = [*partition.isr, *partition.elr]
    left = [b for b in partition.replicas if b in before and b not in isr]
    elr = tuple(b for b in left if b not in lost_data)
    known = [*left, *partition.last_known_elr]
    return msgspec.structs.replace(
        partition,
        isr=isr,
        elr=elr,
        last_known_elr=tuple(
            b for b in partition.replicas if b in known and b not in elr and b not in isr
        ),
    )


def without_replica_data(partition: PartitionRecord, broker_id: BrokerId) -> PartitionRecord:
    """The partition once a replica has come back without its data (DESIGN.md, rule 8)."""
    if broker_id in partition.isr:
        isr = tuple(member for member in partition.isr if member != broker_id)
        return with_isr(partition, isr, lost_data=(broker_id,))
    if broker_id in partition.elr:
        return with_isr(partition, partition.isr, lost_data=(broker_id,))
    return partition


def with_leader(partition: PartitionRecord, leader: BrokerId | None) -> PartitionRecord:
    return msgspec.structs.replace(partition, leader=leader)


def with_min_isr(partition: PartitionRecord, effective_min_isr: int) -> PartitionRecord:
    """The partition with another min ISR.

    A lower min may let the high watermark move on at once, without the members of the ELR, so
    they are candidates no more. A higher one takes nothing from them.
    """
    changed = msgspec.structs.replace(partition, effective_min_isr=effective_min_isr)
    if effective_min_isr < partition.effective_min_isr:
        return msgspec.structs.replace(changed, elr=(), last_known_elr=())
    return changed


def with_replicas(
    partition: PartitionRecord,
    replicas: tuple[BrokerId, ...],
    *,
    adding: tuple[BrokerId, ...] = (),
    removing: tuple[BrokerId, ...] = (),
) -> PartitionRecord:
    """The partition with other replicas. ELR and directories follow; the ISR is the caller's."""
    return msgspec.structs.replace(
        partition,
        replicas=replicas,
        adding=adding,
        removing=removing,
        elr=tuple(b for b in partition.elr if b in replicas),
        last_known_elr=tuple(b for b in partition.last_known_elr if b in replicas),
        directories=_directories_of(partition, replicas),
    )


def with_directory(
    partition: PartitionRecord, broker_id: BrokerId, directory: DirectoryId
) -> PartitionRecord:
    """The partition with one replica's directory known."""
    directories = partition.directories or (UNASSIGNED_DIRECTORY,) * len(partition.replicas)
    return msgspec.structs.replace(
        partition,
        directories=tuple(
            directory if replica == broker_id else known
            for replica, known in zip(partition.replicas, directories, strict=True)
        ),
    )


def directory_of(partition: PartitionRecord, broker_id: BrokerId) -> DirectoryId:
    """Where the replica is, as far as it is known."""
    if not partition.directories or broker_id not in partition.replicas:
        return UNASSIGNED_DIRECTORY
    return partition.directories[partition.replicas.index(broker_id)]


def change_record(old: PartitionRecord, new: PartitionRecord) -> PartitionChangeRecord | None:
    """The record that turns `old` into `new`; None if they are the same."""
    if old == new:
        return None
    leader_changed = old.leader != new.leader
    return PartitionChangeRecord(
        topic_id=old.topic_id,
        partition=old.partition,
        partition_epoch=PartitionEpoch(old.partition_epoch + 1),
        leader_epoch=LeaderEpoch(old.leader_epoch + 1) if leader_changed else None,
        has_leader=new.leader is not None if leader_changed else None,
        leader=new.leader if leader_changed else None,
        isr=new.isr if new.isr != old.isr else None,
        elr=new.elr if new.elr != old.elr else None,
        last_known_elr=new.last_known_elr if new.last_known_elr != old.last_known_elr else None,
        replicas=new.replicas if new.replicas != old.replicas else None,
        adding=new.adding if new.adding != old.adding else None,
        removing=new.removing if new.removing != old.removing else None,
        directories=new.directories if new.directories != old.directories else None,
        effective_min_isr=(
            new.effective_min_isr if new.effective_min_isr != old.effective_min_isr else None
        ),
        is_recovering=new.is_recovering if new.is_recovering != old.is_recovering else None,
    )


def in_batches(records: Iterable[Record]) -> tuple[tuple[Record, ...], ...]:
    """Changes that do not depend on each other, in batches that are not too large."""
    every = tuple(records)
    return tuple(
        every[start : start + RECORDS_PER_BATCH]
        for start in range(0, len(every), RECORDS_PER_BATCH)
    )


def _directories_of(
    partition: PartitionRecord, replicas: tuple[BrokerId, ...]
) -> tuple[DirectoryId, ...]:
    directories = tuple(directory_of(partition, replica) for replica in replicas)
    if all(directory == UNASSIGNED_DIRECTORY for directory in directories):
        return ()
    return directories
