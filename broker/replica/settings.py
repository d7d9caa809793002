"""Settings of replication, under Kafka's names."""

from dataclasses import dataclass

from floodmark.config import check, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """How leaders and followers of one broker behave."""

    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        10_000,
        "A follower that has not caught up for so long leaves the ISR.",
        least=1,
    )
    replica_fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms",
        1_000,
        "How long a follower waits after a fetch that failed.",
        least=0,
    )
    isr_retry_backoff_ms: int = 100
    """How long a leader waits before it proposes an ISR again."""

    def __post_init__(self) -> None:
        check(self)
