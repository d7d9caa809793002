"""Committed metadata for whoever follows it: a snapshot, the batches after it, then live ones.

Any voter feeds, the leader or not, and feeds only what is committed. It keeps the newest batches
in memory, within a limit, once for all readers; a reader is a position among them. So a slow reader
costs nothing but its position: if the batches that it needs are gone by the time that it asks, it
gets a snapshot again and goes on from there. Snapshots are encoded off the loop, shared by all
readers, and at most two are kept: a reader that is still busy with a third starts over.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeAlias

from floodmark.invariant import invariant
from kafka_wire.error_codes import ErrorCode
from quorum.errors import OverloadedError, QuorumError
from quorum.metadata.image import MetadataImage
from quorum.metadata.snapshot import encode_snapshot
from quorum.raft.port import Entry, Leadership

MAX_FEED_BYTES: Final = 64 << 20
MAX_FEED_BATCHES: Final = 200_000
MAX_MESSAGE_BYTES: Final = 1 << 20
"""Of batches in one message; a single larger batch goes alone."""
MAX_MESSAGE_BATCHES: Final = 1000
SNAPSHOT_CHUNK_BYTES: Final = 512 << 10
MAX_STREAMS: Final = 1000
BATCH_OVERHEAD_BYTES: Final = 200
"""What an entry costs in memory beside its data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPiece:
    last_offset: int
    last_epoch: int
    index: int
    is_last: bool
    data: bytes


