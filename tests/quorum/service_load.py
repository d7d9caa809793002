"""A broker and administrators that work on a quorum of real processes through the client.

The broker registers, follows the metadata and sends heartbeats, so that topics can be placed. The
administrators create topics, and note for each what they were told. They also repeat calls that
were answered and ask for what must be refused.
"""

import asyncio
import random
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from kafka_wire.error_codes import ErrorCode
from quorum.api import quorum_pb2 as pb
from quorum.client import MetadataBatch, QuorumClient
from quorum.errors import DeadlineError, OutcomeUnknownError, QuorumError
from quorum.metadata.image import EMPTY_IMAGE, MetadataImage, apply_batch
from quorum.metadata.snapshot import decode_snapshot
from quorum.metadata.types import MetadataOffset

BROKER_ID = 1
HEARTBEAT_S = 0.3
HEARTBEAT_TIMEOUT_S = 1.5
ATTEMPT_TIMEOUT_S = 0.7
TIMEOUTS_S = (0.3, 2.0, 8.0)
THINK_S = 0.01
PATIENCE_S = 20.0
MAX_TOLD = 5


@dataclass(slots=True)
class Told:
    """What administrators were told of each topic."""

    created: dict[str, bytes] = field(default_factory=dict)
    """Acknowledged, with the topic's id."""
    refused: dict[str, str] = field(default_factory=dict)
    """It did not and will never happen, and why."""
    unknown: set[str] = field(default_factory=set)
    contradictions: list[str] = field(default_factory=list)
    """Answers that cannot be true beside an earlier one."""
    repeated: int = 0
    """Acknowledged calls that were repeated with the same request id."""
    denied: int = 0
    """Creations of a topic that was there, which were refused."""


class FollowedMetadata:
    """The metadata as a broker sees it: an image, moved on by the stream."""

    def __init__(self, client: QuorumClient) -> None:
        self.image = EMPTY_IMAGE
        self._client = client

    async def follow(self) -> None:
        async with aclosing(self._client.metadata_stream()) as events:
            async for event in events:
                if isinstance(event, MetadataBatch):
                    offset = MetadataOffset(event.offset)
                    applied = apply_batch(
                        self.image, event.records, offset=offset, epoch=event.epoch
                    )
                    self.image = applied.image
                else:
                    self.image = decode_snapshot(event.data)

    async def until_topic(self, name: str) -> MetadataImage:
        """The first image with that topic."""
        following = asyncio.create_task(self.follow())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while name not in self.image.topic_ids:
                    if following.done():
                        following.result()
                    await asyncio.sleep(0.01)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        return self.image


