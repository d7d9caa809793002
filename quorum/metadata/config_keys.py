"""The configs that live in the metadata: their keys, types and ranges.

A topic's configs are those of `log.config.LogConfig` and the two that the controller goes by. The
cluster's default and a broker's own know the same under Kafka's names for brokers, and some more.
Keys of Kafka's that nothing here uses are taken as they are: a tool that sets them must not fail.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from enum import Enum
from typing import Final

from floodmark.config import Setting, settings_of
from kafka_wire.error_codes import ErrorCode
from log.config import LogConfig
from quorum.metadata.commands import Refused
from quorum.metadata.topic_settings import (
    DEFAULT_PARTITIONS,
    DEFAULT_REPLICATION_FACTOR,
    FLUSH_MODE,
    MIN_ISR,
    UNCLEAN,
)

MAX_VALUE: Final = 32 * 1024
"""Characters in a value."""


class Kind(Enum):
    """How a value is written."""

    NUMBER = "a whole number"
    LIMIT = "a whole number, or -1 for no limit"
    FRACTION = "a number"
    BOOLEAN = "true or false"
    LIST = "a list with commas"
    TEXT = "a text"


class Scope(Enum):
    """What a key can be set for."""

    TOPIC = "a topic"
    CLUSTER = "the cluster"
    BROKER = "the cluster or a single broker"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    setting: Setting
    kind: Kind
    scope: Scope


def known_keys(*, of_topic: bool) -> Mapping[str, ConfigKey]:
    """What can be set for a topic, or for the cluster and its brokers."""
    return _TOPIC_KEYS if of_topic else _BROKER_KEYS


def unknown_key(key: str, known: Mapping[str, ConfigKey]) -> Refused:
    nearest = difflib.get_close_matches(key[:100], sorted(known), n=1, cutoff=0.0)
    return _invalid(f"there is no config {key[:100]!r}; the nearest is {nearest[0]!r}")


def check_value(key: ConfigKey, value: str) -> Refused | None:
    """Why a key cannot have a value."""
    described = key.setting
    if len(value) > MAX_VALUE:
        return _invalid(f"{described.name} has a value of more than {MAX_VALUE} characters")
    items = [item.strip() for item in value.split(",")] if key.kind is Kind.LIST else [value]
    for item in items:
        if described.one_of and item not in described.one_of:
            allowed = ", ".join(described.one_of)
            return _invalid(f"{described.name} cannot be {value!r}: use one of {allowed}")
    if key.kind is Kind.BOOLEAN and value not in ("true", "false"):
        return _invalid(f"{described.name} cannot be {value!r}: use true or false")
    if key.kind in (Kind.NUMBER, Kind.LIMIT, Kind.FRACTION):
        return _check_number(key, value)
    return None


def _check_number(key: ConfigKey, value: str) -> Refused | None:
    described = key.setting
    number = parse_number(key.kind, value)
    if number is None:
        return _invalid(f"{described.name} cannot be {value[:100]!r}: it is {key.kind.value}")
    if key.kind is Kind.LIMIT and number == -1:
        return None
    if described.least is not None and number < described.least:
        return _invalid(f"{described.name} cannot be {value}: use at least {described.least}")
    if described.most is not None and number > described.most:
        return _invalid(f"{described.name} cannot be {value}: use at most {described.most}")
    return None


def parse_number(kind: Kind, value: str) -> float | None:
    digits = value[1:] if value[:1] == "-" else value
    if kind is not Kind.FRACTION:
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19):
            return None
        return int(value)
    try:
        number = float(value)
    except ValueError:
        return None
    return number if number == number and abs(number) != float("inf") else None


def _invalid(message: str) -> Refused:
    return Refused(code=ErrorCode.INVALID_CONFIG, message=message)


# ------------------------------------------------------------------------------ the tables

_BROKER_NAMES: Final[Mapping[str, str]] = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "cleanup.policy": "log.cleanup.policy",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "max.message.bytes": "message.max.bytes",
}
"""What Kafka calls the brokers' default of a topic config."""

