"""A connection to a broker that sends requests and hands back frames, undecoded."""

import socket
import ssl
from collections import deque
from types import TracebackType
from typing import Self

from kafka_wire.framing import FrameReader, frame
from kafka_wire.protocol import encode_request
from kafka_wire.schema import Request

_READ_BYTES = 256 * 1024
_CLIENT_ID = "raw"


class RawClient:
    """Answers come in the order of the requests, as Kafka promises for one connection."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float = 10.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = socket.create_connection((host, port), timeout_s)
        if ssl_context is not None:
            self._socket = ssl_context.wrap_socket(self._socket, server_hostname=host)
        self._reader = FrameReader()
        self._frames: deque[bytes] = deque()
        self._correlation_id = 0

    def send(self, request: Request, api_version: int) -> int:
        """Returns the correlation id."""
        self._correlation_id += 1
        parts = encode_request(
            request,
            api_version=api_version,
            correlation_id=self._correlation_id,
            client_id=_CLIENT_ID,
        )
        self._socket.sendall(b"".join(frame(parts)))
        return self._correlation_id

    def receive(self) -> bytes:
        """The next frame; a `ConnectionError` or a `TimeoutError` where none comes."""
        while not self._frames:
            chunk = self._socket.recv(_READ_BYTES)
            if not chunk:
                raise ConnectionResetError("the peer closed the connection")
            self._frames += map(bytes, self._reader.feed(chunk))
        return self._frames.popleft()

    def exchange(self, request: Request, api_version: int) -> bytes:
        """Send a request and wait for the frame that answers it."""
        correlation_id = self.send(request, api_version)
        answer = self.receive()
        assert int.from_bytes(answer[:4], "big") == correlation_id
        return answer

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
