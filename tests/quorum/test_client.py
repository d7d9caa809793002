"""The client against real listeners: fail-over, retries, deadlines, the metadata stream."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kafka_wire.error_codes import ErrorCode
from quorum.api import quorum_pb2 as pb
from quorum.client import MetadataBatch, MetadataEvent, MetadataSnapshot
from quorum.errors import DeadlineError, OutcomeUnknownError, QuorumError
from quorum.metadata.image import EMPTY_IMAGE, MetadataImage, apply_batch
from quorum.metadata.snapshot import decode_snapshot
from quorum.metadata.types import MetadataOffset
from quorum.raft.port import Outcome
from tests.quorum.service.voters import Cluster, join, new_topic, on_loop, request_id, until


@on_loop
async def test_client_finds_the_leader_from_any_voter() -> None:
    async with Cluster(3) as cluster:
        for voter_id in (1, 2, 3):
            async with cluster.client(voter_id) as client:
                await join(client, voter_id)
                # One redirect at most, and then it knows.
                assert client.attempts == (2 if voter_id == 1 else 3)


@on_loop
async def test_client_follows_the_leader_through_fail_over() -> None:
    async with Cluster(3) as cluster, cluster.client() as client:
        await join(client, 1)
        for number, leader in enumerate((2, 3, 1, 3)):
            await cluster.elect(leader)
            answer = await client.create_topics(new_topic(f"t{number}"))
            assert not answer.topics[0].HasField("error")
        names = sorted(cluster.voters[3].machine.image.topic_ids)
        assert names == ["t0", "t1", "t2", "t3"]


@on_loop
async def test_client_waits_for_a_leader() -> None:
    async with Cluster(3, leader=None) as cluster, cluster.client() as client:
        call = asyncio.create_task(join(client, 1))
        await until(lambda: client.attempts >= 3)
        await cluster.elect(2)
        assert 1 in await call


@on_loop
async def test_change_that_the_old_leader_left_behind_is_made_once() -> None:
    async with Cluster(3) as cluster, cluster.client() as client:
        await join(client, 1)
        cluster.raft.is_automatic = False
        call = asyncio.create_task(client.create_topics(new_topic("t")))
        await until(lambda: len(cluster.raft.voters[1].pending) == 1)
        cluster.raft.is_automatic = True
        await cluster.elect(2, fate=Outcome.COMMITTED)
        answer = await call
        # The retry was answered with the answer of the first attempt, not TOPIC_ALREADY_EXISTS.
        assert not answer.topics[0].HasField("error")
        image = cluster.voters[2].machine.image
        assert image.topic_ids["t"] == answer.topics[0].topic_id


@on_loop
async def test_change_that_was_lost_with_the_old_leader_is_made_by_the_new_one() -> None:
    async with Cluster(3) as cluster, cluster.client() as client:
        await join(client, 1)
        cluster.raft.is_automatic = False
        call = asyncio.create_task(client.create_topics(new_topic("t")))
        await until(lambda: len(cluster.raft.voters[1].pending) == 1)
        cluster.raft.is_automatic = True
        await cluster.elect(2, fate=Outcome.DISCARDED)
        answer = await call
        assert not answer.topics[0].HasField("error")
        assert cluster.voters[2].machine.image.topic_ids["t"] == answer.topics[0].topic_id


@on_loop
async def test_same_request_id_is_answered_twice_and_done_once() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        request = new_topic("t")
        request.request_id = request_id()
        first = await client.create_topics(request)
        offset = cluster.voters[1].machine.image.offset
        assert await client.create_topics(request) == first
        assert cluster.voters[1].machine.image.offset == offset


@on_loop
async def test_unknown_outcome_is_an_error_of_its_own() -> None:
    async with Cluster(1) as cluster, cluster.client(attempt_timeout_s=0.2) as client:
        await join(client, 1)
        cluster.raft.is_automatic = False
        with pytest.raises(OutcomeUnknownError):
            await client.create_topics(new_topic("t"), timeout_s=0.5)
        await cluster.do(cluster.raft.commit)
        assert "t" in cluster.voters[1].machine.image.topic_ids


@on_loop
async def test_call_ends_with_its_deadline_when_nobody_listens() -> None:
    async with Cluster(1) as cluster:
        client = cluster.client()
    # The voter is gone, and its port with it.
    async with client:
        with pytest.raises(DeadlineError):
            await client.create_topics(new_topic("t"), timeout_s=0.3)


@on_loop
async def test_call_without_a_leader_ends_with_its_deadline_and_did_not_happen() -> None:
    async with Cluster(3, leader=None) as cluster, cluster.client() as client:
        with pytest.raises(DeadlineError) as refused:
            await client.create_topics(new_topic("t"), timeout_s=0.3)
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


@on_loop
async def test_refusal_of_the_leader_is_not_retried() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        with pytest.raises(QuorumError) as refused:
            await client.heartbeat(
                pb.HeartbeatRequest(broker_id=9, broker_epoch=1, metadata_offset=0)
            )
        assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
        assert client.attempts == 1


@on_loop
async def test_quorum_without_a_leader_is_described_by_any_voter() -> None:
    async with Cluster(3, leader=None) as cluster, cluster.client() as client:
        found = await client.describe_quorum()
        assert not found.HasField("leader_id")
        assert found.voter_id in (1, 2, 3)


# ---------------------------------------------------------------------------- the stream


class Follower:
    """Applies a stream as a broker does; fails at the first gap or repetition."""

    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image
        self.snapshots = 0

    def take(self, event: MetadataEvent) -> None:
        match event:
            case MetadataSnapshot():
                self.image = decode_snapshot(event.data)
                self.snapshots += 1
            case MetadataBatch():
                assert event.offset == self.image.offset + 1
                self.image = apply_batch(
                    self.image,
                    event.records,
                    offset=MetadataOffset(event.offset),
                    epoch=event.epoch,
                ).image

    async def follow(self, events: AsyncIterator[MetadataEvent]) -> None:
        async for event in events:
            self.take(event)


@on_loop
async def test_stream_goes_on_exactly_through_voters_that_stop() -> None:
    async with Cluster(3) as cluster, cluster.client() as client:
        await join(client, 1)
        follower = Follower()
        following = asyncio.create_task(follower.follow(client.metadata_stream(0, broker_id=7)))
        for number in range(3):
            for topic in range(20):
                await client.create_topics(new_topic(f"t{number}-{topic}"))
            end = cluster.voters[1].machine.image.offset
            await until(lambda end=end: follower.image.offset >= end)  # type: ignore[misc]
            # Whoever serves it ends the stream; another voter goes on.
            serving = next(voter for voter in cluster.voters.values() if voter.feed.observers())
            serving.feed.set_stale(True)
            await until(lambda: any(v.feed.observers() for v in cluster.voters.values()))
        end = cluster.voters[1].machine.image.offset
        await until(lambda: follower.image.offset >= end)
        assert follower.image == cluster.voters[1].machine.image
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@on_loop
async def test_follower_feeds_what_is_committed_and_nothing_else() -> None:
    async with Cluster(2) as cluster, cluster.client() as client, cluster.client(2) as other:
        await join(client, 1)
        follower = Follower()
        following = asyncio.create_task(follower.follow(other.metadata_stream(0)))
        await until(lambda: 1 in follower.image.brokers)
        cluster.raft.is_automatic = False
        call = asyncio.create_task(client.create_topics(new_topic("t")))
        await until(lambda: len(cluster.raft.voters[1].pending) == 1)
        before = follower.image
        await other.describe_quorum()
        assert follower.image is before
        await cluster.do(cluster.raft.commit)
        await call
        await until(lambda: "t" in follower.image.topic_ids)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@on_loop
async def test_voter_that_restored_a_snapshot_feeds_it_in_chunks_and_goes_on() -> None:
    async with Cluster(2) as cluster, cluster.client() as client, cluster.client(2) as other:
        cluster.raft.voters[2].is_lagging = True
        await join(client, 1)
        for number in range(50):
            await client.create_topics(new_topic(f"t{number}", partitions=20))
        cluster.raft.voters[1].snapshot()
        cluster.raft.voters[2].is_lagging = False
        cluster.voters[2].feed._chunk_bytes = 4000
        await cluster.do(cluster.raft.catch_up)
        follower = Follower()
        following = asyncio.create_task(follower.follow(other.metadata_stream(3)))
        await until(lambda: follower.snapshots == 1)
        await client.create_topics(new_topic("live"))
        await until(lambda: "live" in follower.image.topic_ids)
        assert follower.image == cluster.voters[1].machine.image
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@on_loop
async def test_reader_that_stands_still_costs_the_voter_no_memory() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        feed = cluster.voters[1].feed
        feed._max_batches = 20
        events = client.metadata_stream(0)
        follower = Follower()
        follower.take(await anext(events))
        ops = pb.IncrementalAlterConfigsRequest
        await client.create_topics(new_topic("t"))
        resource = pb.ConfigResource(type=pb.CONFIG_RESOURCE_TYPE_TOPIC, name="t")
        for number in range(200):
            value = str(number + 1)
            await client.incremental_alter_configs(
                ops(
                    resources=[
                        ops.Resource(
                            resource=resource,
                            ops=[ops.Op(type=ops.OP_TYPE_SET, name="retention.ms", value=value)],
                        )
                    ]
                )
            )
            assert feed.end_offset - feed.start_offset <= 20
        end = cluster.voters[1].machine.image.offset
        async for event in events:
            follower.take(event)
            if follower.image.offset >= end:
                break
        assert follower.image == cluster.voters[1].machine.image
