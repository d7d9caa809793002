"""Configs of topics, of brokers, and the cluster's default (KIP-339).

Where a change moves a partition's min ISR, the partition's record has to say so, because a leader
goes by the min ISR that belongs to the partition epoch it has confirmed (DESIGN.md, rule 10). The
partitions' records come first and the config last: if the controller stops in between, the config
still has its old value and a retry does the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from immutables import Map

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    ConfigChange,
    ConfigsAltered,
    IncrementalAlterConfigs,
    Refused,
    ResourceChange,
    ResourceResult,
)
from quorum.metadata.config_keys import (
    ConfigKey,
    Kind,
    Scope,
    check_value,
    known_keys,
    unknown_key,
)
from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_change import change_record, in_batches, with_min_isr
from quorum.metadata.records import ConfigRecord, PartitionRecord, Record
from quorum.metadata.result import Result
from quorum.metadata.topic_settings import MIN_ISR, min_isr_of
from quorum.metadata.types import (
    CLUSTER_DEFAULT,
    ConfigOperation,
    ConfigResource,
    MetadataOffset,
    ResourceType,
)

NO_PARTITIONS: Final[Map[int, PartitionRecord]] = Map()

_MIN_LAG = "min.compaction.lag.ms"
_MAX_LAG = "max.compaction.lag.ms"


def alter(image: MetadataImage, command: IncrementalAlterConfigs) -> Result:
    """Changes configs; a resource that is refused does not stop the others."""
    results: list[ResourceResult] = []
    records: list[ConfigRecord] = []
    seen: set[ConfigResource] = set()
    for change in command.resources:
        made = _altered(image, change) if change.resource not in seen else _twice(change.resource)
        seen.add(change.resource)
        if isinstance(made, Refused):
            results.append(ResourceResult(resource=change.resource, error=made))
        else:
            results.append(ResourceResult(resource=change.resource))
            records += made
    answer = ConfigsAltered(resources=tuple(results))
    if command.validate_only or not records:
        return Result(answer=answer)
    return Result(answer=answer, batches=in_batches([*_min_isr_changes(image, records), *records]))


def checked_topic_configs(
    configs: tuple[tuple[str, str], ...],
) -> tuple[tuple[str, str], ...] | Refused:
    """The configs of a new topic, if they can be."""
    changes = (
        ConfigChange(key=key, operation=ConfigOperation.SET, value=value) for key, value in configs
    )
    values = _new_values({}, changes, known_keys(of_topic=True))
    return values if isinstance(values, Refused) else tuple(sorted(values.items()))


def _altered(image: MetadataImage, change: ResourceChange) -> list[ConfigRecord] | Refused:
    resource = change.resource
    refused = _check_resource(image, resource)
    if refused is not None:
        return refused
    before = dict(image.config(resource))
    known = known_keys(of_topic=resource.resource_type is ResourceType.TOPIC)
    of_broker = resource.resource_type is ResourceType.BROKER and resource != CLUSTER_DEFAULT
    after = _new_values(before, change.changes, known, of_broker=of_broker)
    if isinstance(after, Refused):
        return after
    return [
        ConfigRecord(
            resource_type=resource.resource_type,
            resource_name=resource.name,
            key=key,
            value=after.get(key),
        )
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _check_resource(image: MetadataImage, resource: ConfigResource) -> Refused | None:
    if resource.resource_type is ResourceType.TOPIC:
        if resource.name not in image.topic_ids:
            return Refused(
                code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                message=f"there is no topic {resource.name[:250]!r}",
            )
        return None
    if resource == CLUSTER_DEFAULT:
        return None
    number = resource.name
    if not (number.isascii() and number.isdecimal() and len(number) <= 10):
        return Refused(code=ErrorCode.INVALID_REQUEST, message=f"{number[:100]!r} is no broker id")
    if int(number) not in image.brokers or str(int(number)) != number:
        return Refused(
            code=ErrorCode.BROKER_ID_NOT_REGISTERED, message=f"broker {number} is not registered"
        )
    return None


def _new_values(
    before: Mapping[str, str],
    changes: Iterable[ConfigChange],
    known: Mapping[str, ConfigKey],
    *,
    of_broker: bool = False,
) -> dict[str, str] | Refused:
    """A resource's configs after all changes, each key checked."""
    after = dict(before)
    seen: set[str] = set()
    for change in changes:
        key = known.get(change.key)
        if key is None:
            return unknown_key(change.key, known)
        if change.key in seen:
            return _invalid(f"{change.key} is named twice")
        seen.add(change.key)
        if of_broker and key.scope is not Scope.BROKER:
            return _invalid(f"{change.key} can be set for {key.scope.value} only")
        value = _new_value(after.get(change.key), change, key)
        if isinstance(value, Refused):
            return value
        if value is None:
            after.pop(change.key, None)
        else:
            after[change.key] = value
    return _check_together(after) or after


def _new_value(current: str | None, change: ConfigChange, key: ConfigKey) -> str | Refused | None:
    """The value of a key after a change; None removes it."""
    if change.operation is ConfigOperation.DELETE:
        return None
    if change.value is None:
        return _invalid(f"{change.key} is given no value")
    value: str | None = change.value
    if change.operation is not ConfigOperation.SET:
        if key.kind is not Kind.LIST:
            return _invalid(f"{change.key} is no list: nothing can be added to it or taken from it")
        value = _edited_list(current, change)
    return value if value is None else check_value(key, value) or value


def _edited_list(current: str | None, change: ConfigChange) -> str | None:
    """A list with items added or taken away, as they come; None if nothing is left."""
    items = [item.strip() for item in (current or "").split(",") if item.strip()]
    given = [item.strip() for item in (change.value or "").split(",") if item.strip()]
    if change.operation is ConfigOperation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items) or None


def _check_together(values: Mapping[str, str]) -> Refused | None:
    """What keys must hold to each other."""
    least, most = values.get(_MIN_LAG), values.get(_MAX_LAG)
    if least is not None and most is not None and int(least) > int(most):
        return _invalid(f"{_MIN_LAG} cannot be more than {_MAX_LAG}")
    return None


def _min_isr_changes(image: MetadataImage, records: Sequence[ConfigRecord]) -> list[Record]:
    """The partitions whose min ISR the new configs move."""
    touched = [record for record in records if record.key == MIN_ISR]
    if not touched:
        return []
    after = image.replay(records, offset=MetadataOffset(image.offset + 1), epoch=image.epoch)
    names = {record.resource_name for record in touched}
    if any(record.resource_type is ResourceType.BROKER for record in touched):
        names = set(image.topic_ids)
    changes: list[Record] = []
    for name in sorted(names):
        topic = image.topic(name)
        partitions = topic.partitions if topic is not None else NO_PARTITIONS
        for number in sorted(partitions):
            partition = partitions[number]
            min_isr = min_isr_of(after, name, len(partition.target_replicas))
            record = change_record(partition, with_min_isr(partition, min_isr))
            changes += [record] if record is not None else []
    return changes


def _twice(resource: ConfigResource) -> Refused:
    return Refused(
        code=ErrorCode.INVALID_REQUEST, message=f"resource {resource.name[:250]!r} is named twice"
    )


def _invalid(message: str) -> Refused:
    return Refused(code=ErrorCode.INVALID_CONFIG, message=message)
