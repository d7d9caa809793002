"""A broker goes or comes: what becomes of the partitions that it replicates.

A fenced broker leads nothing and is in no ISR. Where its partitions do not fit into one batch, the
first batch fences it and the others follow; should the controller fail in between, the next one
finds a fenced broker that still leads something, and goes on (`maintenance.py`).

A broker on its way out loses its leaderships first and stays in the ISRs; once its heartbeats show
that it knows, it is fenced (DESIGN.md, rule 13: a planned change of leader never drops the old
leader from the ISR in the same step).
"""

from collections.abc import Callable, Collection, Iterable

from quorum.metadata.elections import elect_leaderless, with_new_leader
from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_change import (
    change_record,
    in_batches,
    with_isr,
    without_replica_data,
)
from quorum.metadata.partition_index import keys_of
from quorum.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
)
from quorum.metadata.topic_settings import allows_unclean_election
from quorum.metadata.types import BrokerId, PartitionKey


def fence_records(image: MetadataImage, broker_id: BrokerId) -> list[Record]:
    """Fences a registered broker: it leaves every ISR, and others lead what it led."""
    broker = image.brokers[broker_id]
    records: list[Record] = []
    if not broker.fenced:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=broker.epoch, fenced=True
            )
        )
    keys = set(image.index.with_isr_member(broker_id)) | set(image.index.led_by(broker_id))
    return records + removal_records(image, broker_id, sorted(keys), lost_data=())


def removal_records(
    image: MetadataImage,
    broker_id: BrokerId,
    keys: Iterable[PartitionKey],
    *,
    lost_data: Collection[PartitionKey],
) -> list[Record]:
    """Takes a broker out of the ISRs and leaderships of partitions, and out of the ELRs of those
    whose data it lost."""
    records: list[Record] = []
    for partition in image.partitions(keys):
        after = _removed(partition, broker_id, lost_data=partition.key in lost_data)
        if partition.leader == broker_id:
            unclean = allows_unclean_election(image, partition.topic_id)
            after = with_new_leader(after, active_except(image, broker_id), unclean=unclean)
        record = change_record(partition, after)
        if record is not None:
            records.append(record)
    return records


def _removed(
    partition: PartitionRecord, broker_id: BrokerId, *, lost_data: bool
) -> PartitionRecord:
    if lost_data:
        return without_replica_data(partition, broker_id)
    if broker_id in partition.isr:
        return with_isr(partition, tuple(b for b in partition.isr if b != broker_id))
    return partition


def shutdown_records(image: MetadataImage, broker_id: BrokerId) -> list[Record]:
    """Moves leaders away from a broker that shuts down. It stays in the ISRs for now, and a
    partition that nobody else can lead goes offline."""
    broker = image.brokers[broker_id]
    records: list[Record] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=True
            )
        )
    is_candidate = active_except(image, broker_id)
    for partition in image.partitions(image.index.led_by(broker_id)):
        # Never uncleanly: the leader is alive and can be waited for.
        after = with_new_leader(partition, is_candidate, unclean=False)
        record = change_record(partition, after)
        if record is not None:
            records.append(record)
    return records


def unfence_records(image: MetadataImage, broker: RegisterBrokerRecord) -> list[Record]:
    """Unfences a broker, and lets it lead what has waited for it."""
    unfenced = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=False
    )
    waiting = [
        partition.key
        for partition in image.partitions(keys_of(image.index.leaderless))
        if broker.broker_id in partition.replicas
    ]

    def is_candidate(broker_id: BrokerId) -> bool:
        return broker_id == broker.broker_id or image.is_active(broker_id)

    return [unfenced, *elect_leaderless(image, waiting, is_candidate)]


def fence(image: MetadataImage, broker_id: BrokerId) -> tuple[tuple[Record, ...], ...]:
    """The batches that fence a broker."""
    return in_batches(fence_records(image, broker_id))


def active_except(image: MetadataImage, excluded: BrokerId) -> Callable[[BrokerId], bool]:
    return lambda broker_id: broker_id != excluded and image.is_active(broker_id)
