"""Connections between voters: TCP, with mutual TLS or plain, one per pair.

The voter with the higher id dials. Both sides begin with a `Hello`: whose voter, of which cluster.
Under TLS the name in the certificate decides who the other side is, and a `Hello` that claims
something else is refused. Until it has said hello a stranger gets a small buffer, a short time and
one of few places. A newer connection of a voter takes the place of the older one.

Runs on one event loop. It moves frames and knows nothing of what is in them.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from floodmark.addresses import Address
from floodmark.errors import UserError
from floodmark.tls import TlsFiles, client_context, peer_name, server_context
from quorum.raft import frames
from quorum.raft.frames import BadFrame, FrameReader

logger = logging.getLogger(__name__)

MAX_HELLO_BYTES: Final = 1024
MAX_STRANGERS: Final = 64
MAX_UNSENT_BYTES: Final = 32 << 20
"""What waits for a slow peer beyond this is dropped: the engine sends it again."""
HELLO_TIMEOUT_S: Final = 3.0
DIAL_TIMEOUT_S: Final = 1.0
DIAL_PAUSE_S: Final = 0.1
SILENCE_MS: Final = 3000
"""How long the kernel waits for a peer to take what was sent."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="floodmark-raft-1"):
    """The first frame on a connection, from both sides."""

    cluster_id: str
    voter_id: int


_decode_hello = msgspec.msgpack.Decoder(Hello).decode


class Receiver(Protocol):
    """Who takes what arrives. All calls come on the network's loop."""

    def connected(self, voter_id: int) -> None: ...

    def disconnected(self, voter_id: int) -> None: ...

    def received(self, voter_id: int, body: bytes) -> None:
        """Raises `BadFrame` for what no voter sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Who this voter is, and where the others are."""

    voter_id: int
    cluster_id: str
    addresses: dict[int, Address]
    """Of the other voters."""
    tls: TlsFiles | None = None
    certificate_name: Callable[[int], str] = field(default=str)
    """The name that a voter's certificate must have."""