class ServiceLoad:
    """Runs on an event loop in a thread of its own; other threads may read the counts."""

    def __init__(
        self, addresses: Sequence[str], *, cluster_id: str, seed: int, administrators: int
    ) -> None:
        self.told = Told()
        self.acknowledged = 0
        self.heartbeats = 0
        self.is_ready = threading.Event()
        """The broker may be given replicas."""
        self._is_unfenced = asyncio.Event()
        self._addresses = addresses
        self._cluster_id = cluster_id
        self._seed = seed
        self._administrators = administrators

    async def run(self, stop: threading.Event, last_topic: str) -> None:
        """Works until it is told to stop; then creates one more topic, which must succeed."""
        async with (
            QuorumClient(self._addresses, attempt_timeout_s=ATTEMPT_TIMEOUT_S) as client,
            asyncio.TaskGroup() as group,  # a broker that fails ends the rest with it
        ):
            broker = group.create_task(self._broker(client))
            async with asyncio.timeout(PATIENCE_S):
                await self._is_unfenced.wait()
            async with asyncio.TaskGroup() as administrators:
                for number in range(self._administrators):
                    administrators.create_task(self._administrator(number, stop))
            await self._create_for_sure(client, last_topic)
            broker.cancel()

    # ------------------------------------------------------------------------------- broker

    async def _broker(self, client: QuorumClient) -> None:
        registered = await client.register_broker(
            pb.RegisterBrokerRequest(
                broker_id=BROKER_ID,
                cluster_id=self._cluster_id,
                incarnation_id=uuid.uuid4().bytes,
                listeners=[pb.Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
                directory_ids=[uuid.uuid4().bytes],
            ),
            timeout_s=PATIENCE_S,
        )
        metadata = FollowedMetadata(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(metadata.follow())
            group.create_task(self._heartbeats(client, registered.broker_epoch, metadata))

    async def _heartbeats(
        self, client: QuorumClient, broker_epoch: int, metadata: FollowedMetadata
    ) -> None:
        while True:
            request = pb.HeartbeatRequest(
                broker_id=BROKER_ID,
                broker_epoch=broker_epoch,
                metadata_offset=metadata.image.offset,
            )
            try:
                answer = await client.heartbeat(request, timeout_s=HEARTBEAT_TIMEOUT_S)
            except (DeadlineError, OutcomeUnknownError):
                continue  # that took its time already
            self.heartbeats += 1
            if not answer.is_fenced:
                self._is_unfenced.set()
                self.is_ready.set()
            await asyncio.sleep(HEARTBEAT_S)

    # ----------------------------------------------------------------------- administrators

    async def _administrator(self, number: int, stop: threading.Event) -> None:
        chance = random.Random(f"{self._seed}/{number}")
        count = 0
        async with QuorumClient(self._addresses, attempt_timeout_s=ATTEMPT_TIMEOUT_S) as client:
            while not stop.is_set():
                count += 1
                name = f"topic-{number}-{count}"
                timeout_s = chance.choice(TIMEOUTS_S)
                # There is one broker: two replicas are certain to be refused.
                request = _new_topic(name, replicas=2 if chance.random() < 0.1 else 1)
                await self._create(client, request, timeout_s)
                if name in self.told.created and chance.random() < 0.2:
                    await self._create_again(client, request, timeout_s)
                await asyncio.sleep(THINK_S)

    async def _create(
        self, client: QuorumClient, request: pb.CreateTopicsRequest, timeout_s: float
    ) -> None:
        name = request.topics[0].name
        try:
            (topic,) = (await client.create_topics(request, timeout_s=timeout_s)).topics
        except QuorumError as error:
            self.told.refused[name] = error.code.name
        except OutcomeUnknownError:
            self.told.unknown.add(name)
        else:
            if topic.HasField("error"):
                self.told.refused[name] = topic.error.name
                if topic.error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    self.told.contradictions.append(f"{name} was there before it was created")
            else:
                self.told.created[name] = topic.topic_id
                self.acknowledged += 1

    async def _create_again(
        self, client: QuorumClient, request: pb.CreateTopicsRequest, timeout_s: float
    ) -> None:
        """The same call is answered as before, and another call for the same name is refused."""
        name = request.topics[0].name
        other = _new_topic(name, replicas=1)
        try:
            (same,) = (await client.create_topics(request, timeout_s=timeout_s)).topics
            if same.HasField("error") or same.topic_id != self.told.created[name]:
                self.told.contradictions.append(f"the repeated call for {name} was told: {same}")
            self.told.repeated += 1
            (denied,) = (await client.create_topics(other, timeout_s=timeout_s)).topics
            if denied.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                self.told.contradictions.append(f"another call for {name} was told: {denied}")
            self.told.denied += 1
        except (DeadlineError, OutcomeUnknownError):
            pass  # nothing was said, so nothing can be wrong

    async def _create_for_sure(self, client: QuorumClient, name: str) -> None:
        """Waits for the broker too, which may have been fenced in the chaos."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            await self._create(client, _new_topic(name, replicas=1), PATIENCE_S)
            if name in self.told.created:
                self.told.refused.pop(name, None)
                return
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"{name} cannot be created: {self.told.refused.get(name)}")
            await asyncio.sleep(HEARTBEAT_S)


def _new_topic(name: str, *, replicas: int) -> pb.CreateTopicsRequest:
    topic = pb.CreateTopicsRequest.Topic(name=name, num_partitions=2, replication_factor=replicas)
    return pb.CreateTopicsRequest(request_id=uuid.uuid4().bytes, topics=[topic])


def judge_topics(told: Told, image: MetadataImage) -> list[str]:
    """A voter's metadata against what the administrators were told."""
    counts = Counter(topic.name for topic in image.topics.values())
    attempted = {*told.created, *told.refused, *told.unknown}
    found = {
        "acknowledged and lost": [name for name in told.created if not counts[name]],
        "there under another id": [
            name
            for name, topic_id in told.created.items()
            if counts[name] and image.topic_ids.get(name) != topic_id
        ],
        "refused and there": [name for name in told.refused if counts[name]],
        "there twice": [name for name, count in counts.items() if count > 1],
        "there and never asked for": [name for name in counts if name not in attempted],
        "there without its partitions": [
            topic.name for topic in image.topics.values() if sorted(topic.partitions) != [0, 1]
        ],
    }
    return [
        f"{len(names)} topics {problem}, such as {sorted(names)[:MAX_TOLD]}"
        for problem, names in found.items()
        if names
    ]