FeedItem: TypeAlias = SnapshotPiece | tuple[Entry, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Observer:
    """How far a reader has got; times are of the clock that the feed was given."""

    broker_id: int | None
    next_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Snapshot:
    last_offset: int
    last_epoch: int
    chunks: list[bytes]

    @property
    def is_dropped(self) -> bool:
        return not self.chunks

    def drop(self) -> None:
        """Gives the memory back, whoever still reads it."""
        self.chunks = []


class MetadataFeed:
    """On the event loop."""

    def __init__(
        self,
        *,
        image: Callable[[], MetadataImage],
        now_ms: Callable[[], int],
        max_bytes: int = MAX_FEED_BYTES,
        max_batches: int = MAX_FEED_BATCHES,
        max_streams: int = MAX_STREAMS,
        chunk_bytes: int = SNAPSHOT_CHUNK_BYTES,
    ) -> None:
        """`image` gives the committed image, which may be ahead of what the feed was told."""
        self.snapshots_encoded = 0
        self._image = image
        self._now_ms = now_ms
        self._max_bytes = max_bytes
        self._max_batches = max_batches
        self._max_streams = max_streams
        self._chunk_bytes = chunk_bytes
        self._entries: list[Entry] = []
        self._head = 0
        """Entries before this place in the list are given up; the list is cut now and then."""
        self._size_bytes = 0
        self._start_offset = 1
        self._end_offset = 1
        self._grown: asyncio.Future[None] | None = None
        self._newest: _Snapshot | None = None
        self._previous: _Snapshot | None = None
        self._encoding: asyncio.Task[_Snapshot] | None = None
        self._observers: dict[int, Observer] = {}
        self._streams = 0
        self._is_closed = False
        self._is_stale = False

    @property
    def start_offset(self) -> int:
        """The first offset that is fed without a snapshot."""
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last one that is fed."""
        return self._end_offset

    @property
    def size_bytes(self) -> int:
        """Of the batches that are kept."""
        return self._size_bytes

    def observers(self) -> tuple[Observer, ...]:
        return tuple(self._observers.values())

    # ---------------------------------------------------- what the engine says (listener)

    def entry_applied(self, entry: Entry) -> None:
        if len(self._entries) > self._head or self._start_offset > 1:
            invariant(
                entry.index == self._end_offset,
                "the feed has no gap",
                index=entry.index,
                end=self._end_offset,
            )
        self._entries.append(entry)
        self._end_offset = entry.index + 1
        self._size_bytes += _cost(entry)
        self._trim()
        self._wake()

    def image_restored(self, image: MetadataImage) -> None:
        self._entries = []
        self._head = 0
        self._size_bytes = 0
        self._start_offset = self._end_offset = image.offset + 1
        self._wake()

    def leadership_changed(self, leadership: Leadership, image: MetadataImage) -> None:
        """Who leads makes no difference to what is committed."""

    # ------------------------------------------------------------------------- readers

    async def stream(
        self, from_offset: int, *, broker_id: int | None = None
    ) -> AsyncGenerator[FeedItem, None]:
        """Everything from an offset on, until the feed is closed.

        The caller takes the next item when it has delivered the one before: that is all the
        backpressure there is, and all that is needed.
        """
        self._check_fresh()
        if len(self._observers) >= self._max_streams:
            raise OverloadedError(f"{self._max_streams} streams are open already")
        self._streams += 1
        key = self._streams
        observer = self._observers[key] = Observer(
            broker_id=broker_id, next_offset=max(from_offset, 1), last_fetch_ms=self._now_ms()
        )
        try:
            while not self._is_closed:
                self._check_fresh()
                async with aclosing(self._next_items(observer.next_offset)) as items:
                    async for item in items:
                        yield item
                        self._delivered(observer, item)
        finally:
            del self._observers[key]

    def set_stale(self, is_stale: bool) -> None:
        """While this voter is cut off, readers are better served elsewhere: their streams end."""
        if is_stale is not self._is_stale:
            self._is_stale = is_stale
            self._wake()

    def _check_fresh(self) -> None:
        if self._is_stale:
            raise QuorumError(
                ErrorCode.LEADER_NOT_AVAILABLE, "this voter knows no leader; ask another"
            )

    def close(self) -> None:
        """Ends all streams."""
        self._is_closed = True
        if self._encoding is not None:
            self._encoding.cancel()
        self._wake()

    def _delivered(self, observer: Observer, item: FeedItem) -> None:
        now_ms = self._now_ms()
        observer.last_fetch_ms = now_ms
        if isinstance(item, SnapshotPiece):
            if item.is_last:
                observer.next_offset = item.last_offset + 1
        else:
            observer.next_offset = item[-1].index + 1
        if observer.next_offset >= self._end_offset:
            observer.last_caught_up_ms = now_ms

    async def _next_items(self, position: int) -> AsyncGenerator[FeedItem, None]:
        if position < self._start_offset:
            async with aclosing(self._snapshot_pieces()) as pieces:
                async for piece in pieces:
                    yield piece
        elif position < self._end_offset:
            yield self._slice(position)
        else:
            await self._growth()

    def _slice(self, position: int) -> tuple[Entry, ...]:
        first = self._head + max(position - self._entries[self._head].index, 0)
        size_bytes = 0
        end = first
        for entry in self._entries[first : first + MAX_MESSAGE_BATCHES]:
            size_bytes += len(entry.data)
            if size_bytes > MAX_MESSAGE_BYTES and end > first:
                break
            end += 1
        return tuple(self._entries[first:end])

    async def _growth(self) -> None:
        if self._is_closed:
            return
        if self._grown is None:
            self._grown = asyncio.get_running_loop().create_future()
        # Others wait for the same future, and one that goes away must not cancel it.
        await asyncio.shield(self._grown)

    def _wake(self) -> None:
        grown, self._grown = self._grown, None
        if grown is not None and not grown.done():
            grown.set_result(None)

    def _trim(self) -> None:
        while (
            self._size_bytes > self._max_bytes
            or len(self._entries) - self._head > self._max_batches
        ):
            self._size_bytes -= _cost(self._entries[self._head])
            self._start_offset = self._entries[self._head].index + 1
            self._head += 1
        if 2 * self._head > len(self._entries):
            del self._entries[: self._head]
            self._head = 0

    # ----------------------------------------------------------------------- snapshots

    async def _snapshot_pieces(self) -> AsyncGenerator[SnapshotPiece, None]:
        snapshot = await self._usable_snapshot()
        for index in range(len(snapshot.chunks)):
            if snapshot.is_dropped or self._is_closed:
                return
            yield SnapshotPiece(
                last_offset=snapshot.last_offset,
                last_epoch=snapshot.last_epoch,
                index=index,
                is_last=index == len(snapshot.chunks) - 1,
                data=snapshot.chunks[index],
            )

    async def _usable_snapshot(self) -> _Snapshot:
        """One from which the batches go on, with room for more to come while it is read."""
        newest = self._newest
        margin = (self._end_offset - self._start_offset) // 2
        if newest is not None and newest.last_offset + 1 >= self._start_offset + margin:
            return newest
        if self._encoding is None or self._encoding.done():
            self._encoding = asyncio.create_task(self._encode(), name="metadata snapshot")
        return await asyncio.shield(self._encoding)

    async def _encode(self) -> _Snapshot:
        image = self._image()
        chunks = await asyncio.to_thread(_chunks, encode_snapshot(image), self._chunk_bytes)
        snapshot = _Snapshot(last_offset=image.offset, last_epoch=image.epoch, chunks=chunks)
        self.snapshots_encoded += 1
        if self._previous is not None:
            self._previous.drop()
        self._previous, self._newest = self._newest, snapshot
        return snapshot


def _chunks(pieces: Iterable[bytes], chunk_bytes: int) -> list[bytes]:
    """The same bytes in chunks of one size; at least one chunk."""
    chunks: list[bytes] = []
    rest = bytearray()
    for piece in pieces:
        rest += piece
        while len(rest) > chunk_bytes:
            chunks.append(bytes(rest[:chunk_bytes]))
            del rest[:chunk_bytes]
    return [*chunks, bytes(rest)]


def _cost(entry: Entry) -> int:
    return len(entry.data) + BATCH_OVERHEAD_BYTES
