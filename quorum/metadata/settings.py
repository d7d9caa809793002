"""The controller's own settings, under Kafka's names."""

from dataclasses import dataclass

from floodmark.config import check, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How the active controller behaves. What all voters must agree on is in the metadata."""

    cluster_id: str
    session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        3000,
        "A broker that is silent for so long is fenced.",
        least=100,
    )
    auto_leader_rebalance: bool = setting(
        "auto.leader.rebalance.enable", True, "Preferred leaders are restored by themselves."
    )
    leader_imbalance_check_interval_s: int = setting(
        "leader.imbalance.check.interval.seconds", 300, "How often leaders are balanced.", least=1
    )
    leader_imbalance_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        10,
        "Leaders move back once more than this share of a broker's is elsewhere.",
        least=0,
        most=100,
    )
    max_partitions_per_topic: int = setting(
        "max.partitions.per.topic", 10_000, "The most partitions that a topic may have.", least=1
    )
    max_partitions: int = setting(
        "max.partitions", 200_000, "The most partitions that a cluster may have.", least=1
    )

    def __post_init__(self) -> None:
        check(self)
