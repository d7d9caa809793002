"""Three voters, `python -m quorum` each, killed and paused while topics are created.

A failing run prints its seed; CHAOS_SEED=<seed> plays the same faults again.
"""

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from immutables import Map

from kafka_wire.types import LeaderEpoch
from quorum.client import QuorumClient
from quorum.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerId, PartitionEpoch, TopicId
from tests.quorum.fleet import Deed, Fleet
from tests.quorum.leadership_events import LeadershipEvent, count_kills, newest_leader
from tests.quorum.nemesis import Nemesis
from tests.quorum.raft.nodes import free_addresses, wait_for
from tests.quorum.service_load import FollowedMetadata, ServiceLoad, Told, judge_topics
from tests.support.repository import ROOT

VOTERS = (1, 2, 3)
ADMINISTRATORS = 4
CHAOS_S = 20.0
CLUSTER_ID = "chaos-cluster"
LAST_TOPIC = "last"
FORMAT_TIMEOUT_S = 30.0
MIN_KILLS = 5
MIN_LEADER_KILLS = 3
MIN_PAUSES = 3
MIN_ACKNOWLEDGED = 100

_ACTIVE = re.compile(r"\[controller epoch=(\d+)\] active")
_NOT_ACTIVE = re.compile(r"\[controller\] not active any more, the epoch is (\d+)")


class Service:
    """Where the voters of one test are, and what they have logged."""

    def __init__(self, directory: Path) -> None:
        addresses = [str(address) for address in free_addresses(3 * len(VOTERS))]
        raft, grpc, http = (dict(zip(VOTERS, addresses[i::3], strict=True)) for i in range(3))
        self.addresses = grpc
        commands = {}
        for voter_id in VOTERS:
            path = directory / f"quorum-{voter_id}.properties"
            properties = {
                "node.id": voter_id,
                "cluster.id": CLUSTER_ID,
                "controller.quorum.voters": ",".join(f"{i}@{raft[i]}" for i in VOTERS),
                "controller.quorum.endpoints": ",".join(f"{i}@{grpc[i]}" for i in VOTERS),
                "listeners": f"CONTROLLER://{grpc[voter_id]},HTTP://{http[voter_id]}",
                "metadata.log.dir": directory / str(voter_id),
                # So that voters come back from snapshots, and get the others', in so short a time.
                "metadata.log.max.entries.between.snapshots": 200,
                "logging.format": "json",
            }
            path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            run_floodmark("storage", "format", "--config", str(path))
            commands[voter_id] = [sys.executable, "-m", "quorum", str(path)]
        self.fleet = Fleet(commands, directory)
        # Logs tell the wall clock's time, and the fleet the monotonic clock's.
        self._wall_minus_monotonic_ns = time.time_ns() - time.monotonic_ns()

    def logged(self, voter_id: int) -> list[dict[str, str]]:
        """The whole lines of a voter's log."""
        lines = self.fleet.errors(voter_id).read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("}\n")]

    def events(self) -> list[LeadershipEvent]:
        found = []
        for voter_id in VOTERS:
            for line in self.logged(voter_id):
                active = _ACTIVE.match(line["message"])
                match = active or _NOT_ACTIVE.match(line["message"])
                if match is not None:
                    t_ns = self._monotonic_ns(line["time"])
                    found.append(
                        LeadershipEvent(
                            t_ns=t_ns,
                            pid=self._pid(voter_id, t_ns),
                            voter_id=voter_id,
                            term=int(match[1]),
                            is_active=active is not None,
                        )
                    )
        return sorted(found, key=lambda event: event.t_ns)

    def leader(self) -> int | None:
        return newest_leader(self.events(), self.fleet)

    def complaints(self) -> list[str]:
        """Lines of the voters' logs that are no JSON, and errors."""
        found = []
        for voter_id in VOTERS:
            for line in self.fleet.errors(voter_id).read_text().splitlines():
                try:
                    is_error = json.loads(line)["level"] == "ERROR"
                except ValueError:
                    is_error = True
                if is_error:
                    found.append(f"voter {voter_id}: {line}")
        return found

    def _monotonic_ns(self, logged: str) -> int:
        wall_ms = round(datetime.fromisoformat(logged).timestamp() * 1000)
        return wall_ms * 1_000_000 - self._wall_minus_monotonic_ns

    def _pid(self, voter_id: int, t_ns: int) -> int:
        """Of the life in which the voter wrote this."""
        starts = [
            fault.pid
            for fault in self.fleet.faults
            if (fault.voter_id, fault.deed) == (voter_id, Deed.START) and fault.t_ns < t_ns
        ]
        return starts[-1]