class PeerNetwork:
    """The listener, the dialers and the connections of one voter."""

    def __init__(self, peers: Peers, receiver: Receiver) -> None:
        self.peers = peers
        self._receiver = receiver
        self._connections: dict[int, _Connection] = {}
        self._strangers: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._dialers: list[asyncio.Task[None]] = []
        self._client_tls: ssl.SSLContext | None = None

    async def start(self, listen: Address) -> Address:
        """Listens and begins to dial; returns where it listens."""
        server_tls = None
        if self.peers.tls is not None:
            server_tls = server_context(self.peers.tls)
            self._client_tls = client_context(self.peers.tls)
            # Who the other side is, is in its certificate's name, wherever it runs.
            self._client_tls.check_hostname = False
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Connection(self, expected=None),
                listen.host or None,
                listen.port,
                ssl=server_tls,
                ssl_handshake_timeout=HELLO_TIMEOUT_S if server_tls else None,
            )
        except OSError as error:
            what = f"cannot listen for voters on {listen}: {error.strerror or error}"
            raise UserError(what, "choose another address or stop what uses it") from error
        for voter_id in sorted(self.peers.addresses):
            if voter_id < self.peers.voter_id:
                dialer = asyncio.create_task(self._dial(voter_id), name=f"dial voter {voter_id}")
                self._dialers.append(dialer)
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    async def stop(self) -> None:
        for dialer in self._dialers:
            dialer.cancel()
        await asyncio.gather(*self._dialers, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for connection in [*self._strangers, *self._connections.values()]:
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()

    def send(self, voter_id: int, frame: bytes) -> None:
        connection = self._connections.get(voter_id)
        if connection is not None:
            connection.send(frame)

    async def _dial(self, voter_id: int) -> None:
        """Keeps a connection to one voter."""
        loop = asyncio.get_running_loop()
        address = self.peers.addresses[voter_id]
        is_known_to_fail = False
        while True:
            try:
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    _, connection = await loop.create_connection(
                        lambda: _Connection(self, expected=voter_id),
                        address.host,
                        address.port,
                        ssl=self._client_tls,
                    )
                is_known_to_fail = False
                await connection.lost
            except (OSError, TimeoutError) as error:
                level = logging.DEBUG if is_known_to_fail else logging.INFO
                logger.log(
                    level, "voter %d at %s: %s", voter_id, address, str(error) or "no answer"
                )
                is_known_to_fail = True
            await asyncio.sleep(DIAL_PAUSE_S)

    # ------------------------------------------------------------------- called by connections

    def opened(self, connection: "_Connection") -> bool:
        """Whether there is a place for somebody who has not said hello."""
        if len(self._strangers) >= MAX_STRANGERS:
            return False
        self._strangers.add(connection)
        return True

    def introduced(self, connection: "_Connection", voter_id: int) -> None:
        self._strangers.discard(connection)
        before = self._connections.pop(voter_id, None)
        if before is not None:
            before.abort()
            self._receiver.disconnected(voter_id)
        self._connections[voter_id] = connection
        logger.info("connected with voter %d", voter_id)
        self._receiver.connected(voter_id)

    def closed(self, connection: "_Connection") -> None:
        self._strangers.discard(connection)
        voter_id = connection.voter_id
        if voter_id is not None and self._connections.get(voter_id) is connection:
            del self._connections[voter_id]
            logger.info("lost the connection with voter %d", voter_id)
            self._receiver.disconnected(voter_id)

    def arrived(self, connection: "_Connection", body: bytes) -> None:
        """Frames of a connection that another one replaced are dropped."""
        voter_id = connection.voter_id
        if voter_id is not None and self._connections.get(voter_id) is connection:
            self._receiver.received(voter_id, body)


class _Connection(asyncio.Protocol):
    """One connection: first a stranger's, then a voter's."""

    def __init__(self, network: PeerNetwork, *, expected: int | None) -> None:
        self.voter_id: int | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._network = network
        self._expected = expected
        self._frames = FrameReader(max_frame_bytes=MAX_HELLO_BYTES)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert_transport(transport)
        self._transport = transport  # type: ignore[assignment]
        if not self._network.opened(self):
            logger.warning("too many strangers; closing the connection of one")
            self.abort()
            return
        _set_options(transport.get_extra_info("socket"))
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HELLO_TIMEOUT_S, self._refuse, "it does not say hello")
        peers = self._network.peers
        hello = msgspec.msgpack.encode(Hello(peers.cluster_id, peers.voter_id))
        self.send(frames.with_length(hello))

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                if self.voter_id is None:
                    self._introduce(body)
                else:
                    self._network.arrived(self, body)
        except BadFrame as error:
            self._refuse(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if not self.lost.done():
            self.lost.set_result(None)
        self._network.closed(self)

    def send(self, frame: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            if not self._is_full:
                logger.warning("voter %s takes too little; dropping what is for it", self.voter_id)
            self._is_full = True
            return
        self._is_full = False
        transport.write(frame)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _introduce(self, body: bytes) -> None:
        try:
            hello = _decode_hello(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadFrame(f"no hello of a voter: {error}") from error
        peers = self._network.peers
        if hello.cluster_id != peers.cluster_id:
            raise BadFrame(f"it is of another cluster, {hello.cluster_id!r:.60}")
        if hello.voter_id not in peers.addresses or self._expected not in (None, hello.voter_id):
            raise BadFrame(f"it calls itself voter {hello.voter_id}, whom we do not expect")
        self._check_certificate(hello.voter_id)
        if self._deadline is not None:
            self._deadline.cancel()
        self._frames.max_frame_bytes = frames.MAX_FRAME_BYTES
        self.voter_id = hello.voter_id
        self._network.introduced(self, hello.voter_id)

    def _check_certificate(self, voter_id: int) -> None:
        peers = self._network.peers
        if peers.tls is None or self._transport is None:
            return
        name = peer_name(self._transport.get_extra_info("ssl_object"))
        if name != peers.certificate_name(voter_id):
            raise BadFrame(f"it calls itself voter {voter_id}, and its certificate says {name!r}")

    def _refuse(self, reason: str) -> None:
        address = self._transport.get_extra_info("peername") if self._transport else None
        logger.warning("closing the connection with %s: %s", address, reason)
        self.abort()


def assert_transport(transport: asyncio.BaseTransport) -> None:
    """A stream, over which we write."""
    if not isinstance(transport, asyncio.Transport):
        raise TypeError(f"{transport!r} is no stream")


def _set_options(sock: socket.socket | None) -> None:
    if sock is None:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_USER_TIMEOUT", SILENCE_MS),
        ("TCP_KEEPIDLE", 3),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", 3),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
