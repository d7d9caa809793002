"""Who leads a partition.

A leader is chosen, in the order of the replicas, from
1. the ISR: every member has every committed record;
2. the ELR (KIP-966): so has every member of it, as long as the ISR is below min;
3. nobody: the partition is offline until one of these comes back.

Only where `unclean.leader.election.enable` says that losing records is better than waiting, or an
operator asks for it, is a leader chosen from the replicas that are there, those first that were
in ISR or ELR last (the last-known ELR). A member of the last-known ELR has come back without its
data, so Kafka's rule to elect the last known leader without being asked would lose acknowledged
records; here it counts as unclean.

A candidate is active: registered, not fenced, not shutting down. A planned change of leader leaves
the old leader in the ISR (DESIGN.md, rule 13).
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import ElectLeaders, LeadersElected, PartitionResult, Refused
from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_change import change_record, in_batches, with_isr, with_leader
from quorum.metadata.partition_index import keys_of
from quorum.metadata.records import PartitionRecord, Record
from quorum.metadata.result import Result
from quorum.metadata.topic_settings import allows_unclean_election
from quorum.metadata.types import BrokerId, ElectionType, PartitionKey

MAX_ELECTIONS_PER_PASS: Final = 1000
"""Moving leaders back is no hurry: a large cluster does it in several passes."""

IsCandidate: TypeAlias = Callable[[BrokerId], bool]


def with_new_leader(
    partition: PartitionRecord, is_candidate: IsCandidate, *, unclean: bool
) -> PartitionRecord:
    """The partition with the leader that it should have, now that it has to have another."""
    for broker_id in partition.replicas:
        if broker_id in partition.isr and is_candidate(broker_id):
            return with_leader(partition, broker_id)
    for broker_id in partition.replicas:
        if broker_id in partition.elr and is_candidate(broker_id):
            return with_leader(with_isr(partition, (*partition.isr, broker_id)), broker_id)
    if unclean and not partition.isr:
        # Who is in the ISR and no candidate is shutting down: it is alive, may hold a lease, and
        # may not be dropped before it knows. The moment that it is fenced is soon enough.
        known = [b for b in partition.replicas if b in partition.last_known_elr]
        for broker_id in (*known, *partition.replicas):
            if is_candidate(broker_id):
                return _with_unclean_leader(partition, broker_id)
    return with_leader(partition, None)


def _with_unclean_leader(partition: PartitionRecord, broker_id: BrokerId) -> PartitionRecord:
    """From here on this replica's log is the partition's: nobody else may be elected for what it
    has and the leader has not."""
    return msgspec.structs.replace(
        partition, leader=broker_id, isr=(broker_id,), elr=(), last_known_elr=(), is_recovering=True
    )


def elect_leaderless(
    image: MetadataImage, keys: Iterable[PartitionKey], is_candidate: IsCandidate
) -> list[Record]:
    """Records that give a leader to those partitions without one that can have one."""
    records: list[Record] = []
    for partition in image.partitions(keys):
        if partition.leader is not None:
            continue
        unclean = allows_unclean_election(image, partition.topic_id)
        elected = with_new_leader(partition, is_candidate, unclean=unclean)
        if elected.leader is not None and (record := change_record(partition, elected)):
            records.append(record)
    return records


# ------------------------------------------------------------------- elections on demand


def elect_leaders(image: MetadataImage, command: ElectLeaders) -> Result:
    """An operator asks for preferred leaders, or for leaders at any price."""
    results: list[PartitionResult] = []
    records: list[Record] = []
    decided: set[PartitionKey] = set()
    for topic, number in _wanted(image, command):
        outcome = _elect(image, topic, number, command.election_type, decided)
        if isinstance(outcome, Refused):
            results.append(PartitionResult(topic=topic, partition=number, error=outcome))
        else:
            results.append(PartitionResult(topic=topic, partition=number))
            records.append(outcome)
    return Result(
        answer=LeadersElected(partitions=tuple(results)),
        batches=in_batches(records),
    )


def _wanted(image: MetadataImage, command: ElectLeaders) -> Iterable[tuple[str, int]]:
    if command.partitions is not None:
        return command.partitions
    preferred = command.election_type is ElectionType.PREFERRED
    keys = image.index.imbalanced if preferred else image.index.leaderless
    return [(image.topics[key.topic_id].name, key.partition) for key in keys_of(keys)]


def _elect(
    image: MetadataImage,
    topic_name: str,
    number: int,
    election_type: ElectionType,
    decided: set[PartitionKey],
) -> Record | Refused:
    topic = image.topic(topic_name)
    partition = None if topic is None else topic.partitions.get(number)
    if partition is None:
        return Refused(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            message=f"there is no partition {topic_name}-{number}",
        )
    if partition.key in decided:
        return Refused(
            code=ErrorCode.INVALID_REQUEST, message=f"{topic_name}-{number} is named twice"
        )
    decided.add(partition.key)
    if election_type is ElectionType.PREFERRED:
        elected = with_preferred_leader(image, partition)
    else:
        elected = _unclean(image, partition)
    if isinstance(elected, Refused):
        return elected
    return change_record(partition, elected) or _not_needed(partition.leader)


def with_preferred_leader(
    image: MetadataImage, partition: PartitionRecord
) -> PartitionRecord | Refused:
    """The partition led by its first replica, if that one is in sync and alive."""
    preferred = partition.preferred_leader
    if partition.leader == preferred:
        return _not_needed(preferred)
    if preferred not in partition.isr or not image.is_active(preferred):
        return Refused(
            code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            message=f"the preferred leader, broker {preferred}, is not in sync or not alive",
        )
    return with_leader(partition, preferred)


def _unclean(image: MetadataImage, partition: PartitionRecord) -> PartitionRecord | Refused:
    if partition.leader is not None:
        return _not_needed(partition.leader)
    elected = with_new_leader(partition, image.is_active, unclean=True)
    if elected.leader is None:
        return Refused(
            code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            message="none of the partition's replicas is alive, or one is just shutting down",
        )
    return elected


def _not_needed(leader: BrokerId | None) -> Refused:
    return Refused(
        code=ErrorCode.ELECTION_NOT_NEEDED, message=f"broker {leader} leads the partition already"
    )


# ---------------------------------------------------------------- restoring preferred leaders


def balance_leaders(
    image: MetadataImage, *, imbalance_percentage: int
) -> tuple[tuple[Record, ...], ...]:
    """Moves leaders back to brokers of whose partitions too many are led elsewhere."""
    elsewhere: dict[BrokerId, list[PartitionRecord]] = {}
    for partition in image.partitions(keys_of(image.index.imbalanced)):
        elsewhere.setdefault(partition.preferred_leader, []).append(partition)
    records: list[Record] = []
    for broker_id in sorted(elsewhere):
        partitions = elsewhere[broker_id]
        if not image.is_active(broker_id):
            continue
        if len(partitions) * 100 <= imbalance_percentage * _preferred_count(image, broker_id):
            continue
        for partition in partitions:
            elected = with_preferred_leader(image, partition)
            if not isinstance(elected, Refused) and (record := change_record(partition, elected)):
                records.append(record)
    return in_batches(records[:MAX_ELECTIONS_PER_PASS])


def _preferred_count(image: MetadataImage, broker_id: BrokerId) -> int:
    replicated = image.partitions(image.index.replicated_by(broker_id))
    return sum(partition.preferred_leader == broker_id for partition in replicated)
