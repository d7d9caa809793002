"""Who replicates, follows and leads what, so that no decision has to look at every partition.

A set of partitions is a map from topic to sorted partition numbers, as in Kafka: a hundred thousand
small entries would cost more memory, and above all more garbage collection, than they are worth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from immutables import Map

from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerId, PartitionKey, TopicId

PartitionSet: TypeAlias = Map[TopicId, tuple[int, ...]]
ByBroker: TypeAlias = Map[BrokerId, PartitionSet]

NO_PARTITIONS: Final[PartitionSet] = Map()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionIndex:
    """Derived from the partitions, and kept up to date with each change of one."""

    replicates: ByBroker = field(default_factory=Map)
    in_isr: ByBroker = field(default_factory=Map)
    leads: ByBroker = field(default_factory=Map)
    leaderless: PartitionSet = NO_PARTITIONS
    reassigning: PartitionSet = NO_PARTITIONS
    imbalanced: PartitionSet = NO_PARTITIONS
    """Led by another than the preferred leader."""
    count: int = 0

    def replicated_by(self, broker_id: BrokerId) -> Iterator[PartitionKey]:
        return keys_of(self.replicates.get(broker_id, NO_PARTITIONS))

    def with_isr_member(self, broker_id: BrokerId) -> Iterator[PartitionKey]:
        return keys_of(self.in_isr.get(broker_id, NO_PARTITIONS))

    def led_by(self, broker_id: BrokerId) -> Iterator[PartitionKey]:
        return keys_of(self.leads.get(broker_id, NO_PARTITIONS))

    def is_involved(self, broker_id: BrokerId) -> bool:
        """Leads something, or is in an ISR."""
        return broker_id in self.leads or broker_id in self.in_isr


def keys_of(partitions: PartitionSet) -> Iterator[PartitionKey]:
    """The members of a set, always in the same order."""
    for topic_id in sorted(partitions):
        for partition in partitions[topic_id]:
            yield PartitionKey(topic_id, partition)


class PartitionIndexBuilder:
    """Takes changes of partitions one by one; `finish` gives the next index."""

    def __init__(self, base: PartitionIndex) -> None:
        self._replicates = _ByBrokerBuilder(base.replicates)
        self._in_isr = _ByBrokerBuilder(base.in_isr)
        self._leads = _ByBrokerBuilder(base.leads)
        self._leaderless = _SetBuilder(base.leaderless)
        self._reassigning = _SetBuilder(base.reassigning)
        self._imbalanced = _SetBuilder(base.imbalanced)
        self._count = base.count

    def change(
        self, key: PartitionKey, old: PartitionRecord | None, new: PartitionRecord | None
    ) -> None:
        """`old` is None for a new partition, `new` for one that goes."""
        if old is None and new is not None:
            self._add(key, new)
            return
        self._replicates.move(key, old.replicas if old else (), new.replicas if new else ())
        self._in_isr.move(key, old.isr if old else (), new.isr if new else ())
        self._leads.move(key, _leaders(old), _leaders(new))
        self._leaderless.mark(key, was=_is_leaderless(old), is_in=_is_leaderless(new))
        self._reassigning.mark(key, was=_is_reassigning(old), is_in=_is_reassigning(new))
        self._imbalanced.mark(key, was=_is_imbalanced(old), is_in=_is_imbalanced(new))
        self._count += (new is not None) - (old is not None)

    def _add(self, key: PartitionKey, new: PartitionRecord) -> None:
        """A new partition: a snapshot has nothing else, and a hundred thousand of them."""
        self._replicates.add(key, new.replicas)
        self._in_isr.add(key, new.isr)
        if new.leader is None:
            self._leaderless.put(key, True)
        else:
            self._leads.add(key, (new.leader,))
            if new.leader != new.replicas[0]:
                self._imbalanced.put(key, True)
        if new.adding or new.removing:
            self._reassigning.put(key, True)
        self._count += 1

    def finish(self) -> PartitionIndex:
        return PartitionIndex(
            replicates=self._replicates.finish(),
            in_isr=self._in_isr.finish(),
            leads=self._leads.finish(),
            leaderless=self._leaderless.finish(),
            reassigning=self._reassigning.finish(),
            imbalanced=self._imbalanced.finish(),
            count=self._count,
        )


class _SetBuilder:
    """Changes to a set. A topic without partitions has no entry."""

    def __init__(self, base: PartitionSet) -> None:
        self._base = base
        self.changed: dict[TopicId, dict[int, bool]] = {}

    def mark(self, key: PartitionKey, *, was: bool, is_in: bool) -> None:
        if was != is_in:
            self.put(key, is_in)

    def put(self, key: PartitionKey, is_in: bool) -> None:
        topic_id, partition = key
        self.changed.setdefault(topic_id, {})[partition] = is_in

    def finish(self) -> PartitionSet:
        # One by one, each change would copy the path to it.
        after = self._base.mutate()
        for topic_id, changed in self.changed.items():
            before = self._base.get(topic_id, ())
            partitions = [partition for partition in before if partition not in changed]
            partitions += [partition for partition, is_in in changed.items() if is_in]
            if partitions:
                partitions.sort()
                after[topic_id] = tuple(partitions)
            elif before:
                del after[topic_id]
        return after.finish()


class _ByBrokerBuilder:
    """Changes to the sets of brokers. A broker without partitions has no entry."""

    def __init__(self, base: ByBroker) -> None:
        self._base = base
        self._changed: dict[BrokerId, _SetBuilder] = {}

    def add(self, key: PartitionKey, brokers: tuple[BrokerId, ...]) -> None:
        topic_id, partition = key
        for broker_id in brokers:
            topics = self._of(broker_id).changed
            changed = topics.get(topic_id)
            if changed is None:
                topics[topic_id] = {partition: True}
            else:
                changed[partition] = True

    def move(self, key: PartitionKey, old: tuple[BrokerId, ...], new: tuple[BrokerId, ...]) -> None:
        if old == new:
            return
        for broker_id in old:
            if broker_id not in new:
                self._of(broker_id).put(key, False)
        for broker_id in new:
            if broker_id not in old:
                self._of(broker_id).put(key, True)

    def finish(self) -> ByBroker:
        after = self._base
        for broker_id, builder in self._changed.items():
            partitions = builder.finish()
            if partitions:
                after = after.set(broker_id, partitions)
            elif broker_id in after:
                after = after.delete(broker_id)
        return after

    def _of(self, broker_id: BrokerId) -> _SetBuilder:
        builder = self._changed.get(broker_id)
        if builder is None:
            builder = _SetBuilder(self._base.get(broker_id, NO_PARTITIONS))
            self._changed[broker_id] = builder
        return builder


def _leaders(partition: PartitionRecord | None) -> tuple[BrokerId, ...]:
    if partition is None or partition.leader is None:
        return ()
    return (partition.leader,)


def _is_leaderless(partition: PartitionRecord | None) -> bool:
    return partition is not None and partition.leader is None


def _is_reassigning(partition: PartitionRecord | None) -> bool:
    return partition is not None and bool(partition.adding or partition.removing)


def _is_imbalanced(partition: PartitionRecord | None) -> bool:
    return (
        partition is not None
        and partition.leader is not None
        and partition.leader != partition.replicas[0]
    )