_BROKER_ONLY: Final = (FLUSH_MODE, "producer.id.expiration.ms")
"""Settings of a log that all replicas, or all topics, must agree on."""

_UNUSED_OF_TOPICS: Final = (
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "segment.jitter.ms",
)
_UNUSED_OF_BROKERS: Final = (
    "background.threads",
    "compression.type",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
    "log.preallocate",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def _number(name: str, doc: str, *, least: int, most: int, scope: Scope) -> ConfigKey:
    described = Setting(name=name, doc=doc, least=least, most=most)
    return ConfigKey(setting=described, kind=Kind.NUMBER, scope=scope)


def _min_isr(scope: Scope) -> ConfigKey:
    return _number(MIN_ISR, "How many must be in sync.", least=1, most=2**31 - 1, scope=scope)


def _unclean(scope: Scope) -> ConfigKey:
    described = Setting(
        name=UNCLEAN, doc="Whether a leader without all records is better than none"
    )
    return ConfigKey(setting=described, kind=Kind.BOOLEAN, scope=scope)


def _log_keys() -> dict[str, ConfigKey]:
    described = settings_of(LogConfig)
    kinds = {field.name: _kind_of(str(field.type)) for field in dataclasses.fields(LogConfig)}
    return {
        found.name: ConfigKey(setting=found, kind=kinds[name], scope=Scope.TOPIC)
        for name, found in described.items()
    }


def _kind_of(written: str) -> Kind:
    """The kind of a field from its type, as Python writes it."""
    return {
        "<class 'int'>": Kind.NUMBER,
        "int | None": Kind.LIMIT,
        "<class 'float'>": Kind.FRACTION,
        "<class 'bool'>": Kind.BOOLEAN,
        "frozenset[str]": Kind.LIST,
        "<class 'str'>": Kind.TEXT,
    }[written]


def _unused(names: tuple[str, ...], scope: Scope) -> dict[str, ConfigKey]:
    doc = "Taken, and not used."
    return {
        name: ConfigKey(setting=Setting(name=name, doc=doc), kind=Kind.TEXT, scope=scope)
        for name in names
    }


def _topic_keys() -> dict[str, ConfigKey]:
    keys = {name: key for name, key in _log_keys().items() if name not in _BROKER_ONLY}
    keys[MIN_ISR] = _min_isr(Scope.TOPIC)
    keys[UNCLEAN] = _unclean(Scope.TOPIC)
    return keys | _unused(_UNUSED_OF_TOPICS, Scope.TOPIC)


def _broker_keys() -> dict[str, ConfigKey]:
    keys: dict[str, ConfigKey] = {}
    for name, key in _log_keys().items():
        broker_name = _BROKER_NAMES.get(name, name)
        described = dataclasses.replace(key.setting, name=broker_name)
        scope = Scope.CLUSTER if name in _BROKER_ONLY else Scope.BROKER
        keys[broker_name] = ConfigKey(setting=described, kind=key.kind, scope=scope)
    keys[MIN_ISR] = _min_isr(Scope.CLUSTER)
    keys[UNCLEAN] = _unclean(Scope.CLUSTER)
    for name, most in ((DEFAULT_PARTITIONS, 10_000), (DEFAULT_REPLICATION_FACTOR, 32_767)):
        doc = "What a new topic has that does not say so."
        keys[name] = _number(name, doc, least=1, most=most, scope=Scope.CLUSTER)
    lag = "replica.lag.time.max.ms"
    doc = "A follower that has not caught up for so long leaves the ISR."
    keys[lag] = _number(lag, doc, least=1, most=2**31 - 1, scope=Scope.CLUSTER)
    return keys | _unused(_UNUSED_OF_BROKERS, Scope.BROKER)


_TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = _topic_keys()
_BROKER_KEYS: Final[Mapping[str, ConfigKey]] = _broker_keys()
