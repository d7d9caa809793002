"""The blocking client: plain sockets, no threads. Not for use from several threads at once."""

import socket
import ssl
import time
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka_wire.client.cluster import (
    Address,
    Cluster,
    CoordinatorType,
    TopicPartition,
    parse_bootstrap,
)
from kafka_wire.client.connection import (
    NEGOTIATION_ROUNDS,
    ConnectionCore,
    InFlight,
    api_versions_request,
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
from kafka_wire.client.errors import (
    ClientClosedError,
    ClientError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RequestTimedOutError,
)
from kafka_wire.client.fetching import Fetched, FetchLimits, IsolationLevel
from kafka_wire.client.group import GroupMemberCore, Rebalance, Subscription
from kafka_wire.client.offsets import ANYBODY, Committed, Membership, OffsetAt
from kafka_wire.client.producer import ProducerCore
from kafka_wire.client.producing import ACKS_ALL, Produced
from kafka_wire.client.routing import Outcome
from kafka_wire.client.steps import (
    ONCE,
    Answer,
    Call,
    CallAll,
    Now,
    Pause,
    Retry,
    Step,
    Wish,
    expect,
)
from kafka_wire.errors import UnsupportedVersionError
from kafka_wire.messages import ApiVersionsResponse
from kafka_wire.records import BatchBuilder
from kafka_wire.schema import LATEST, Request, Response
from kafka_wire.types import Buffer, Offset

T = TypeVar("T")
R = TypeVar("R", bound=Response)

RECEIVE_BYTES = 256 * 1024


class Client:
    """A client of a Kafka-compatible cluster.

    It connects on first use, negotiates versions with each broker, and routes requests to
    leaders and coordinators. Requests to several brokers are sent at once. Nothing is retried
    unless a `Retry` says so, and nothing runs in the background.

        with Client("localhost:9092") as client:
            produced = client.produce(TopicPartition("events", 0), build_batch([record]))
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        tls: ssl.SSLContext | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._settings = settings or Settings()
        self._core = ClientCore(Cluster(parse_bootstrap(bootstrap_servers)), self._settings)
        self._tls = tls
        self._connections: dict[int | None, _Connection] = {}
        self._closed = False

    @property
    def cluster(self) -> Cluster:
        """What is known of the cluster: empty until something was asked."""
        return self._core.cluster

    def close(self) -> None:
        """Closes every connection; the client cannot be used afterwards."""
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def refresh_metadata(self, topics: Collection[str] | None = None) -> Cluster:
        """Asks for the metadata of topics; of all topics for `None`."""
        return self.run(self._core.refresh_metadata(topics))

    def request(
        self,
        request: Request,
        response_type: type[R],
        *,
        node_id: int | None = None,
        retry: Retry = ONCE,
    ) -> R:
        """Sends any request, to a node or to whichever answers. Error codes are the caller's."""
        return self.run(self._core.request(request, response_type, node_id=node_id, retry=retry))

    def request_coordinator(
        self,
        request: Request,
        response_type: type[R],
        *,
        kind: CoordinatorType,
        key: str,
        retry: Retry = ONCE,
    ) -> R:
        """Sends any request to the coordinator of a group or a transactional id."""
        return self.run(
            self._core.request_coordinator(request, response_type, kind=kind, key=key, retry=retry)
        )

    def produce(
        self, target: TopicPartition, batch: Buffer, *, acks: int = ACKS_ALL, retry: Retry = ONCE
    ) -> Produced:
        """Sends one batch without a producer id: a retry may write it twice."""
        return self.run(self._core.produce(target, batch, acks=acks, retry=retry))

    def produce_all(
        self, batches: Mapping[TopicPartition, Buffer], *, acks: int = ACKS_ALL
    ) -> dict[TopicPartition, Outcome[Produced]]:
        """Sends a batch to each of many partitions; returns each one's outcome."""
        return self.run(self._core.produce_all(batches, acks=acks))

    def fetch(
        self,
        positions: Mapping[TopicPartition, Offset],
        *,
        limits: FetchLimits = DEFAULT_LIMITS,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        rack_id: str = "",
    ) -> dict[TopicPartition, Outcome[Fetched]]:
        """Fetches from many partitions; returns each one's outcome."""
        return self.run(
            self._core.fetch(
                positions, limits=limits, isolation_level=isolation_level, rack_id=rack_id
            )
        )

    def list_offsets(
        self,
        timestamps_ms: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, Outcome[OffsetAt]]:
        """The offsets at timestamps, or at `EARLIEST_OFFSET`, `LATEST_OFFSET`, ..."""
        return self.run(self._core.list_offsets(timestamps_ms, isolation_level=isolation_level))

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        *,
        member: Membership = ANYBODY,
        retry: Retry = ONCE,
    ) -> None:
        """Commits a group's positions."""
        self.run(self._core.commit_offsets(group_id, offsets, member=member, retry=retry))

    def committed_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition],
        *,
        member: Membership = ANYBODY,
        retry: Retry = ONCE,
    ) -> dict[TopicPartition, Committed | None]:
        """A group's positions; None where it has none."""
        return self.run(
            self._core.committed_offsets(group_id, partitions, member=member, retry=retry)
        )

    def producer(
        self,
        transactional_id: str | None = None,
        *,
        transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
        retry: Retry = DEFAULT_PRODUCER_RETRY,
    ) -> "Producer":
        """An idempotent producer, transactional if it has a transactional id."""
        core = self._core.producer(
            transactional_id, transaction_timeout_ms=transaction_timeout_ms, retry=retry
        )
        return Producer(self, core)

    def group_member(
        self,
        group_id: str,
        subscription: Subscription,
        *,
        retry: Retry = DEFAULT_MEMBER_RETRY,
    ) -> "GroupMember":
        """A member of a KIP-848 group, who joins with the first heartbeat."""
        core = self._core.group_member(
            group_id, subscription, member_id=new_member_id(), retry=retry
        )
        return GroupMember(self, core)

    def run(self, step: Step[T]) -> T:
        """Carries out what a step wishes for, until it returns."""
        outcome: Any = None
        failure: Exception | None = None
        while True:
            try:
                wish = step.send(outcome) if failure is None else step.throw(failure)
            except StopIteration as done:
                result: T = done.value
                return result
            outcome, failure = None, None
            try:
                outcome = self._grant(wish)
            except (ClientError, UnsupportedVersionError) as error:
                failure = error

    def _grant(self, wish: Wish) -> Any:
        match wish:
            case Call():
                (answer,) = self._call_all([wish])
                if isinstance(answer, Exception):
                    raise answer
                return answer
            case CallAll(calls=calls):
                return self._call_all(calls)
            case Pause(ms=ms):
                time.sleep(ms / 1000)
                return None
            case Now():
                return time.monotonic_ns() // 1_000_000

    def _call_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Sends all requests, then waits for all responses."""
        answers: list[Answer] = []
        sent: list[tuple[int, _Connection, InFlight, float]] = []
        for index, wish in enumerate(calls):
            deadline = time.monotonic() + wish.timeout_ms / 1000
            answers.append(None)
            try:
                connection = self._connection(wish.node_id, deadline)
                waiting = self._send(connection, wish, deadline)
            except (ClientError, UnsupportedVersionError) as error:
                answers[index] = error
            else:
                if waiting is not None:
                    sent.append((index, connection, waiting, deadline))
        for index, connection, waiting, deadline in sent:
            try:
                answers[index] = connection.receive(waiting, deadline)
            except ClientError as error:
                self._drop(connection)
                answers[index] = error
        return answers

    def _send(self, connection: "_Connection", wish: Call, deadline: float) -> InFlight | None:
        try:
            return connection.send(
                wish.request,
                first_version=wish.first_version,
                last_version=wish.last_version,
                deadline=deadline,
            )
        except (ConnectionLostError, RequestTimedOutError):
            self._drop(connection)
            raise

    def _connection(self, node_id: int | None, deadline: float) -> "_Connection":
        """The connection to a node, or to any; made if there is none."""
        if self._closed:
            raise ClientClosedError("the client is closed")
        if node_id is None:
            return self._any_connection(deadline)
        address = self.cluster.brokers.get(node_id)
        if address is None:
            raise ConnectError(f"node {node_id} is not in the metadata")
        known = self._connections.get(node_id)
        if known is not None:
            if known.address == address:
                return known
            self._drop(known)
        return self._open(node_id, address, deadline)

    def _any_connection(self, deadline: float) -> "_Connection":
        for connection in self._connections.values():
            return connection
        reasons = []
        brokers = [(node_id, address) for node_id, address in self.cluster.brokers.items()]
        for node_id, address in [*brokers, *((None, a) for a in self.cluster.bootstrap)]:
            try:
                return self._open(node_id, address, deadline)
            except ConnectError as error:
                reasons.append(str(error))
        raise ConnectError("no broker can be reached: " + "; ".join(reasons))

    def _open(self, node_id: int | None, address: Address, deadline: float) -> "_Connection":
        connection = _Connection(address, self._settings, self._tls, deadline)
        self.cluster.finalized_features = connection.core.finalized_features
        self._connections[node_id] = connection
        return connection

    def _drop(self, connection: "_Connection") -> None:
        connection.close()
        self._connections = {n: c for n, c in self._connections.items() if c is not connection}


class Producer:
    """A producer with an identity: see `kafka_wire.client.producer`."""

    def __init__(self, client: Client, core: ProducerCore) -> None:
        self._client = client
        self.core = core

    def initialize(self) -> None:
        """Gets an id; with a transactional id, fences its former owner."""
        self._client.run(self.core.initialize())

    def append(self, target: TopicPartition, records: BatchBuilder) -> Produced:
        """Appends records once and only once, acknowledged by all in-sync replicas."""
        return self._client.run(self.core.append(target, records))

    def begin(self) -> None:
        """Begins a transaction."""
        self.core.begin()

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        *,
        member: Membership = ANYBODY,
    ) -> None:
        """Commits a group's positions as part of the transaction."""
        self._client.run(self.core.commit_offsets(group_id, offsets, member=member))

    def commit(self) -> None:
        """Commits the transaction."""
        self._client.run(self.core.commit())

    def abort(self) -> None:
        """Aborts the transaction."""
        self._client.run(self.core.abort())


