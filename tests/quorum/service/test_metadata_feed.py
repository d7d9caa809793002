"""The feed: contiguous for every reader, in bounded memory whatever the readers do."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from quorum.errors import OverloadedError, QuorumError
from quorum.metadata.image import EMPTY_IMAGE, MetadataImage, apply_batch
from quorum.metadata.records import ConfigRecord, encode_batch
from quorum.metadata.snapshot import decode_snapshot
from quorum.metadata.types import MetadataOffset, ResourceType
from quorum.metadata_feed import BATCH_OVERHEAD_BYTES, FeedItem, MetadataFeed, SnapshotPiece
from quorum.raft.port import Entry
from tests.quorum.service.voters import on_loop, until


class Source:
    """A committed log, and the feed that is told of it."""

    def __init__(self, **limits: int) -> None:
        self.image = EMPTY_IMAGE
        self.feed = MetadataFeed(image=lambda: self.image, now_ms=lambda: 5, **limits)

    def commit(self, count: int = 1, value: str = "v") -> None:
        for _ in range(count):
            offset = MetadataOffset(self.image.offset + 1)
            record = ConfigRecord(
                resource_type=ResourceType.BROKER,
                resource_name="",
                key=f"k{offset % 50}",
                value=f"{value}{offset}",
            )
            data = encode_batch((record,), offset=offset, chain=self.image.chain)
            self.image = apply_batch(self.image, data, offset=offset, epoch=1).image
            self.feed.entry_applied(Entry(index=offset, term=1, data=data))


@dataclass
class Reader:
    """Follows a stream as a broker does, and fails at the first gap or repetition."""

    image: MetadataImage = EMPTY_IMAGE
    snapshots: int = 0
    pieces: list[bytes] = field(default_factory=list)

    def take(self, item: FeedItem) -> None:
        if isinstance(item, SnapshotPiece):
            if item.index == 0:
                self.pieces = []
            assert item.index == len(self.pieces)
            self.pieces.append(item.data)
            if item.is_last:
                self.image = decode_snapshot(b"".join(self.pieces))
                assert self.image.offset == item.last_offset
                self.snapshots += 1
            return
        for entry in item:
            assert entry.index == self.image.offset + 1
            applied = apply_batch(
                self.image, entry.data, offset=MetadataOffset(entry.index), epoch=entry.term
            )
            assert applied.accepted
            self.image = applied.image

    async def follow(self, stream: AsyncIterator[FeedItem], end: int) -> None:
        async for item in stream:
            self.take(item)
            if self.image.offset >= end:
                return


@on_loop
async def test_reader_gets_the_log_and_then_live_batches() -> None:
    source = Source()
    source.commit(10)
    reader = Reader()
    following = asyncio.create_task(reader.follow(source.feed.stream(0), end=20))
    await until(lambda: reader.image.offset == 10)
    source.commit(10)
    await following
    assert reader.snapshots == 0
    assert reader.image == source.image


@on_loop
async def test_reader_from_the_middle_gets_exactly_the_rest() -> None:
    source = Source()
    source.commit(10)
    stream = source.feed.stream(7)
    item = await anext(stream)
    assert not isinstance(item, SnapshotPiece)
    assert [entry.index for entry in item] == [7, 8, 9, 10]


@on_loop
async def test_old_position_gets_a_snapshot_and_what_came_after_it() -> None:
    source = Source(max_batches=10, chunk_bytes=64)
    source.commit(100)
    reader = Reader()
    await reader.follow(source.feed.stream(5), end=100)
    assert reader.snapshots == 1
    assert reader.image == source.image


@on_loop
async def test_slow_and_fast_readers_under_load_end_with_the_same_image() -> None:
    source = Source(max_batches=50, chunk_bytes=100)
    total = 3000
    readers = [Reader() for _ in range(6)]

    async def slow(reader: Reader, turns: int) -> None:
        async for item in source.feed.stream(0):
            reader.take(item)
            if reader.image.offset >= total:
                return
            for _ in range(turns):
                await asyncio.sleep(0)

    tasks = [asyncio.create_task(slow(reader, i * 3)) for i, reader in enumerate(readers)]
    while source.image.offset < total:
        source.commit(7)
        assert source.feed.end_offset - source.feed.start_offset <= 50
        await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*tasks), 30)
    for reader in readers:
        assert reader.image.configs == source.image.configs
    assert readers[-1].snapshots >= 1


@on_loop
async def test_memory_is_bounded_in_bytes() -> None:
    source = Source(max_bytes=10_000)
    stream = source.feed.stream(0)
    source.commit(1)
    await anext(stream)  # a reader that never comes back
    for _ in range(100):
        source.commit(10, value="x" * 100)
        assert source.feed.size_bytes <= 10_000
    assert source.feed.end_offset - source.feed.start_offset <= 10_000 // BATCH_OVERHEAD_BYTES


@on_loop
async def test_readers_share_a_snapshot_and_at_most_two_are_kept() -> None:
    source = Source(max_batches=10, chunk_bytes=32)
    source.commit(100)
    first = source.feed.stream(0)
    piece = await anext(first)
    assert isinstance(piece, SnapshotPiece)
    second = source.feed.stream(0)
    other = await anext(second)
    assert isinstance(other, SnapshotPiece)
    assert source.feed.snapshots_encoded == 1
    for _ in range(2):  # two newer ones push the first out of memory
        source.commit(100)
        await anext(source.feed.stream(0))
    assert source.feed.snapshots_encoded == 3
    again = await anext(first)
    assert isinstance(again, SnapshotPiece)
    assert again.index == 0
    assert again.last_offset > piece.last_offset
    reader = Reader()
    reader.take(again)
    await reader.follow(first, end=300)
    assert reader.image == source.image


@on_loop
async def test_position_ahead_of_this_voter_waits() -> None:
    source = Source()
    source.commit(5)
    following = asyncio.ensure_future(anext(source.feed.stream(9)))
    await until(lambda: len(source.feed.observers()) == 1)
    source.commit(3)
    assert not following.done()
    source.commit(1)
    item = await following
    assert not isinstance(item, SnapshotPiece)
    assert [entry.index for entry in item] == [9]


@on_loop
async def test_restored_snapshot_moves_everybody_on() -> None:
    source, newer = Source(), Source()
    source.commit(5)
    newer.commit(50)
    reader = Reader()
    stream = source.feed.stream(0)
    following = asyncio.create_task(reader.follow(stream, end=51))
    await until(lambda: reader.image.offset == 5)
    source.image = newer.image
    source.feed.image_restored(newer.image)
    await until(lambda: reader.image.offset == 50)
    source.commit(1)
    await following
    assert reader.image == source.image
    assert reader.snapshots == 1


@on_loop
async def test_observers_tell_how_far_each_broker_is() -> None:
    source = Source()
    source.commit(5)
    stream = source.feed.stream(0, broker_id=4)
    await anext(stream)
    (observer,) = source.feed.observers()
    assert (observer.broker_id, observer.next_offset) == (4, 1)  # not delivered yet
    pending = asyncio.ensure_future(anext(stream))
    await until(lambda: observer.next_offset == 6)
    assert observer.last_caught_up_ms == 5
    pending.cancel()
    await asyncio.gather(pending, return_exceptions=True)
    assert not source.feed.observers()


@on_loop
async def test_streams_beyond_the_limit_are_refused() -> None:
    source = Source(max_streams=2)
    source.commit(1)
    streams = [source.feed.stream(0) for _ in range(3)]
    await anext(streams[0])
    await anext(streams[1])
    with pytest.raises(OverloadedError):
        await anext(streams[2])


@on_loop
async def test_streams_of_a_voter_that_is_cut_off_end() -> None:
    source = Source()
    source.commit(1)
    stream = source.feed.stream(0)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    source.feed.set_stale(True)
    with pytest.raises(QuorumError):
        await waiting
    source.feed.set_stale(False)
    await anext(source.feed.stream(0))


@on_loop
async def test_closed_feed_ends_its_streams() -> None:
    source = Source()
    source.commit(1)
    stream = source.feed.stream(0)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    source.feed.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


@on_loop
async def test_position_just_before_the_first_kept_batch_needs_a_snapshot() -> None:
    source = Source(max_batches=10)
    source.commit(100)
    start = source.feed.start_offset
    assert start == 91
    assert isinstance(await anext(source.feed.stream(start - 1)), SnapshotPiece)
    item = await anext(source.feed.stream(start))
    assert not isinstance(item, SnapshotPiece)
    assert item[0].index == start
