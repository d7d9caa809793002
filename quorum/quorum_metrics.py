"""A voter's metrics, under the names that Kafka's dashboards know."""

from floodmark.metrics import Metrics, Read
from quorum.active_controller import ActiveController
from quorum.election_timer import ElectionTimer, RecentTimes
from quorum.metadata_feed import MetadataFeed
from quorum.raft.port import RaftEngine
from quorum.state_machine import MetadataStateMachine

CONTROLLER = "kafka_controller_kafkacontroller_"
RAFT = "kafka_server_raftmetrics_"
OURS = "floodmark_quorum_"


def register(
    metrics: Metrics,
    *,
    engine: RaftEngine,
    machine: MetadataStateMachine,
    controller: ActiveController,
    feed: MetadataFeed,
    elections: ElectionTimer,
) -> None:
    """Tells `metrics` how to read everything; nothing is counted twice."""
    _controller(metrics, machine, controller)
    _raft(metrics, engine, controller, elections)
    _feed(metrics, feed)


def _controller(
    metrics: Metrics, machine: MetadataStateMachine, controller: ActiveController
) -> None:
    def gauge(name: str, doc: str, read: Read) -> None:
        metrics.gauge(CONTROLLER + name, doc, read)

    def brokers(fenced: bool) -> int:
        return sum(broker.fenced is fenced for broker in machine.image.brokers.values())

    gauge("activecontrollercount", "1 on the active controller.", lambda: controller.is_active)
    gauge("activebrokercount", "Brokers that are not fenced.", lambda: brokers(False))
    gauge("fencedbrokercount", "Brokers that are fenced.", lambda: brokers(True))
    gauge("globaltopiccount", "Topics.", lambda: len(machine.image.topics))
    gauge("globalpartitioncount", "Partitions.", lambda: machine.image.index.count)
    gauge(
        "offlinepartitionscount",
        "Partitions without a leader.",
        lambda: sum(map(len, machine.image.index.leaderless.values())),
    )
    gauge(
        "preferredreplicaimbalancecount",
        "Partitions that are not led by their preferred leader.",
        lambda: sum(map(len, machine.image.index.imbalanced.values())),
    )
    gauge("lastappliedrecordoffset", "The last applied offset.", lambda: machine.image.offset)
    gauge("eventqueuesize", "Commands whose answer is not out yet.", lambda: controller.unanswered)
    counters = controller.counters
    metrics.counter(
        CONTROLLER + "newactivecontrollerscount_total",
        "How often this voter became the active controller.",
        lambda: counters.activations,
    )
    metrics.counter(OURS + "commands_total", "Commands decided.", lambda: counters.commands)
    metrics.counter(OURS + "refused_total", "Commands refused.", lambda: counters.refused)
    metrics.counter(
        OURS + "unknown_outcomes_total",
        "Commands whose outcome could not be told.",
        lambda: counters.unknown_outcomes,
    )
    metrics.counter(
        OURS + "batches_proposed_total", "Batches proposed.", lambda: counters.batches_proposed
    )
    metrics.counter(
        OURS + "drains_total",
        "How often the controller waited because a proposal had failed.",
        lambda: counters.drains,
    )


def _raft(
    metrics: Metrics, engine: RaftEngine, controller: ActiveController, elections: ElectionTimer
) -> None:
    def gauge(name: str, doc: str, read: Read) -> None:
        metrics.gauge(RAFT + name, doc, read)

    # The engine's status may be a moment old; what it has told its observer is not.
    def leader() -> int:
        leader_id = controller.leadership.leader_id
        return -1 if leader_id is None else leader_id

    def state() -> dict[tuple[str, ...], float]:
        leader_id = controller.leadership.leader_id
        if leader_id is None:
            return {("unattached",): 1}
        return {("leader" if leader_id == engine.status().voter_id else "follower",): 1}

    gauge("current_leader", "The leader's id; -1 if none is known.", leader)
    gauge("current_epoch", "Raft's term.", lambda: controller.leadership.term)
    gauge("high_watermark", "The end of what is committed.", lambda: engine.status().high_watermark)
    gauge("log_end_offset", "The end of the log.", lambda: engine.status().log_end_index)
    gauge("log_start_offset", "The start of the log.", lambda: engine.status().log_start_index)
    metrics.gauges(RAFT + "current_state", "What this voter is.", state, labels=("state",))
    _times(metrics, "commit_latency", "From proposal to commit", controller.counters.commit_times)
    _times(metrics, "election_latency", "From no known leader to one", elections.times)


def _times(metrics: Metrics, name: str, what: str, times: RecentTimes) -> None:
    metrics.gauge(f"{RAFT}{name}_avg", f"{what}, in ms, recently.", lambda: times.average_ms)
    metrics.gauge(f"{RAFT}{name}_max", f"{what}, in ms, recently.", lambda: times.max_ms)


def _feed(metrics: Metrics, feed: MetadataFeed) -> None:
    metrics.gauge(
        OURS + "metadata_streams", "Open metadata streams.", lambda: len(feed.observers())
    )
    metrics.gauge(OURS + "feed_bytes", "Batches kept for streams.", lambda: feed.size_bytes)
    metrics.counter(
        OURS + "feed_snapshots_total",
        "Snapshots encoded for streams.",
        lambda: feed.snapshots_encoded,
    )