class GroupMember:
    """A member of a KIP-848 group: see `kafka_wire.client.group`."""

    def __init__(self, client: Client, core: GroupMemberCore) -> None:
        self._client = client
        self.core = core

    def heartbeat(self, *, force: bool = False) -> Rebalance | None:
        """Sends a heartbeat if one is due; returns what changed."""
        return self._client.run(self.core.heartbeat(force=force))

    def leave(self) -> None:
        """Leaves the group."""
        self._client.run(self.core.leave())


class _Connection:
    """A socket and the core that speaks for it."""

    def __init__(
        self, address: Address, settings: Settings, tls: ssl.SSLContext | None, deadline: float
    ) -> None:
        self.address = address
        self.core = ConnectionCore(
            client_id=settings.client_id, max_frame_bytes=settings.max_frame_bytes
        )
        deadline = min(deadline, time.monotonic() + settings.connect_timeout_ms / 1000)
        try:
            self._socket = _connect(address, tls, deadline)
        except OSError as error:
            raise ConnectError(f"cannot connect to {address}: {error}") from error
        try:
            self._negotiate(deadline)
        except BaseException as error:
            self.close()
            if isinstance(error, ClientError):
                # Whatever happened, no request of the caller's was sent.
                raise ConnectError(f"no agreement with {address}: {error}") from error
            raise

    def close(self) -> None:
        self._socket.close()

    def send(
        self, request: Request, *, first_version: int, last_version: int, deadline: float
    ) -> InFlight | None:
        waiting, parts = self.core.send(
            request, first_version=first_version, last_version=last_version
        )
        try:
            self._socket.settimeout(_seconds_until(deadline))
            self._socket.sendall(b"".join(parts))
        except TimeoutError:
            raise RequestTimedOutError(f"{self.address} did not take the request in time") from None
        except OSError as error:
            raise ConnectionLostError(f"lost the connection to {self.address}: {error}") from error
        return waiting

    def receive(self, waiting: InFlight, deadline: float) -> Response:
        """Reads until the request is answered; answers to others are kept with them."""
        while waiting.response is None:
            try:
                self._socket.settimeout(_seconds_until(deadline))
                chunk = self._socket.recv(RECEIVE_BYTES)
            except TimeoutError:
                raise RequestTimedOutError(f"{self.address} did not answer in time") from None
            except OSError as error:
                raise ConnectionLostError(
                    f"lost the connection to {self.address}: {error}"
                ) from error
            if not chunk:
                raise ConnectionLostError(f"{self.address} closed the connection")
            self.core.receive(chunk)
        return waiting.response

    def _negotiate(self, deadline: float) -> None:
        version = LATEST
        for _ in range(NEGOTIATION_ROUNDS):
            waiting = self.send(
                api_versions_request(), first_version=0, last_version=version, deadline=deadline
            )
            response = self.receive(waiting, deadline) if waiting is not None else None
            wanted = self.core.accept_api_versions(expect(response, ApiVersionsResponse))
            if wanted is None:
                return
            version = wanted
        raise ProtocolError("the broker refuses the version of ApiVersions that it asked for")


def _connect(address: Address, tls: ssl.SSLContext | None, deadline: float) -> socket.socket:
    plain = socket.create_connection(address, timeout=_seconds_until(deadline))
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return plain
        return tls.wrap_socket(plain, server_hostname=address.host)
    except BaseException:
        plain.close()
        raise


def _seconds_until(deadline: float) -> float:
    """A timeout for a socket; zero would make it non-blocking."""
    return max(deadline - time.monotonic(), 0.001)