def run_floodmark(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "floodmark", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=FORMAT_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def under_load(load: ServiceLoad) -> Iterator[Callable[[], int]]:
    """Topics are created until the end of the context, which raises what went wrong there. Yields
    how to ask for the number of topics that were acknowledged."""
    stop = threading.Event()

    def acknowledged() -> int:
        if running.done():
            running.result()
        return load.acknowledged

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: asyncio.run(load.run(stop, LAST_TOPIC)))
        try:
            wait_for(lambda: load.is_ready.is_set() or running.done(), "the broker")
            yield acknowledged
        finally:
            stop.set()
    running.result()


async def metadata_of_each(addresses: dict[int, str]) -> dict[int, MetadataImage]:
    """What each voter by itself tells who asks for the metadata from its beginning."""
    images = {}
    for voter_id, address in addresses.items():
        async with QuorumClient([address]) as client:
            images[voter_id] = await FollowedMetadata(client).until_topic(LAST_TOPIC)
    return images


@pytest.mark.live
def test_every_acknowledged_topic_is_on_every_voter_exactly_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"CHAOS_SEED={seed}")
    service = Service(tmp_path)
    load = ServiceLoad(
        list(service.addresses.values()),
        cluster_id=CLUSTER_ID,
        seed=seed,
        administrators=ADMINISTRATORS,
    )
    with service.fleet as fleet:
        fleet.start()
        wait_for(lambda: service.leader() is not None, "a leader")
        with under_load(load) as acknowledged:
            nemesis = Nemesis(fleet, seed=seed, leader=service.leader, acknowledged=acknowledged)
            nemesis.run(CHAOS_S)
        images = asyncio.run(metadata_of_each(service.addresses))
        exit_codes = fleet.stop_cleanly()

    told = load.told
    kills = count_kills(fleet.faults, service.events())
    pauses = sum(fault.deed is Deed.PAUSE for fault in fleet.faults)
    print(
        f"{len(nemesis.rounds)} rounds, {kills}, {pauses} pauses, {len(told.created)} created,"
        f" {Counter(told.refused.values())}, {len(told.unknown)} unknown, {told.repeated} repeated,"
        f" {told.denied} denied, {load.heartbeats} heartbeats"
    )
    for voter_id in VOTERS:
        assert (voter_id, judge_topics(told, images[voter_id])) == (voter_id, [])
    assert len({frozenset(image.topic_ids.items()) for image in images.values()}) == 1
    assert told.contradictions == []
    assert fleet.deaths == []
    assert exit_codes == dict.fromkeys(VOTERS, 0)
    assert service.complaints() == []
    assert kills.total >= MIN_KILLS
    assert kills.of_leaders >= MIN_LEADER_KILLS
    assert pauses >= MIN_PAUSES
    assert len(told.created) >= MIN_ACKNOWLEDGED
    assert told.repeated
    assert told.denied
    assert told.refused
    # The same metadata without one acknowledged topic must not pass.
    name = next(iter(told.created))
    (problem,) = judge_topics(told, without(images[1], name))
    assert problem.startswith("1 topics acknowledged and lost")


def without(image: MetadataImage, name: str) -> MetadataImage:
    topic_id = image.topic_ids[name]
    return replace(
        image, topics=image.topics.delete(topic_id), topic_ids=image.topic_ids.delete(name)
    )


# --------------------------------------------------------------- the judge can find fault


def image_of(*topics: tuple[str, bytes], partitions: int = 2) -> MetadataImage:
    """Metadata with these topics and nothing else."""
    images = {
        TopicId(topic_id): TopicImage(
            topic_id=TopicId(topic_id),
            name=name,
            partitions=Map({number: partition(topic_id, number) for number in range(partitions)}),
        )
        for name, topic_id in topics
    }
    ids = {topic.name: topic_id for topic_id, topic in images.items()}
    return replace(EMPTY_IMAGE, topics=Map(images), topic_ids=Map(ids))


def partition(topic_id: bytes, number: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=TopicId(topic_id),
        partition=number,
        replicas=(BrokerId(1),),
        isr=(BrokerId(1),),
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        effective_min_isr=1,
    )


TOLD = Told(created={"a": b"A"}, refused={"b": "INVALID_REPLICATION_FACTOR"}, unknown={"c"})


def test_judge_accepts_metadata_that_agrees_with_what_was_told() -> None:
    assert judge_topics(TOLD, image_of(("a", b"A"))) == []
    assert judge_topics(TOLD, image_of(("a", b"A"), ("c", b"C"))) == []


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (image_of(), "1 topics acknowledged and lost"),
        (image_of(("a", b"X")), "1 topics there under another id"),
        (image_of(("a", b"A"), ("b", b"B")), "1 topics refused and there"),
        (image_of(("a", b"X"), ("a", b"A")), "1 topics there twice"),
        (image_of(("a", b"A"), ("d", b"D")), "1 topics there and never asked for"),
        (image_of(("a", b"A"), partitions=1), "1 topics there without its partitions"),
    ],
)
def test_metadata_that_contradicts_what_was_told_is_found(image: MetadataImage, words: str) -> None:
    (problem,) = judge_topics(TOLD, image)
    assert problem.startswith(words)
