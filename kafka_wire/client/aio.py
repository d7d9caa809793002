"""The asyncio client: the same operations as the blocking one, concurrent on one event loop."""

import ssl
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from kafka_wire.client.asyncio_driver import AsyncioDriver
from kafka_wire.client.cluster import (
    Cluster,
    CoordinatorType,
    parse_bootstrap,
)
from kafka_wire.client.core import (
    DEFAULT_LIMITS,
    DEFAULT_MEMBER_RETRY,
    DEFAULT_PRODUCER_RETRY,
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    ClientCore,
    Settings,
    new_member_id,
)
from kafka_wire.client.fetching import Fetched, FetchLimits, IsolationLevel
from kafka_wire.client.group import GroupMemberCore, Rebalance, Subscription
from kafka_wire.client.offsets import ANYBODY, Committed, Membership, OffsetAt
from kafka_wire.client.producer import ProducerCore
from kafka_wire.client.producing import ACKS_ALL, Produced
from kafka_wire.client.routing import Outcome
from kafka_wire.client.steps import (
    ONCE,
    Retry,
    Step,
)
from kafka_wire.records import BatchBuilder
from kafka_wire.schema import Request, Response
from kafka_wire.types import Buffer, Offset, TopicPartition

T = TypeVar("T")
R = TypeVar("R", bound=Response)


class AsyncClient:
    """A client of a Kafka-compatible cluster for asyncio.

    Any number of tasks may use it at once; their requests share a connection per broker and are
    pipelined there. Nothing is retried unless a `Retry` says so.

        async with AsyncClient("localhost:9092") as client:
            produced = await client.produce(TopicPartition("events", 0), build_batch([record]))
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        tls: ssl.SSLContext | None = None,
        settings: Settings | None = None,
    ) -> None:
        cluster = Cluster(parse_bootstrap(bootstrap_servers))
        self._core = ClientCore(cluster, settings or Settings())
        self._driver = AsyncioDriver(cluster, self._core.settings, tls)

    @property
    def cluster(self) -> Cluster:
        """What is known of the cluster: empty until something was asked."""
        return self._core.cluster

    async def close(self) -> None:
        """Closes every connection and waits until they are; requests under way fail."""
        await self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def refresh_metadata(self, topics: Collection[str] | None = None) -> Cluster:
        """Asks for the metadata of topics; of all topics for `None`."""
        return await self.run(self._core.refresh_metadata(topics))

    async def request(
        self,
        request: Request,
        response_type: type[R],
        *,
        node_id: int | None = None,
        retry: Retry = ONCE,
    ) -> R:
        """Sends any request, to a node or to whichever answers. Error codes are the caller's."""
        return await self.run(
            self._core.request(request, response_type, node_id=node_id, retry=retry)
        )

    async def request_coordinator(
        self,
        request: Request,
        response_type: type[R],
        *,
        kind: CoordinatorType,
        key: str,
        retry: Retry = ONCE,
    ) -> R:
        """Sends any request to the coordinator of a group or a transactional id."""
        return await self.run(
            self._core.request_coordinator(request, response_type, kind=kind, key=key, retry=retry)
        )

    async def produce(
        self, target: TopicPartition, batch: Buffer, *, acks: int = ACKS_ALL, retry: Retry = ONCE
    ) -> Produced:
        """Sends one batch without a producer id: a retry may write it twice."""
        return await self.run(self._core.produce(target, batch, acks=acks, retry=retry))

    async def produce_all(
        self, batches: Mapping[TopicPartition, Buffer], *, acks: int = ACKS_ALL
    ) -> dict[TopicPartition, Outcome[Produced]]:
        """Sends a batch to each of many partitions; returns each one's outcome."""
        return await self.run(self._core.produce_all(batches, acks=acks))

    async def fetch(
        self,
        positions: Mapping[TopicPartition, Offset],
        *,
        limits: FetchLimits = DEFAULT_LIMITS,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        rack_id: str = "",
    ) -> dict[TopicPartition, Outcome[Fetched]]:
        """Fetches from many partitions; returns each one's outcome."""
        return await self.run(
            self._core.fetch(
                positions, limits=limits, isolation_level=isolation_level, rack_id=rack_id
            )
        )

    async def list_offsets(
        self,
        timestamps_ms: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, Outcome[OffsetAt]]:
        """The offsets at timestamps, or at `EARLIEST_OFFSET`, `LATEST_OFFSET`, ..."""
        return await self.run(
            self._core.list_offsets(timestamps_ms, isolation_level=isolation_level)
        )

    async def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        *,
        member: Membership = ANYBODY,
        retry: Retry = ONCE,
    ) -> None:
        """Commits a group's positions."""
        await self.run(self._core.commit_offsets(group_id, offsets, member=member, retry=retry))

    async def committed_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition],
        *,
        member: Membership = ANYBODY,
        retry: Retry = ONCE,
    ) -> dict[TopicPartition, Committed | None]:
        """A group's positions; None where it has none."""
        return await self.run(
            self._core.committed_offsets(group_id, partitions, member=member, retry=retry)
        )

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
        retry: Retry = DEFAULT_PRODUCER_RETRY,
    ) -> "AsyncProducer":
        """An idempotent producer, transactional if it has a transactional id."""
        core = self._core.producer(
            transactional_id, transaction_timeout_ms=transaction_timeout_ms, retry=retry
        )
        return AsyncProducer(self, core)

    def group_member(
        self, group_id: str, subscription: Subscription, *, retry: Retry = DEFAULT_MEMBER_RETRY
    ) -> "AsyncGroupMember":
        """A member of a KIP-848 group, who joins with the first heartbeat."""
        core = self._core.group_member(
            group_id, subscription, member_id=new_member_id(), retry=retry
        )
        return AsyncGroupMember(self, core)

    async def run(self, step: Step[T]) -> T:
        """Runs an operation of `kafka_wire.client`'s cores."""
        return await self._driver.run(step)


class AsyncProducer:
    """A producer with an identity: see `kafka_wire.client.producer`."""

    def __init__(self, client: AsyncClient, core: ProducerCore) -> None:
        self._client = client
        self.core = core

    async def initialize(self) -> None:
        """Gets an id; with a transactional id, fences its former owner."""
        await self._client.run(self.core.initialize())

    async def append(self, target: TopicPartition, records: BatchBuilder) -> Produced:
        """Appends records once and only once, acknowledged by all in-sync replicas."""
        return await self._client.run(self.core.append(target, records))

    def begin(self) -> None:
        """Begins a transaction."""
        self.core.begin()

    async def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        *,
        member: Membership = ANYBODY,
    ) -> None:
        """Commits a group's positions as part of the transaction."""
        await self._client.run(self.core.commit_offsets(group_id, offsets, member=member))

    async def commit(self) -> None:
        """Commits the transaction."""
        await self._client.run(self.core.commit())

    async def abort(self) -> None:
        """Aborts the transaction."""
        await self._client.run(self.core.abort())


class AsyncGroupMember:
    """A member of a KIP-848 group: see `kafka_wire.client.group`."""

    def __init__(self, client: AsyncClient, core: GroupMemberCore) -> None:
        self._client = client
        self.core = core

    async def heartbeat(self, *, force: bool = False) -> Rebalance | None:
        """Sends a heartbeat if one is due; returns what changed."""
        return await self._client.run(self.core.heartbeat(force=force))

    async def leave(self) -> None:
        """Leaves the group."""
        await self._client.run(self.core.leave())
