"""Runs steps on an event loop: the IO of the asyncio client."""

import asyncio
import functools
import ipaddress
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar, cast

from kafka_wire.client.cluster import Address, Cluster
from kafka_wire.client.connection import (
    CONNECT_FAILURES,
    NEGOTIATION_ROUNDS,
    ConnectionCore,
    InFlight,
    api_versions_request,
)
from kafka_wire.client.core import Settings
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


class AsyncioDriver:
    """Carries out what steps wish for, with a connection per address for all tasks."""

    def __init__(self, cluster: Cluster, settings: Settings, tls: ssl.SSLContext | None) -> None:
        self.cluster = cluster
        self._settings = settings
        self._tls = tls
        self._connecting: dict[Address, asyncio.Task[_Connection]] = {}
        self._connections: dict[Address, _Connection] = {}
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        attempts = list(self._connecting.values())
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close(ConnectionLostError("the client was closed"))
        await asyncio.gather(*(connection.closed for connection in connections))

    async def run(self, step: Step[T]) -> T:
        """Carries out what a step wishes for, until it returns."""
        outcome: Any = None
        failure: BaseException | None = None
        with closing(step):
            while True:
                try:
                    wish = step.send(outcome) if failure is None else step.throw(failure)
                except StopIteration as done:
                    result: T = done.value
                    return result
                outcome, failure = None, None
                try:
                    outcome = await self._grant(wish)
                except BaseException as error:  # noqa: BLE001 - it is thrown into the step
                    # The step decides; what it does not handle it raises again, and ends in order.
                    failure = error

    async def _grant(self, wish: Wish) -> Any:
        match wish:
            case Call():
                return await self._call(wish)
            case CallAll(calls=calls):
                return await asyncio.gather(*map(self._answer, calls))
            case Pause(ms=ms):
                return await asyncio.sleep(ms / 1000)
            case Now():
                return time.monotonic_ns() // 1_000_000

    async def _answer(self, wish: Call) -> Answer:
        try:
            return await self._call(wish)
        except ClientError as error:
            return error

    async def _call(self, wish: Call) -> Response | None:
        deadline = time.monotonic() + wish.timeout_ms / 1000
        connection = await self._connection(wish.node_id, deadline)
        return await connection.call(
            wish.request,
            first_version=wish.first_version,
            last_version=wish.last_version,
            deadline=deadline,
        )

    async def _connection(self, node_id: int | None, deadline: float) -> "_Connection":
        """The connection to a node, or to any; made if there is none."""
        if self._closed:
            raise ClientClosedError("the client is closed")
        if node_id is None:
            return await self._any_connection(deadline)
        address = self.cluster.brokers.get(node_id)
        if address is None:
            raise ConnectError(f"node {node_id} is not in the metadata")
        return await self._open(address, deadline)

    async def _any_connection(self, deadline: float) -> "_Connection":
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        reasons = []
        for address in self.cluster.addresses():
            try:
                return await self._open(address, deadline)
            except ConnectError as error:
                reasons.append(str(error))
                if time.monotonic() > deadline:
                    break
        raise ConnectError("no broker can be reached: " + "; ".join(reasons))

    async def _open(self, address: Address, deadline: float) -> "_Connection":
        """One connection per address: tasks that want it at the same time wait for the same."""
        if self._closed:
            raise ClientClosedError("the client is closed")
        known = self._connections.get(address)
        if known is not None:
            if known.is_open:
                return known
            known.close(ConnectionLostError(f"{address} closed the connection"))
        attempt = self._connecting.get(address)
        if attempt is None:
            attempt = asyncio.create_task(self._connect(address))
            self._connecting[address] = attempt
            attempt.add_done_callback(functools.partial(self._connected, address))
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await asyncio.shield(attempt)
        except TimeoutError:
            self.cluster.mark_unreachable(address)
            raise ConnectError(f"cannot connect to {address} in time") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if attempt.cancelled() and not (task and task.cancelling()):
                raise ClientClosedError("the client was closed") from None
            raise

    async def _connect(self, address: Address) -> "_Connection":
        timeout_ms = self._settings.connect_timeout_ms
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await _open_transport(address, self._settings, self._tls)
        except TimeoutError:
            raise ConnectError(f"{address} does not answer within {timeout_ms} ms") from None
        except CONNECT_FAILURES as error:
            raise ConnectError(f"cannot connect to {address}: {error}") from error
        try:
            await connection.negotiate(deadline)
        except BaseException as error:
            connection.close(ConnectError(f"no agreement with {address}"))
            await connection.closed
            if isinstance(error, ClientError | KafkaError):
                # Whatever happened, no request of the caller's was sent.
                raise ConnectError(f"no agreement with {address}: {error}") from error
            raise
        return connection

    def _connected(self, address: Address, attempt: "asyncio.Task[_Connection]") -> None:
        del self._connecting[address]
        if attempt.cancelled():
            return
        if attempt.exception() is not None:
            self.cluster.mark_unreachable(address)
            return
        connection = attempt.result()
        self.cluster.mark_reachable(address)
        self.cluster.update_features(
            connection.core.finalized_features, epoch=connection.core.finalized_features_epoch
        )
        self._connections[address] = connection


