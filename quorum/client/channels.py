"""gRPC channels to the voters, made when they are first needed and kept."""

from collections.abc import Sequence
from typing import Final

import grpc
import grpc.aio

from floodmark.tls import TlsMaterial

MAX_RESPONSE_BYTES: Final = 16 << 20
"""More than the largest message of a metadata stream, or the answer about 20,000 partitions."""
MAX_CHANNELS: Final = 32

OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    # A voter that stands still keeps its connections; only a missing answer gives it away.
    ("grpc.keepalive_time_ms", 3_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # By default gRPC waits for up to two minutes before it tries a lost voter again.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Two clients in one process are two clients.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class Channels:
    """One channel per address."""

    def __init__(self, addresses: Sequence[str], tls: TlsMaterial | None) -> None:
        if not addresses:
            raise ValueError("a client needs the address of at least one voter")
        self.addresses = tuple(dict.fromkeys(addresses))
        self._credentials = None if tls is None else _credentials(tls)
        self._channels: dict[str, grpc.aio.Channel] = {}

    def __getitem__(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._open(address)
        return channel

    def may_follow(self, address: str) -> bool:
        """Whether a voter's word about the leader's address is taken: not for ever new ones."""
        return address in self._channels or len(self._channels) < MAX_CHANNELS

    def _open(self, address: str) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=OPTIONS)
        return grpc.aio.secure_channel(address, self._credentials, options=OPTIONS)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


def _credentials(tls: TlsMaterial) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=tls.ca, private_key=tls.key, certificate_chain=tls.certificate
    )


def details_key_value(error: grpc.aio.AioRpcError, key: str) -> bytes | None:
    """A binary value of the trailing metadata."""
    for name, value in error.trailing_metadata() or ():
        if name == key and isinstance(value, bytes):
            return value
    return None
