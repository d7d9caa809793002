"""The state machine on the engine's thread, and what reaches the loop."""

import asyncio

import pytest

from floodmark.invariant import InvariantViolation
from quorum.loop_inbox import DRAIN_LIMIT, LoopInbox
from quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorum.metadata.records import (
    FeatureLevelRecord,
    MetadataFormatError,
    RemoveTopicRecord,
    encode_batch,
)
from quorum.metadata.types import MetadataOffset, TopicId
from quorum.raft.port import Entry, Leadership
from quorum.state_machine import MetadataStateMachine
from tests.quorum.service.voters import Cluster, on_loop, until


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def entry_applied(self, entry: Entry) -> None:
        self.heard.append(entry.index)

    def image_restored(self, image: MetadataImage) -> None:
        self.heard.append(image)

    def leadership_changed(self, leadership: Leadership, image: MetadataImage) -> None:
        self.heard.append((leadership, image.offset))


def fail(error: Exception) -> None:
    raise error


def entry(image: MetadataImage, level: int = 1) -> Entry:
    offset = MetadataOffset(image.offset + 1)
    records = (FeatureLevelRecord(name="f", level=level),)
    data = encode_batch(records, offset=offset, chain=image.chain)
    return Entry(index=offset, term=1, data=data)


@on_loop
async def test_listeners_hear_everything_in_the_order_of_the_engine() -> None:
    listener = Listener()
    machine = MetadataStateMachine(LoopInbox(asyncio.get_running_loop(), fail))
    machine.follow(listener)
    leads = Leadership(leader_id=1, term=1, is_active=True)

    def engine() -> None:
        machine.apply(Entry(index=1, term=1, data=b""))
        machine.leadership_changed(leads)
        machine.apply(entry(machine.image))

    await asyncio.to_thread(engine)
    await until(lambda: len(listener.heard) == 3)
    assert listener.heard == [1, (leads, 1), 2]
    assert machine.image.features["f"] == 1


@on_loop
async def test_snapshot_of_one_machine_makes_another_the_same() -> None:
    inbox = LoopInbox(asyncio.get_running_loop(), fail)
    first, second = MetadataStateMachine(inbox), MetadataStateMachine(inbox)
    for level in (1, 2, 3):
        first.apply(entry(first.image, level))
    pieces = first.capture()
    captured = first.image
    first.apply(entry(first.image, 9))  # encoding comes later, of what was captured
    second.restore(b"".join(pieces()), index=3, term=1)
    assert second.image == captured


@on_loop
async def test_snapshot_of_another_entry_is_refused() -> None:
    machine = MetadataStateMachine(LoopInbox(asyncio.get_running_loop(), fail))
    machine.apply(entry(machine.image))
    data = b"".join(machine.capture()())
    with pytest.raises(InvariantViolation):
        machine.restore(data, index=2, term=1)


@on_loop
async def test_entry_that_cannot_be_read_stops_the_voter() -> None:
    machine = MetadataStateMachine(LoopInbox(asyncio.get_running_loop(), fail))
    with pytest.raises(MetadataFormatError):
        machine.apply(Entry(index=1, term=1, data=b"garbage"))
    assert machine.image is EMPTY_IMAGE


@on_loop
async def test_entry_that_does_not_fit_the_image_stops_the_voter() -> None:
    machine = MetadataStateMachine(LoopInbox(asyncio.get_running_loop(), fail))
    records = (RemoveTopicRecord(topic_id=TopicId(bytes(16))),)
    data = encode_batch(records, offset=MetadataOffset(1), chain=0)
    with pytest.raises(InvariantViolation):
        machine.apply(Entry(index=1, term=1, data=data))
    assert machine.image is EMPTY_IMAGE


@on_loop
async def test_failure_on_the_loop_is_the_voters_failure() -> None:
    async with Cluster(1) as cluster:
        voter = cluster.voters[1]
        feed_end = voter.feed.end_offset
        gap = Entry(index=feed_end + 5, term=1, data=b"")
        voter.inbox.post(lambda: voter.feed.entry_applied(gap))
        with pytest.raises(InvariantViolation, match="no gap"):
            await asyncio.wait_for(voter.wait_for_failure(), 20)


@on_loop
async def test_inbox_makes_a_burst_of_calls_in_order_and_lets_others_in_between() -> None:
    inbox = LoopInbox(asyncio.get_running_loop(), fail)
    made: list[int] = []
    total = 3 * DRAIN_LIMIT

    def burst() -> None:
        for number in range(total):
            inbox.post(lambda number=number: made.append(number))  # type: ignore[misc]

    burst()
    await asyncio.sleep(0)
    assert len(made) == DRAIN_LIMIT
    await until(lambda: len(made) == total)
    assert made == list(range(total))


@on_loop
async def test_closed_inbox_makes_no_calls() -> None:
    inbox = LoopInbox(asyncio.get_running_loop(), fail)
    made: list[int] = []
    inbox.post(lambda: made.append(1))
    inbox.close()
    inbox.post(lambda: made.append(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not made
