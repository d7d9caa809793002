"""A broker for tests: real sockets, the codec of kafka_wire, and answers that a test can script.

It takes one background thread, in which an event loop serves every connection. Every request is
kept, as it came (`FakeBroker.requests`). What is answered comes from a table of handlers; the
defaults (`tests.support.fake_answers`) are enough for a client to produce, consume and administer,
and a test replaces those it cares about::

    def fenced(request: Received) -> Answer:
        return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED, producer_epoch=-1)

    with FakeBroker(handlers={ApiKey.INIT_PRODUCER_ID: fenced}) as broker:
        ...  # a client of broker.address

A handler gets the request and may

* return a response: it is sent with the request's version and correlation id;
* return bytes: they are sent in a frame as they are, header and all, to script nonsense;
* return None: nothing is sent. The test may send an answer later with `FakeBroker.answer`;
* raise `DropConnection`;
* be a coroutine function that awaits something first. It is cancelled when the broker stops.

Like Kafka, the broker handles the requests of one connection one after another. A handler runs in
the event loop, so a plain function must not block. Any other exception that a handler raises drops
the connection and is raised again where the broker stops, so that no test passes over it.
"""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from kafka_wire.api_keys import ApiKey
from kafka_wire.error_codes import ErrorCode
from kafka_wire.framing import FrameReader, frame
from kafka_wire.messages import REQUESTS
from kafka_wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafka_wire.protocol import (
    RequestHeader,
    decode_request,
    decode_request_header,
    encode_response,
)
from kafka_wire.schema import Request, Response, Versions
from tests.support.fake_answers import default_handlers
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.fake_topics import FakeTopics

Body = TypeVar("Body", bound=Request)
Answer: TypeAlias = Response | bytes | None
Range: TypeAlias = tuple[int, int] | None
VersionRanges: TypeAlias = Mapping[ApiKey, Range] | Mapping[int, Range]

STOP_TIMEOUT_S = 10.0
_READ_BYTES = 256 * 1024