class _Connection(asyncio.Protocol):
    """A transport and the core that speaks for it."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self.address = address
        self.core = ConnectionCore(
            client_id=settings.client_id, max_frame_bytes=settings.max_frame_bytes
        )
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._file_number = -1
        self._writable = asyncio.Event()
        self._failure: ClientError | None = None
        self._answers: dict[InFlight, asyncio.Future[Response]] = {}

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent; the loop may not have seen yet that the broker closed."""
        if self._transport is None or self._failure is not None:
            return False
        return not (self.core.is_idle and has_unread(self._file_number))

    async def call(
        self, request: Request, *, first_version: int, last_version: int, deadline: float
    ) -> Response | None:
        """Sends a request and waits for its answer; None if none will come."""
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                # Whoever was woken before may have filled the buffer again.
                while not self._writable.is_set():
                    await self._writable.wait()
                answer = self._send(request, first_version, last_version)
                return None if answer is None else await answer
        except TimeoutError:
            self.close(ConnectionLostError(f"{self.address} left a request without an answer"))
            raise RequestTimedOutError(f"{self.address} did not answer in time") from None

    async def negotiate(self, deadline: float) -> None:
        version = LATEST
        for _ in range(NEGOTIATION_ROUNDS):
            response = await self.call(
                api_versions_request(), first_version=0, last_version=version, deadline=deadline
            )
            wanted = self.core.accept_api_versions(expect(response, ApiVersionsResponse))
            if wanted is None:
                return
            version = wanted
        raise ProtocolError("the broker refuses the version of ApiVersions that it asked for")

    def close(self, reason: ClientError) -> None:
        """Gives up the connection: requests without an answer fail with the reason."""
        if self._failure is None:
            self._failure = reason
        self._writable.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._failure)
        self._answers.clear()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports are subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._file_number = transport.get_extra_info("socket").fileno()
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f"{self.address} closed the connection" + (f": {exc}" if exc else "")
        self.close(ConnectionLostError(reason))
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        try:
            for waiting in self.core.receive(data):
                answer = self._answers.pop(waiting, None)
                # A caller that was cancelled waits no more.
                if answer is not None and not answer.done() and waiting.response is not None:
                    answer.set_result(waiting.response)
        except ProtocolError as error:
            self.close(error)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _send(
        self, request: Request, first_version: int, last_version: int
    ) -> asyncio.Future[Response] | None:
        if self._failure is not None or self._transport is None:
            raise ConnectError(f"the connection to {self.address} is closed: {self._failure}")
        waiting, parts = self.core.send(
            request, first_version=first_version, last_version=last_version
        )
        self._transport.writelines(parts)
        if waiting is None:
            return None
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answers[waiting] = answer
        return answer


async def _open_transport(
    address: Address, settings: Settings, tls: ssl.SSLContext | None
) -> _Connection:
    """Connects to the first of the host's addresses that accepts."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for host in await _resolve(address):
        try:
            _, connection = await loop.create_connection(
                lambda: _Connection(address, settings),
                host,
                address.port,
                ssl=tls,
                server_hostname=address.host if tls is not None else None,
            )
        except OSError as error:
            failure = error
        else:
            return connection
    raise failure or OSError(f"{address.host} has no address")


async def _resolve(address: Address) -> list[str]:
    """The numeric addresses of a host.

    The event loop's own resolver would leave a thread of its default executor running for as long
    as the loop lives; this one's ends with the answer.
    """
    try:
        return [str(ipaddress.ip_address(address.host))]
    except ValueError:
        pass
    resolver = ThreadPoolExecutor(1, thread_name_prefix="kafka-resolve")
    try:
        found = await asyncio.get_running_loop().run_in_executor(
            resolver,
            functools.partial(
                socket.getaddrinfo, address.host, address.port, type=socket.SOCK_STREAM
            ),
        )
    finally:
        resolver.shutdown(wait=False)
    return list(dict.fromkeys(str(info[4][0]) for info in found))
