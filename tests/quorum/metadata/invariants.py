"""What must hold of every image, and of every step from one image to the next."""

from collections.abc import Iterator

from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_index import PartitionIndex, PartitionIndexBuilder
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import PartitionKey


def all_partitions(image: MetadataImage) -> Iterator[PartitionRecord]:
    for topic_id in sorted(image.topics):
        topic = image.topics[topic_id]
        for number in sorted(topic.partitions):
            yield topic.partitions[number]


def check_image(image: MetadataImage) -> None:
    builder = PartitionIndexBuilder(PartitionIndex())
    for partition in all_partitions(image):
        check_partition(image, partition)
        builder.change(partition.key, None, partition)
    assert builder.finish() == image.index, "the index says what the partitions say"
    assert {topic.name: topic_id for topic_id, topic in image.topics.items()} == dict(
        image.topic_ids
    )
    for broker_id, broker in image.brokers.items():
        if broker.fenced:
            assert not image.index.is_involved(broker_id), "who is fenced leads and syncs nothing"


def check_partition(image: MetadataImage, partition: PartitionRecord) -> None:
    replicas, isr, elr = partition.replicas, partition.isr, partition.elr
    assert len(set(replicas)) == len(replicas) >= 1, "replicas are on distinct brokers"
    assert len(set(isr)) == len(isr)
    assert set(isr) <= set(replicas), "the ISR is of replicas"
    assert set(elr) <= set(replicas), "the ELR is of replicas"
    assert not set(elr) & set(isr), "nobody is in the ISR and in the ELR"
    assert not set(partition.last_known_elr) & (set(isr) | set(elr))
    assert partition.effective_min_isr >= 1
    if len(isr) >= partition.effective_min_isr:
        assert elr == (), "the ELR is empty while the ISR is at min"
    if partition.leader is not None:
        assert partition.leader in isr, "a leader is in the ISR"
        assert image.is_active(partition.leader), "a leader is alive"
    else:
        alive = [b for b in (*isr, *elr) if image.is_active(b)]
        assert alive == [], "a partition that can have a leader has one"
    assert set(partition.adding) <= set(replicas)
    assert set(partition.removing) <= set(replicas)
    assert len(partition.directories) in (0, len(replicas))


def check_step(before: MetadataImage, after: MetadataImage) -> None:
    """What holds between an image and the next, whatever the command was."""
    for new in all_partitions(after):
        old = before.partition(new.key)
        if old is not None:
            check_partition_step(after, old, new)


def check_partition_step(after: MetadataImage, old: PartitionRecord, new: PartitionRecord) -> None:
    if old == new:
        return
    assert new.partition_epoch == old.partition_epoch + 1, "the partition epoch counts changes"
    assert new.leader_epoch >= old.leader_epoch, "leader epochs only grow"
    if new.leader != old.leader:
        assert new.leader_epoch == old.leader_epoch + 1, "a new leader has a new epoch"
        assert new.leader_epoch_offset == after.offset
        if new.leader is not None and new.leader not in (*old.isr, *old.elr):
            assert new.is_recovering, "only an unclean leader comes from elsewhere"
            assert new.isr == (new.leader,)
        if old.leader is not None and old.leader not in new.isr:
            broker = after.brokers.get(old.leader)
            assert broker is None or broker.fenced, "no leader is dropped in one step"
    assert set(new.elr) <= {*old.isr, *old.elr}, "the ELR is of who was in sync"
    entered = set(new.elr) - set(old.elr)
    if entered:
        assert len(new.isr) < new.effective_min_isr, "who enters the ELR took the ISR below min"
    if new.effective_min_isr < old.effective_min_isr:
        assert new.elr == (), "a lower min empties the ELR"


def newly_fenced(before: MetadataImage, after: MetadataImage) -> list[int]:
    return [
        broker_id
        for broker_id, broker in sorted(after.brokers.items())
        if broker.fenced and (old := before.brokers.get(broker_id)) is not None and not old.fenced
    ]


def left_isr(before: MetadataImage, after: MetadataImage) -> Iterator[tuple[PartitionKey, int]]:
    """Who left which ISR without being fenced."""
    for new in all_partitions(after):
        old = before.partition(new.key)
        for broker_id in old.isr if old is not None else ():
            broker = after.brokers.get(broker_id)
            if broker_id not in new.isr and broker is not None and not broker.fenced:
                yield new.key, broker_id
