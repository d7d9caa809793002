"""A small HTTP/1.1 server for what machines and people look at: metrics, health, pages.

It answers GET and HEAD on the routes that it is given, and nothing else. Whoever calls is not
trusted: a request's head, the number of connections, the time to send a head, to make an answer
and to take it are limited. A body is never read, so a request with one closes its connection.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from floodmark.addresses import Address
from floodmark.metrics import CONTENT_TYPE, Metrics

logger = logging.getLogger(__name__)

MOST_HEAD_BYTES: Final = 16 * 1024
MOST_CONNECTIONS: Final = 128
HEAD_TIMEOUT_S: Final = 10.0
IDLE_TIMEOUT_S: Final = 75.0
"""More than a minute: that is how often Prometheus may come, and it keeps its connection."""
ANSWER_TIMEOUT_S: Final = 30.0
WRITE_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 5.0
LINGER_TIMEOUT_S: Final = 1.0
MOST_LINGER_BYTES: Final = 1 << 20

_HEAD_END: Final = b"\r\n\r\n"
_METHODS: Final = ("GET", "HEAD")
_VERSIONS: Final = ("HTTP/1.0", "HTTP/1.1")
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name; the last of several counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    body: bytes = b""
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[Request], Response | Awaitable[Response]]


class _BadRequest(Exception):  # noqa: N818 - an answer, not an error of ours
    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class HttpServer:
    """Serves routes until it is stopped. A route that ends in `/` serves all paths below it."""

    def __init__(
        self,
        routes: Mapping[str, Handler],
        *,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        head_timeout_s: float = HEAD_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._routes = dict(routes)
        self._idle_timeout_s = idle_timeout_s
        self._head_timeout_s = head_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._most_connections = most_connections
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], bool] = {}
        """Every connection's task, and whether it is at work on a request."""
        self._stopping = False

    async def start(self, address: Address, tls: ssl.SSLContext | None = None) -> Address:
        """Listens, and returns the address with the port that it got."""
        self._server = await asyncio.start_server(
            self._connected, address.host or None, address.port, limit=MOST_HEAD_BYTES, ssl=tls
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return Address(address.host, port)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stops listening, lets requests at work be answered, and closes every connection."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        for task, busy in self._connections.items():
            if not busy:
                task.cancel()
        if self._connections:
            _, late = await asyncio.wait(list(self._connections), timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        if self._server is not None:
            await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or self._stopping:
            writer.close()
            return
        too_many = len(self._connections) >= self._most_connections
        self._connections[task] = False
        try:
            if too_many:
                await self._send(writer, _error(HTTPStatus.SERVICE_UNAVAILABLE, "too many"), "GET")
                await _linger(reader, writer)
            else:
                await self._serve(task, reader, writer)
        except (ConnectionError, TimeoutError, ssl.SSLError) as error:
            logger.debug("HTTP connection ended: %r", error)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            del self._connections[task]
            writer.close()

    async def _serve(
        self,
        task: "asyncio.Task[None]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        keep_alive = True
        while keep_alive and not self._stopping:
            try:
                head = await self._read_head(reader)
                if head is None:
                    return
                self._connections[task] = True
                request, keep_alive = _parse_head(head)
            except _BadRequest as bad:
                await self._send(writer, _error(bad.status, bad.why), "GET")
                await _linger(reader, writer)
                return
            response = await self._answer(request)
            keep_alive = keep_alive and not self._stopping
            await self._send(writer, response, request.method, keep_alive=keep_alive)
            self._connections[task] = False
        await _linger(reader, writer)

    async def _read_head(self, reader: asyncio.StreamReader) -> bytes | None:
        """A request's head, or None if the other side is done, or has nothing to ask."""
        try:
            # Nobody is told that an idle connection ends: it would be taken for an answer.
            async with asyncio.timeout(self._idle_timeout_s):
                first = await reader.readexactly(1)
        except (asyncio.IncompleteReadError, TimeoutError):
            return None
        try:
            async with asyncio.timeout(self._head_timeout_s):
                return first + await reader.readuntil(_HEAD_END)
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _BadRequest(status, f"at most {MOST_HEAD_BYTES} bytes of head") from None
        except TimeoutError:
            raise _BadRequest(HTTPStatus.REQUEST_TIMEOUT, "too slow") from None

    async def _answer(self, request: Request) -> Response:
        handler = self._route(request.path)
        if handler is None:
            return _error(HTTPStatus.NOT_FOUND, "there is nothing here")
        if request.method not in _METHODS:
            allow = {"Allow": ", ".join(_METHODS)}
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD only", allow)
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                answer = handler(request)
                return answer if isinstance(answer, Response) else await answer
        except TimeoutError:
            logger.warning("no answer to %s in time", request.path)
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "no answer in time")
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug; see the log")

    def _route(self, path: str) -> Handler | None:
        found = self._routes.get(path)
        folder = path
        while found is None and folder:
            folder = folder.rpartition("/")[0]
            found = self._routes.get(f"{folder}/")
        return found

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        response: Response,
        method: str,
        *,
        keep_alive: bool = False,
    ) -> None:
        lines = [
            f"HTTP/1.1 {response.status.value} {response.status.phrase}",
            f"Content-Type: {response.content_type}",
            f"Content-Length: {len(response.body)}",
            f"Connection: {'keep-alive' if keep_alive else 'close'}",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in response.headers.items()),
        ]
        writer.write("\r\n".join(lines).encode("latin-1") + _HEAD_END)
        if method != "HEAD":
            writer.write(response.body)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await writer.drain()


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes what is still coming before the connection is closed: a close with unread bytes resets
    it, and the other side would lose the answer."""
    if writer.can_write_eof():
        writer.write_eof()
    left = MOST_LINGER_BYTES
    try:
        async with asyncio.timeout(LINGER_TIMEOUT_S):
            while left > 0 and (data := await reader.read(MOST_HEAD_BYTES)):
                left -= len(data)
    except TimeoutError:
        return


def standard_routes(metrics: Metrics, not_ready: Callable[[], str | None]) -> dict[str, Handler]:
    """`/metrics`, `/health` (the process answers) and `/ready` (it does its job).

    `not_ready` says why the process cannot do its job now; None if it can.
    """

    def ready(_: Request) -> Response:
        reason = not_ready()
        if reason is None:
            return _status("ready")
        return _status("not ready", HTTPStatus.SERVICE_UNAVAILABLE, reason=reason)

    return {
        "/metrics": lambda _: Response(body=metrics.exposition(), content_type=CONTENT_TYPE),
        "/health": lambda _: _status("ok"),
        "/ready": ready,
    }


def _status(word: str, status: HTTPStatus = HTTPStatus.OK, **more: str) -> Response:
    body = json.dumps({"status": word, **more}).encode() + b"\n"
    return Response(body=body, status=status, content_type="application/json")


def _error(status: HTTPStatus, why: str, headers: Mapping[str, str] | None = None) -> Response:
    body = f"{status.value} {status.phrase}: {why}\n".encode()
    return Response(body=body, status=status, headers=headers or {})


def _parse_head(head: bytes) -> tuple[Request, bool]:
    """The request, and whether its connection may be used for another."""
    first, *lines = head[: -len(_HEAD_END)].decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[0].isalpha():
        raise _BadRequest(HTTPStatus.BAD_REQUEST, "the first line is no request")
    method, target, version = parts
    if version not in _VERSIONS:
        raise _BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 only")
    headers = dict(_header(line) for line in lines)
    if version == "HTTP/1.1" and "host" not in headers:
        raise _BadRequest(HTTPStatus.BAD_REQUEST, "the header Host is missing")
    path, query = _target(target)
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    options = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    wanted = "close" not in options if version == "HTTP/1.1" else "keep-alive" in options
    request = Request(method=method, path=path, query=query, headers=headers)
    return request, wanted and not has_body


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    name = name.lower()
    if not colon or not name or not _TOKEN.issuperset(name):
        raise _BadRequest(HTTPStatus.BAD_REQUEST, "a line is no header")
    return name, value.strip(" \t")


def _target(target: str) -> tuple[str, dict[str, str]]:
    try:
        split = urlsplit(target)
        query = dict(parse_qsl(split.query, keep_blank_values=True))
    except ValueError:
        raise _BadRequest(HTTPStatus.BAD_REQUEST, "the target is no address") from None
    path = unquote(split.path)
    if not path.startswith("/"):
        raise _BadRequest(HTTPStatus.BAD_REQUEST, "the target is no path")
    return path, query
