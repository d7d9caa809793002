"""What both clients share: the settings, the cluster, and every operation as a step."""

import base64
import uuid
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

import msgspec

from kafka_wire.client.cluster import Cluster, CoordinatorType
from kafka_wire.client.fetching import Fetched, FetchLimits, IsolationLevel, fetch
from kafka_wire.client.group import GroupMemberCore, Subscription
from kafka_wire.client.offsets import (
    ANYBODY,
    Committed,
    Membership,
    OffsetAt,
    commit_offsets,
    committed_offsets,
    list_offsets,
)
from kafka_wire.client.producer import ProducerCore
from kafka_wire.client.producing import ACKS_ALL, Produced, produce, produce_all
from kafka_wire.client.routing import Outcome, at_coordinator, before_sending, refresh
from kafka_wire.client.steps import ONCE, Retry, Step, call, retrying
from kafka_wire.framing import DEFAULT_MAX_FRAME_BYTES
from kafka_wire.schema import Request, Response
from kafka_wire.types import Buffer, Offset, TopicPartition

R = TypeVar("R", bound=Response)

DEFAULT_LIMITS: Final = FetchLimits()
DEFAULT_PRODUCER_RETRY: Final = Retry(timeout_ms=120_000)
"""Kafka's default of `delivery.timeout.ms`."""
DEFAULT_MEMBER_RETRY: Final = Retry(timeout_ms=30_000)
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 60_000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a client, under Kafka's names where it has them."""

    client_id: str = "floodmark"
    request_timeout_ms: int = 30_000
    ack_timeout_ms: int = 30_000
    """How long a broker waits for its followers before it answers REQUEST_TIMED_OUT."""
    connect_timeout_ms: int = 10_000
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES


class ClientCore:
    """The operations; each returns a step for a driver to run."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self.cluster = cluster
        self.settings = settings

    def refresh_metadata(self, topics: Collection[str] | None) -> Step[Cluster]:
        yield from refresh(self.cluster, topics, timeout_ms=self.settings.request_timeout_ms)
        return self.cluster

    def request(
        self, request: Request, response_type: type[R], *, node_id: int | None, retry: Retry
    ) -> Step[R]:
        timeout_ms = self.settings.request_timeout_ms

        def attempt() -> Step[R]:
            if node_id is not None and node_id not in self.cluster.brokers:
                yield from before_sending(self.refresh_metadata(()))
            return (yield from call(request, response_type, node_id=node_id, timeout_ms=timeout_ms))

        return (yield from retrying(attempt, retry, repeatable=False, is_write=True))

    def request_coordinator(
        self,
        request: Request,
        response_type: type[R],
        *,
        kind: CoordinatorType,
        key: str,
        retry: Retry,
    ) -> Step[R]:
        timeout_ms = self.settings.request_timeout_ms

        def attempt(node_id: int) -> Step[R]:
            return (yield from call(request, response_type, node_id=node_id, timeout_ms=timeout_ms))

        return (
            yield from at_coordinator(
                self.cluster,
                kind,
                key,
                attempt,
                retry,
                timeout_ms=timeout_ms,
                repeatable=False,
                is_write=True,
            )
        )

    def produce(
        self, target: TopicPartition, batch: Buffer, *, acks: int = ACKS_ALL, retry: Retry = ONCE
    ) -> Step[Produced]:
        return produce(
            self.cluster,
            target,
            batch,
            acks=acks,
            ack_timeout_ms=self.settings.ack_timeout_ms,
            timeout_ms=self.settings.request_timeout_ms,
            retry=retry,
        )

    def produce_all(
        self, batches: Mapping[TopicPartition, Buffer], *, acks: int = ACKS_ALL
    ) -> Step[dict[TopicPartition, Outcome[Produced]]]:
        return produce_all(
            self.cluster,
            batches,
            acks=acks,
            ack_timeout_ms=self.settings.ack_timeout_ms,
            timeout_ms=self.settings.request_timeout_ms,
        )

    def fetch(
        self,
        positions: Mapping[TopicPartition, Offset],
        *,
        limits: FetchLimits,
        isolation_level: IsolationLevel,
        rack_id: str,
    ) -> Step[dict[TopicPartition, Outcome[Fetched]]]:
        return fetch(
            self.cluster,
            positions,
            limits=limits,
            isolation_level=isolation_level,
            timeout_ms=self.settings.request_timeout_ms,
            rack_id=rack_id,
        )

    def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel
    ) -> Step[dict[TopicPartition, Outcome[OffsetAt]]]:
        return list_offsets(
            self.cluster,
            timestamps_ms,
            isolation_level=isolation_level,
            timeout_ms=self.settings.request_timeout_ms,
        )

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        *,
        member: Membership = ANYBODY,
        retry: Retry = ONCE,
    ) -> Step[None]:
        return commit_offsets(
            self.cluster,
            group_id,
            offsets,
            member=member,
            timeout_ms=self.settings.request_timeout_ms,
            retry=retry,
        )

    def committed_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition],
        *,
        member: Membership = ANYBODY,
        retry: Retry = ONCE,
    ) -> Step[dict[TopicPartition, Committed | None]]:
        return committed_offsets(
            self.cluster,
            group_id,
            partitions,
            member=member,
            timeout_ms=self.settings.request_timeout_ms,
            retry=retry,
        )

    def producer(
        self, transactional_id: str | None, *, transaction_timeout_ms: int, retry: Retry
    ) -> ProducerCore:
        return ProducerCore(
            self.cluster,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            ack_timeout_ms=self.settings.ack_timeout_ms,
            timeout_ms=self.settings.request_timeout_ms,
            retry=retry,
        )

    def group_member(
        self, group_id: str, subscription: Subscription, *, member_id: str, retry: Retry
    ) -> GroupMemberCore:
        return GroupMemberCore(
            self.cluster,
            group_id,
            subscription,
            member_id=member_id,
            timeout_ms=self.settings.request_timeout_ms,
            retry=retry,
        )


def new_member_id() -> str:
    """A random id in the form of Kafka's own: 22 characters of base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
