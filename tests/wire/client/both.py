"""Both clients behind the interface of one, so that each behaviour is tested once for both."""

import asyncio
import inspect
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, cast

from kafka_wire.client import AsyncClient, Client, Settings

REQUEST_TIMEOUT_MS = 5000
"""Long enough never to matter, short enough for a test that hangs."""
LEAK_TIMEOUT_S = 5.0
_RETURNS_ANOTHER = ("producer", "group_member")


class Connect(Protocol):
    """Makes a client, which is closed when the test is over."""

    def __call__(
        self,
        servers: str | Sequence[str],
        *,
        tls: ssl.SSLContext | None = None,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        connect_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_frame_bytes: int = 10_000_000,
    ) -> Client: ...


class Synced:
    """Calls an asyncio client as if it blocked, each call in a run of the same event loop."""

    def __init__(self, inner: object, runner: asyncio.Runner) -> None:
        self._inner = inner
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if inspect.iscoroutinefunction(found):
            return lambda *args, **kwargs: self._runner.run(found(*args, **kwargs))
        if name in _RETURNS_ANOTHER:
            return lambda *args, **kwargs: Synced(found(*args, **kwargs), self._runner)
        return found


@contextmanager
def connecting(kind: str, *, only_we_have_sockets: bool = True) -> Iterator[Connect]:
    """A factory of clients of this kind, which closes them at last and looks for leaks."""
    closing: list[Callable[[], None]] = []

    def connect(
        servers: str | Sequence[str],
        *,
        tls: ssl.SSLContext | None = None,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        connect_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_frame_bytes: int = 10_000_000,
    ) -> Client:
        chosen = Settings(
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            max_frame_bytes=max_frame_bytes,
        )
        if kind == "blocking":
            client = Client(servers, tls=tls, settings=chosen)
            closing.append(client.close)
            return client
        runner = asyncio.Runner()
        synced = Synced(runner.run(_make(servers, tls, chosen)), runner)
        closing.append(lambda: _close(synced, runner))
        return cast(Client, synced)

    with no_leaks() if only_we_have_sockets else nullcontext():
        try:
            yield connect
        finally:
            for close in closing:
                close()


async def _make(
    servers: str | Sequence[str], tls: ssl.SSLContext | None, settings: Settings
) -> AsyncClient:
    return AsyncClient(servers, tls=tls, settings=settings)


def _close(client: Synced, runner: asyncio.Runner) -> None:
    client.close()
    tasks = asyncio.all_tasks(runner.get_loop())
    runner.close()
    assert not tasks, f"left after close: {tasks}"


@contextmanager
def no_leaks() -> Iterator[None]:
    """No thread and no socket is left of what happens within."""
    threads, sockets = set(threading.enumerate()), _sockets()
    yield
    deadline = time.monotonic() + LEAK_TIMEOUT_S
    while set(threading.enumerate()) - threads or len(_sockets()) > len(sockets):
        left = f"{set(threading.enumerate()) - threads}, {_sockets() - sockets}"
        assert time.monotonic() < deadline, f"left after close: {left}"
        time.sleep(0.001)


def _sockets() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue  # the directory itself
        if target.startswith("socket:"):
            found.add(target)
    return found