class DropConnection(Exception):  # noqa: N818 - an instruction, not an error
    """Raised by a handler to close the connection instead of answering."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Received:
    """One request as it came over a connection."""

    frame: bytes
    """Header and body, without the length."""
    header: RequestHeader
    body: Request | None
    """None only for an ApiVersions request of a version that we cannot read."""
    connection: int
    """Connections are counted from 0."""
    _writer: asyncio.StreamWriter = field(repr=False)

    @property
    def api_key(self) -> ApiKey:
        return ApiKey(self.header.api_key)

    @property
    def api_version(self) -> int:
        return self.header.api_version

    def expect(self, kind: type[Body]) -> Body:
        """The body, of the type that the caller knows it has."""
        assert isinstance(self.body, kind), f"expected {kind.__name__}, got {self.body!r}"
        return self.body


Handler: TypeAlias = Callable[[Received], Answer | Awaitable[Answer]]


class FakeBroker:
    """Listens on a port of 127.0.0.1 from `start` (or `with`) until `stop`.

    `api_versions` narrows what is advertised, key by key; None takes a key away. Versions outside
    of what is advertised are refused as Kafka does it: the connection is closed, but an unknown
    version of ApiVersions gets a version 0 body with UNSUPPORTED_VERSION.
    """

    def __init__(
        self,
        *,
        handlers: Mapping[ApiKey, Handler] | Mapping[int, Handler] | None = None,
        api_versions: VersionRanges | None = None,
        features: Mapping[str, int] | None = None,
        topics: Mapping[str, int] | None = None,
        node_id: int = 0,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.features = dict(features or {})
        self.api_versions = advertised(api_versions or {})
        self.topics = FakeTopics(self, topics or {})
        self.requests: list[Received] = []
        self.errors: list[Exception] = []
        self._handlers: dict[int, Handler] = {
            **default_handlers(self, self.topics, FakeCoordinator(self)),
            ApiKey.API_VERSIONS: self._answer_api_versions,
        }
        for api_key, handler in (handlers or {}).items():
            self.handle(api_key, handler)
        self._ssl_context = ssl_context
        self._arrived = threading.Condition()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._connections_count = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name=f"fake-broker-{self.node_id}"
        )
        self._thread.start()
        assert ready.wait(STOP_TIMEOUT_S), "the fake broker did not start"
        if self.errors:
            self._thread.join()
            raise self.errors[0]
        return self

    def stop(self) -> None:
        """Close everything and join the thread. May be called twice."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_TIMEOUT_S)
        assert not self._thread.is_alive(), "the fake broker's thread did not end"
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if error is None and self.errors:
            raise self.errors[0]

    def handle(self, api_key: int, handler: Handler) -> None:
        """Answer requests with `api_key` by `handler` from now on."""
        self._handlers[api_key] = handler

    def answer(self, request: Received, answer: Response | bytes) -> None:
        """Send what the handler of `request` held back; from any thread but the broker's own."""
        sending = asyncio.run_coroutine_threadsafe(self._send(request, answer), self._loop)
        sending.result(STOP_TIMEOUT_S)

    def drop_connections(self) -> None:
        """Close every connection that is open now; from any thread but the broker's own."""

        async def drop() -> None:
            for writer in self._connections.values():
                writer.transport.abort()

        asyncio.run_coroutine_threadsafe(drop(), self._loop).result(STOP_TIMEOUT_S)

    def received(self, api_key: int) -> list[Received]:
        """The requests with this API key so far."""
        with self._arrived:
            return [request for request in self.requests if request.api_key == api_key]

    def wait_for(self, api_key: int, *, count: int = 1, timeout_s: float = 10.0) -> list[Received]:
        """The requests with this API key, once there are `count` of them."""
        with self._arrived:
            in_time = self._arrived.wait_for(
                lambda: len(self.received(api_key)) >= count, timeout_s
            )
            assert in_time, (
                f"{len(self.received(api_key))} of {count} {ApiKey(api_key).name} requests "
                f"arrived within {timeout_s} s"
            )
            return self.received(api_key)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            server = await asyncio.start_server(
                self._serve_connection, self.host, self.port, ssl=self._ssl_context
            )
        except OSError as error:
            self.errors.append(error)
            ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        server.close()
        connections = dict(self._connections)
        for task, writer in connections.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        connection = self._connections_count
        self._connections_count += 1
        frames = FrameReader()
        try:
            while chunk := await reader.read(_READ_BYTES):
                for view in frames.feed(chunk):
                    await self._serve_request(bytes(view), connection, writer)
        except (DropConnection, ConnectionError, ssl.SSLError):
            pass
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
        except Exception as error:  # noqa: BLE001 - it is raised where the broker stops
            self.errors.append(error)
        finally:
            del self._connections[task]
            writer.transport.abort()

    async def _serve_request(
        self, request_frame: bytes, connection: int, writer: asyncio.StreamWriter
    ) -> None:
        header, _ = decode_request_header(request_frame)
        versions = REQUESTS[header.api_key].versions
        body = decode_request(request_frame)[1] if header.api_version in versions else None
        request = Received(
            frame=request_frame, header=header, body=body, connection=connection, _writer=writer
        )
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        await self._send(request, await self._answer(request))

    async def _answer(self, request: Received) -> Answer:
        if not self._allows(request) and request.api_key != ApiKey.API_VERSIONS:
            raise DropConnection
        answer = self._handlers[request.api_key](request)
        return await answer if isinstance(answer, Awaitable) else answer

    def _allows(self, request: Received) -> bool:
        allowed = self.api_versions.get(request.api_key)
        return allowed is not None and request.api_version in allowed

    async def _send(self, request: Received, answer: Answer) -> None:
        if answer is None:
            return
        if isinstance(answer, Response):
            version = request.api_version
            if request.api_key == ApiKey.API_VERSIONS and not self._allows(request):
                version = 0
            parts = encode_response(
                answer, api_version=version, correlation_id=request.header.correlation_id
            )
        else:
            parts = [answer]
        request._writer.writelines(frame(parts))
        await request._writer.drain()

    def _answer_api_versions(self, request: Received) -> Answer:
        own = self.api_versions[ApiKey.API_VERSIONS]
        if not self._allows(request):
            only = ApiVersion(
                api_key=ApiKey.API_VERSIONS, min_version=own.first, max_version=own.last
            )
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
                for key, versions in sorted(self.api_versions.items())
            ],
            supported_features=[
                SupportedFeatureKey(name=name, min_version=0, max_version=level)
                for name, level in sorted(self.features.items())
                if request.api_version >= 4  # older clients refuse a minimum of 0 (KIP-1022)
            ],
            finalized_features_epoch=0 if self.features else -1,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(self.features.items())
            ],
        )


def advertised(overrides: VersionRanges) -> dict[int, Versions]:
    """What the codec knows, narrowed by `overrides`."""
    ranges: dict[int, Versions] = {key: request.versions for key, request in REQUESTS.items()}
    # librdkafka up to 2.11 takes a higher minimum for a broker without compression (KAFKA-18659).
    ranges[ApiKey.PRODUCE] = Versions(0, ranges[ApiKey.PRODUCE].last)
    for key, override in overrides.items():
        if override is None:
            ranges.pop(key, None)
        else:
            ranges[key] = Versions(*override)
    return ranges
