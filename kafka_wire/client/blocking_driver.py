"""Runs steps with plain sockets: the IO of the blocking client."""

import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from kafka_wire.client.cluster import (
    Address,
    Cluster,
)
from kafka_wire.client.connection import (
    CONNECT_FAILURES,
    NEGOTIATION_ROUNDS,
    ConnectionCore,
    InFlight,
    api_versions_request,
)
from kafka_wire.client.core import (
    Settings,
)
from kafka_wire.client.errors import (
    ClientClosedError,
    ClientError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RequestTimedOutError,
)
from kafka_wire.client.sockets import has_unread
from kafka_wire.client.steps import (
    Answer,
    Call,
    CallAll,
    Now,
    Pause,
    Step,
    Wish,
    expect,
)
from kafka_wire.error_codes import KafkaError
from kafka_wire.messages import ApiVersionsResponse
from kafka_wire.schema import LATEST, Request, Response

T = TypeVar("T")

RECEIVE_BYTES = 256 * 1024
CLOSED = -1
"""What a closed socket has as its file number."""


class BlockingDriver:
    """Carries out what steps wish for, with a connection per broker."""

    def __init__(self, cluster: Cluster, settings: Settings, tls: ssl.SSLContext | None) -> None:
        self.cluster = cluster
        self._settings = settings
        self._tls = tls
        self._connections: dict[Address, _Connection] = {}
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def run(self, step: Step[T]) -> T:
        """Carries out what a step wishes for, until it returns."""
        outcome: Any = None
        failure: BaseException | None = None
        # An interrupt between two wishes must end the step, too.
        with closing(step):
            while True:
                try:
                    wish = step.send(outcome) if failure is None else step.throw(failure)
                except StopIteration as done:
                    result: T = done.value
                    return result
                outcome, failure = None, None
                try:
                    outcome = self._grant(wish)
                except BaseException as error:  # noqa: BLE001 - it is thrown into the step
                    # The step decides; what it does not handle it raises again, and ends in order.
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
        try:
            for index, wish in enumerate(calls):
                deadline = time.monotonic() + wish.timeout_ms / 1000
                answers.append(None)
                try:
                    connection = self._connection(wish.node_id, deadline)
                    waiting = connection.send(
                        wish.request,
                        first_version=wish.first_version,
                        last_version=wish.last_version,
                        deadline=deadline,
                    )
                except ClientError as error:
                    answers[index] = error
                else:
                    if waiting is not None:
                        sent.append((index, connection, waiting, deadline))
            for index, connection, waiting, deadline in sent:
                try:
                    answers[index] = connection.receive(waiting, deadline)
                except ClientError as error:
                    answers[index] = error
        except BaseException:
            # Nobody will read the other answers.
            for _, connection, _, _ in sent:
                connection.close()
            raise
        return answers

    def _connection(self, node_id: int | None, deadline: float) -> "_Connection":
        """The connection to a node, or to any; made if there is none."""
        if self._closed:
            raise ClientClosedError("the client is closed")
        if node_id is None:
            return self._any_connection(deadline)
        address = self.cluster.brokers.get(node_id)
        if address is None:
            raise ConnectError(f"node {node_id} is not in the metadata")
        return self._open(address, deadline)

    def _any_connection(self, deadline: float) -> "_Connection":
        for connection in self._connections.values():
            if not connection.is_stale:
                return connection
        reasons = []
        for address in self.cluster.addresses():
            try:
                return self._open(address, deadline)
            except ConnectError as error:
                reasons.append(str(error))
                if time.monotonic() > deadline:
                    break
        raise ConnectError("no broker can be reached: " + "; ".join(reasons))

    def _open(self, address: Address, deadline: float) -> "_Connection":
        known = self._connections.get(address)
        if known is not None:
            if not known.is_stale:
                return known
            del self._connections[address]
            known.close()
        try:
            connection = _Connection(address, self._settings, self._tls, deadline)
        except ConnectError:
            self.cluster.mark_unreachable(address)
            raise
        self.cluster.mark_reachable(address)
        self.cluster.update_features(
            connection.core.finalized_features, epoch=connection.core.finalized_features_epoch
        )
        self._connections[address] = connection
        return connection


class _Connection:
    """A socket and the core that speaks for it. It closes itself when it breaks."""

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
        except CONNECT_FAILURES as error:
            raise ConnectError(f"cannot connect to {address}: {error}") from error
        try:
            self._negotiate(deadline)
        except BaseException as error:
            self.close()
            if isinstance(error, ClientError | KafkaError):
                # Whatever happened, no request of the caller's was sent.
                raise ConnectError(f"no agreement with {address}: {error}") from error
            raise

    @property
    def is_stale(self) -> bool:
        """Whether the connection is closed, perhaps by a broker that heard nothing for long.

        With no answer due there is nothing to read but the end of the stream.
        """
        if self._socket.fileno() == CLOSED:
            return True
        return self.core.is_idle and has_unread(self._socket.fileno())

    def close(self) -> None:
        self._socket.close()

    def send(
        self, request: Request, *, first_version: int, last_version: int, deadline: float
    ) -> InFlight | None:
        waiting, parts = self.core.send(
            request, first_version=first_version, last_version=last_version
        )
        with self._closed_on_failure("did not take the request in time"):
            self._socket.settimeout(_seconds_until(deadline))
            self._socket.sendall(b"".join(parts))
        return waiting

    def receive(self, waiting: InFlight, deadline: float) -> Response:
        """Reads until the request is answered; answers to others are kept with them."""
        with self._closed_on_failure("did not answer in time"):
            while waiting.response is None:
                self._socket.settimeout(_seconds_until(deadline))
                chunk = self._socket.recv(RECEIVE_BYTES)
                if not chunk:
                    raise ConnectionLostError(f"{self.address} closed the connection")
                deque(self.core.receive(chunk), maxlen=0)
        return waiting.response

    @contextmanager
    def _closed_on_failure(self, too_late: str) -> Iterator[None]:
        """Half a request may be sent, or half an answer read: nothing after it makes sense."""
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise RequestTimedOutError(f"{self.address} {too_late}") from None
            if isinstance(error, OSError):
                message = f"lost the connection to {self.address}: {error}"
                raise ConnectionLostError(message) from error
            raise

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
        plain.settimeout(_seconds_until(deadline))
        return tls.wrap_socket(plain, server_hostname=address.host)
    except BaseException:
        plain.close()
        raise


def _seconds_until(deadline: float) -> float:
    """A timeout for a socket; zero would make it non-blocking."""
    return max(deadline - time.monotonic(), 0.001)
