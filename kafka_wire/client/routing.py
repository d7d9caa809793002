"""Where a request goes: metadata is fetched and refreshed, leaders and coordinators are found."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias, TypeVar

from kafka_wire.client.cluster import Address, Cluster, CoordinatorType
from kafka_wire.client.errors import ClientError, ConnectError, UnroutableError
from kafka_wire.client.steps import Call, CallAll, Retry, Step, call, group_by, only, retrying
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import UnsupportedVersionError
from kafka_wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka_wire.messages.find_coordinator import Coordinator
from kafka_wire.messages.metadata import MetadataRequestTopic
from kafka_wire.schema import Response
from kafka_wire.types import TopicPartition

T = TypeVar("T")
Outcome: TypeAlias = T | KafkaError | ClientError
"""What became of one partition's part of a request."""

STALE_LEADER = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Answers after which the metadata of the topic is asked for again."""

STALE_COORDINATOR = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def refresh(
    cluster: Cluster,
    topics: Collection[str] | None,
    *,
    timeout_ms: int,
    allow_auto_topic_creation: bool = False,
) -> Step[None]:
    """Asks any broker for metadata: of the topics, or of all topics for `None`."""
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=allow_auto_topic_creation)
    # Versions below 4 cannot say that a topic must not be created, and 0 has no way to ask
    # for no topics at all.
    response = yield from call(request, MetadataResponse, timeout_ms=timeout_ms, first_version=4)
    _accept_metadata(cluster, response)


def refresh_by_id(cluster: Cluster, topic_ids: Collection[bytes], *, timeout_ms: int) -> Step[None]:
    """Asks any broker for the topics with these ids (KIP-516)."""
    wanted = [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in topic_ids]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    response = yield from call(request, MetadataResponse, timeout_ms=timeout_ms, first_version=12)
    _accept_metadata(cluster, response)


def before_sending(step: Step[T]) -> Step[T]:
    """Runs what comes before a request: whatever goes wrong here, the request was not sent."""
    try:
        return (yield from step)
    except KafkaError as error:
        raise UnroutableError(error.code, error.message) from error
    except ClientError as error:
        if not error.maybe_applied:
            raise
        raise ConnectError(f"nobody said where to send the request: {error}") from error


def ensure_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    *,
    timeout_ms: int,
    allow_auto_topic_creation: bool = False,
) -> Step[None]:
    """Fetches metadata for partitions whose leader is not known; one may have none afterwards."""
    missing = sorted({p.topic for p in partitions if not _has_leader(cluster, p)})
    if missing:
        yield from refresh(
            cluster,
            missing,
            timeout_ms=timeout_ms,
            allow_auto_topic_creation=allow_auto_topic_creation,
        )


def call_leaders(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    build: Callable[[list[TopicPartition]], Call],
    parse: Callable[[Response | None, list[TopicPartition]], Mapping[TopicPartition, Outcome[T]]],
    *,
    timeout_ms: int,
    allow_auto_topic_creation: bool = False,
) -> Step[dict[TopicPartition, Outcome[T]]]:
    """Sends each leader its share of the partitions, all at once, and collects the outcomes.

    `build` makes the request for one leader; its `node_id` is filled in here. Metadata that
    proves to be old is marked, so that the next attempt asks again.
    """
    yield from before_sending(
        ensure_leaders(
            cluster,
            partitions,
            timeout_ms=timeout_ms,
            allow_auto_topic_creation=allow_auto_topic_creation,
        )
    )
    outcomes: dict[TopicPartition, Outcome[T]] = {}
    reachable = []
    for target in partitions:
        try:
            cluster.leader(target)
            reachable.append(target)
        except KafkaError as error:
            outcomes[target] = error
    shares = group_by(reachable, lambda target: cluster.leader(target)[0])
    calls = [_to_node(node_id, build(share)) for node_id, share in shares.items()]
    answers = (yield CallAll(calls=calls)) if calls else []
    for share, answer in zip(shares.values(), answers, strict=True):
        if isinstance(answer, ClientError):
            outcomes.update(dict.fromkeys(share, answer))
        else:
            outcomes.update(parse(answer, share))
    cluster.mark_stale(t.topic for t, outcome in outcomes.items() if _is_stale(outcome))
    return outcomes


def find_coordinator(
    cluster: Cluster, kind: CoordinatorType, key: str, *, timeout_ms: int
) -> Step[int]:
    """The node that coordinates a group or a transactional id, from memory if it is known."""
    known = cluster.coordinator(kind, key)
    if known is not None:
        return known
    try:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        response = yield from call(
            request, FindCoordinatorResponse, timeout_ms=timeout_ms, first_version=4
        )
        found = only(response.coordinators, "coordinator")
    except UnsupportedVersionError:
        request = FindCoordinatorRequest(key_type=kind, key=key)
        response = yield from call(
            request,
            FindCoordinatorResponse,
            timeout_ms=timeout_ms,
            # Version 0 knows groups only.
            first_version=0 if kind is CoordinatorType.GROUP else 1,
            last_version=3,
        )
        found = Coordinator(
            key=key,
            node_id=response.node_id,
            host=response.host,
            port=response.port,
            error_code=response.error_code,
            error_message=response.error_message,
        )
    if found.error_code:
        raise KafkaError(ErrorCode.of(found.error_code), found.error_message)
    cluster.set_coordinator(
        kind, key, node_id=found.node_id, address=Address(found.host, found.port)
    )
    return found.node_id


def at_coordinator(
    cluster: Cluster,
    kind: CoordinatorType,
    key: str,
    attempt: Callable[[int], Step[T]],
    retry: Retry,
    *,
    timeout_ms: int,
    repeatable: bool,
    is_write: bool = False,
    doubtful: bool = False,
) -> Step[T]:
    """Runs `attempt` with the coordinator's node id; looks for it again where it has moved."""

    def once() -> Step[T]:
        try:
            node_id = yield from before_sending(
                find_coordinator(cluster, kind, key, timeout_ms=timeout_ms)
            )
            return (yield from attempt(node_id))
        except KafkaError as error:
            if error.code in STALE_COORDINATOR:
                cluster.forget_coordinator(kind, key)
            raise
        except ClientError:
            cluster.forget_coordinator(kind, key)
            raise

    return (
        yield from retrying(
            once, retry, repeatable=repeatable, is_write=is_write, doubtful=doubtful
        )
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    return group_by(partitions, lambda target: target.topic)


def _accept_metadata(cluster: Cluster, response: MetadataResponse) -> None:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code), "the broker refused to give metadata")
    cluster.update(response)


def _has_leader(cluster: Cluster, target: TopicPartition) -> bool:
    if cluster.is_stale(target.topic):
        return False
    try:
        cluster.leader(target)
    except KafkaError:
        return False
    return True


def _is_stale(outcome: object) -> bool:
    if isinstance(outcome, KafkaError):
        return outcome.code in STALE_LEADER
    return isinstance(outcome, ClientError)


def _to_node(node_id: int, request: Call) -> Call:
    return Call(
        node_id=node_id,
        request=request.request,
        timeout_ms=request.timeout_ms,
        first_version=request.first_version,
        last_version=request.last_version,
    )
