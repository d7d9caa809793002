"""Brokers that register, send heartbeats and ask for topics, and do nothing else."""

import asyncio
import threading
import time
import uuid
from collections.abc import Coroutine
from typing import Any, TypeVar

from bench.quorum_cluster import CLUSTER_ID
from bench.quorum_commands import LOOPBACK
from quorum.api import quorum_pb2 as pb
from quorum.client import QuorumClient

BROKERS = (1, 2, 3)
HEARTBEAT_S = 0.1
CALL_TIMEOUT_S = 60.0

T = TypeVar("T")


class Brokers:
    """Brokers that do nothing but register and send heartbeats, on a thread with a loop."""

    def __init__(self, addresses: list[str]) -> None:
        self.longest_heartbeat_ms = 0.0
        self._addresses = addresses
        self._epochs: dict[int, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokers", daemon=True)
        self._beating: list[asyncio.Task[None]] = []

    def __enter__(self) -> "Brokers":
        self._thread.start()
        self.run(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """From another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _begin(self) -> None:
        self.client = QuorumClient(
            self._addresses, timeout_s=CALL_TIMEOUT_S, attempt_timeout_s=CALL_TIMEOUT_S
        )
        for broker_id in BROKERS:
            request = pb.RegisterBrokerRequest(
                broker_id=broker_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=uuid.uuid4().bytes,
                listeners=[pb.Listener(name="PLAINTEXT", host=LOOPBACK, port=9000 + broker_id)],
                directory_ids=[uuid.uuid4().bytes],
            )
            registered = await self.client.register_broker(request)
            self._epochs[broker_id] = registered.broker_epoch
            await self._beat(broker_id)
        self._beating = [
            asyncio.create_task(self._beat_for_ever(broker_id)) for broker_id in BROKERS
        ]

    async def _end(self) -> None:
        for task in self._beating:
            task.cancel()
        outcomes = await asyncio.gather(*self._beating, return_exceptions=True)
        await self.client.close()
        failures = [e for e in outcomes if not isinstance(e, asyncio.CancelledError)]
        if failures:
            raise RuntimeError("a broker has stopped its heartbeats") from failures[0]

    async def _beat(self, broker_id: int) -> None:
        epoch = self._epochs[broker_id]
        start = time.perf_counter()
        answer = await self.client.heartbeat(
            pb.HeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, metadata_offset=epoch)
        )
        taken_ms = (time.perf_counter() - start) * 1000
        self.longest_heartbeat_ms = max(self.longest_heartbeat_ms, taken_ms)
        assert not answer.is_fenced, f"broker {broker_id} is fenced"

    async def _beat_for_ever(self, broker_id: int) -> None:
        while True:
            await self._beat(broker_id)
            await asyncio.sleep(HEARTBEAT_S)

    # ---------------------------------------------------------------------- administration

    def create_topics(self, prefix: str, *, count: int, partitions: int, per_request: int) -> float:
        """Seconds for so many topics with three replicas, one request after the other."""

        async def create() -> None:
            for first in range(0, count, per_request):
                numbers = range(first, min(first + per_request, count))
                request = pb.CreateTopicsRequest(
                    topics=[
                        pb.CreateTopicsRequest.Topic(
                            name=f"{prefix}-{number}",
                            num_partitions=partitions,
                            replication_factor=len(BROKERS),
                        )
                        for number in numbers
                    ]
                )
                answer = await self.client.create_topics(request)
                outcomes = [topic.error.name for topic in answer.topics]
                assert outcomes == [""] * len(numbers), set(outcomes)

        start = time.perf_counter()
        self.run(create())
        return time.perf_counter() - start

    def change_something(self) -> None:
        """An entry in the log."""
        broker_id = BROKERS[0]
        request = pb.AllocateProducerIdsRequest(
            broker_id=broker_id, broker_epoch=self._epochs[broker_id]
        )
        self.run(self.client.allocate_producer_ids(request))
