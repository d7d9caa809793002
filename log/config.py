"""The configuration of a log: topic properties under Kafka's names, with Kafka's defaults."""

from dataclasses import dataclass

from floodmark.config import check, setting

DAY_MS = 24 * 60 * 60 * 1000
NO_LIMIT_MS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How one partition's log is kept."""

    segment_bytes: int = setting(
        "segment.bytes",
        1024**3,
        "A new segment begins before one grows larger.",
        least=14,
        most=2**31 - 1,
    )
    segment_ms: int = setting(
        "segment.ms", 7 * DAY_MS, "A new segment begins once one is so old.", least=1
    )
    segment_index_bytes: int = setting(
        "segment.index.bytes", 10 * 1024**2, "The most that an offset index may take.", least=8
    )
    index_interval_bytes: int = setting(
        "index.interval.bytes", 4096, "How far apart index entries are.", least=0
    )
    retention_ms: int | None = setting(
        "retention.ms", 7 * DAY_MS, "Segments whose records are all older are deleted.", least=0
    )
    retention_bytes: int | None = setting(
        "retention.bytes", None, "The oldest segments are deleted beyond this size.", least=0
    )
    cleanup_policy: frozenset[str] = setting(
        "cleanup.policy",
        frozenset({"delete"}),
        "Delete old segments, compact by key, or both.",
        one_of=("delete", "compact"),
    )
    min_compaction_lag_ms: int = setting(
        "min.compaction.lag.ms", 0, "Younger records are not compacted.", least=0
    )
    max_compaction_lag_ms: int = setting(
        "max.compaction.lag.ms", NO_LIMIT_MS, "Older records are compacted in any case.", least=1
    )
    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio",
        0.5,
        "Compaction is worth its while from this share of new records on.",
        least=0,
        most=1,
    )
    delete_retention_ms: int = setting(
        "delete.retention.ms", DAY_MS, "How long compaction keeps tombstones.", least=0
    )
    message_timestamp_type: str = setting(
        "message.timestamp.type",
        "CreateTime",
        "Whose time a record has: its producer's or the broker's.",
        one_of=("CreateTime", "LogAppendTime"),
    )
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms",
        NO_LIMIT_MS,
        "How far a producer's time may lie in the past.",
        least=0,
    )
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms",
        60 * 60 * 1000,
        "How far a producer's time may lie in the future.",
        least=0,
    )
    max_message_bytes: int = setting(
        "max.message.bytes", 1048588, "The largest batch that a producer may send.", least=0
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms", DAY_MS, "A producer so long silent is forgotten.", least=1
    )
    flush_mode: str = setting(
        "log.flush.mode",
        "group",
        "What counts as durable: group, what was synced to disk; os, what was written.",
        one_of=("group", "os"),
    )

    def __post_init__(self) -> None:
        check(self)

    @property
    def uses_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"
