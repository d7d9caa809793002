"""Committed metadata from any voter: exactly once each, in order, through lost connections.

The position is the client's: it continues at the offset after the last one that it has handed on,
from whichever voter answers. What does not continue exactly there (a gap, a repetition, a snapshot
with a missing piece) is thrown away with its connection.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import grpc
import grpc.aio

from quorum.api import quorum_pb2 as pb
from quorum.api.quorum_pb2_grpc import QuorumServiceStub
from quorum.client.channels import Channels

if TYPE_CHECKING:
    from quorum.api.quorum_pb2_grpc import QuorumServiceAsyncStub

FIRST_BACKOFF_S: Final = 0.05
MAX_BACKOFF_S: Final = 1.0
CONNECT_TIMEOUT_S: Final = 1.0
MAX_SNAPSHOT_BYTES: Final = 1 << 30

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """Replaces everything: `quorum.metadata.snapshot.decode_snapshot` reads it."""

    last_offset: int
    """The last offset that is in it."""
    last_epoch: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBatch:
    """The entry after the one before: `quorum.metadata.image.apply_batch` takes it."""

    offset: int
    epoch: int
    records: bytes
    """Empty if the entry changes nothing."""


MetadataEvent: TypeAlias = MetadataSnapshot | MetadataBatch


class StreamBroken(Exception):  # noqa: N818 - caught here; not an error that leaves
    """What came does not continue what was there."""


class MetadataStream:
    """One reader's position."""

    def __init__(self, channels: Channels, *, from_offset: int, broker_id: int | None) -> None:
        self._channels = channels
        self._broker_id = broker_id
        self._assembly = SnapshotAssembly()
        self.next_offset = from_offset
        self.reconnects = 0

    async def events(self) -> AsyncGenerator[MetadataEvent, None]:
        """For ever; the caller stops by closing the iterator."""
        addresses = list(self._channels.addresses)
        random.shuffle(addresses)  # so that not all brokers read from the same voter
        backoff_s = FIRST_BACKOFF_S
        while True:
            before = self.next_offset
            try:
                async with aclosing(self._connected(addresses[0])) as events:
                    async for event in events:
                        yield event
                logger.debug("%s ended the metadata stream", addresses[0])
            except grpc.aio.AioRpcError as error:
                logger.info("metadata stream from %s: %s", addresses[0], error.details())
            except StreamBroken as error:
                logger.warning("metadata stream from %s is broken: %s", addresses[0], error)
            except TimeoutError:
                logger.info("metadata stream: no connection to %s", addresses[0])
            self.reconnects += 1
            addresses.append(addresses.pop(0))
            backoff_s = FIRST_BACKOFF_S if self.next_offset > before else 2 * backoff_s
            await asyncio.sleep(min(backoff_s, MAX_BACKOFF_S) * random.uniform(0.5, 1))

    async def _connected(self, address: str) -> AsyncGenerator[MetadataEvent, None]:
        channel = self._channels[address]
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await channel.channel_ready()
        stub: QuorumServiceAsyncStub = QuorumServiceStub(channel)
        request = pb.FetchMetadataRequest(from_offset=self.next_offset, broker_id=self._broker_id)
        self._assembly = SnapshotAssembly()
        call = stub.FetchMetadata(request)
        try:
            async for response in call:
                for event in self._taken(response):
                    yield event
        finally:
            call.cancel()

    def _taken(self, response: pb.FetchMetadataResponse) -> list[MetadataEvent]:
        """What a message completes. The position moves on with it, so whoever closes the stream
        between two events of one message must count the events, not ask for the position."""
        if response.WhichOneof("content") == "snapshot_chunk":
            snapshot = self._assembly.add(response.snapshot_chunk)
            if snapshot is None:
                return []
            if snapshot.last_offset < self.next_offset:
                raise StreamBroken(f"a snapshot of {snapshot.last_offset} goes back")
            self.next_offset = snapshot.last_offset + 1
            return [snapshot]
        events: list[MetadataEvent] = []
        for batch in response.batches.batches:
            # Nobody knows the offset of the very first entry; every other one continues exactly.
            if batch.offset != self.next_offset and self.next_offset > 1:
                raise StreamBroken(f"offset {batch.offset} came instead of {self.next_offset}")
            self.next_offset = batch.offset + 1
            events.append(
                MetadataBatch(offset=batch.offset, epoch=batch.epoch, records=batch.records)
            )
        return events


class SnapshotAssembly:
    """Puts the pieces of a snapshot together."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._pieces = 0
        self._last_offset = 0

    def add(self, chunk: pb.FetchMetadataResponse.SnapshotChunk) -> MetadataSnapshot | None:
        if chunk.index == 0:
            self._data = bytearray()
            self._pieces = 0
            self._last_offset = chunk.last_offset
        if chunk.index != self._pieces or chunk.last_offset != self._last_offset:
            raise StreamBroken(f"piece {chunk.index} came instead of {self._pieces}")
        if len(self._data) + len(chunk.data) > MAX_SNAPSHOT_BYTES:
            raise StreamBroken(f"the snapshot has more than {MAX_SNAPSHOT_BYTES} bytes")
        self._data += chunk.data
        self._pieces += 1
        if not chunk.is_last:
            return None
        data, self._data = bytes(self._data), bytearray()
        return MetadataSnapshot(
            last_offset=chunk.last_offset, last_epoch=chunk.last_epoch, data=data
        )
