"""Voters with real gRPC listeners on a raft quorum in memory."""

import asyncio
import functools
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import grpc.aio

from floodmark.addresses import Address
from quorum.api import quorum_pb2 as pb
from quorum.api.quorum_pb2_grpc import ControllerServiceStub, QuorumServiceStub
from quorum.client import QuorumClient
from quorum.metadata.settings import ControllerSettings
from quorum.voter import Listeners, Voter, VoterOptions, boottime_ms
from tests.support.fake_raft import FakeQuorum

if TYPE_CHECKING:
    from quorum.api.quorum_pb2_grpc import ControllerServiceAsyncStub, QuorumServiceAsyncStub

CLUSTER_ID = "test-cluster"
PATIENCE_S = 20.0
LOOPBACK = "127.0.0.1"

P = ParamSpec("P")
T = TypeVar("T")


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs an asynchronous test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition, with a deadline."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition does not come true")
        await asyncio.sleep(0.002)


class Cluster:
    """Voters 1 to n. The first one leads, unless told otherwise."""

    def __init__(
        self,
        voters: int = 3,
        *,
        leader: int | None = 1,
        is_automatic: bool = True,
        session_timeout_ms: int = 60_000,
        now_ms: Callable[[], int] = boottime_ms,
    ) -> None:
        self.raft = FakeQuorum(*range(1, voters + 1), is_automatic=is_automatic)
        self.voters: dict[int, Voter] = {}
        self.addresses: dict[int, str] = {}
        self._leader = leader
        self._settings = ControllerSettings(
            cluster_id=CLUSTER_ID, session_timeout_ms=session_timeout_ms
        )
        self._now_ms = now_ms
        self._channels: list[grpc.aio.Channel] = []

    async def __aenter__(self) -> Self:
        for voter_id, engine in self.raft.voters.items():
            options = VoterOptions(
                settings=self._settings,
                address_of=self.addresses.get,
                tick_s=0.01,
                now_ms=self._now_ms,
            )
            voter = Voter(options, lambda machine, on_fatal, engine=engine: engine)  # type: ignore[misc]
            engine.machine = voter.machine
            await voter.start(Listeners(controller=Address(LOOPBACK, 0), http=Address(LOOPBACK, 0)))
            self.voters[voter_id] = voter
            self.addresses[voter_id] = str(voter.controller_address)
        if self._leader is not None:
            await self.elect(self._leader)
            if self.raft.is_automatic:
                leader = self.voters[self._leader]
                await until(lambda: bool(leader.machine.image.features))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for channel in self._channels:
            await channel.close()
        for voter in self.voters.values():
            await voter.stop()
        self.raft.close()
        if error is None:
            assert self.raft.problem is None

    async def elect(self, voter_id: int, **how: Any) -> None:
        await asyncio.to_thread(self.raft.elect, voter_id, **how)
        await until(lambda: self.voters[voter_id].controller.is_active)

    async def do(self, what: Callable[..., T], *args: Any) -> T:
        """Something of the raft quorum's that waits for its thread."""
        return await asyncio.to_thread(what, *args)

    def client(self, *voter_ids: int, **options: Any) -> QuorumClient:
        chosen = voter_ids or tuple(self.voters)
        return QuorumClient([self.addresses[voter_id] for voter_id in chosen], **options)

    def channel(self, voter_id: int) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(self.addresses[voter_id])
        self._channels.append(channel)
        return channel

    def controller_stub(self, voter_id: int) -> "ControllerServiceAsyncStub":
        return ControllerServiceStub(self.channel(voter_id))

    def quorum_stub(self, voter_id: int) -> "QuorumServiceAsyncStub":
        return QuorumServiceStub(self.channel(voter_id))


def request_id() -> bytes:
    return uuid.uuid4().bytes


def registration(broker_id: int, **more: Any) -> pb.RegisterBrokerRequest:
    return pb.RegisterBrokerRequest(
        broker_id=broker_id,
        cluster_id=more.pop("cluster_id", CLUSTER_ID),
        incarnation_id=more.pop("incarnation_id", None) or uuid.uuid4().bytes,
        listeners=[pb.Listener(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id)],
        directory_ids=[uuid.uuid4().bytes],
        **more,
    )


async def join(client: QuorumClient, *broker_ids: int) -> dict[int, int]:
    """Registers brokers and unfences them; their epochs."""
    epochs = {}
    for broker_id in broker_ids:
        epoch = (await client.register_broker(registration(broker_id))).broker_epoch
        epochs[broker_id] = epoch
    for broker_id, epoch in epochs.items():
        answer = await client.heartbeat(
            pb.HeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, metadata_offset=epoch)
        )
        assert not answer.is_fenced
    return epochs


async def beat(client: QuorumClient, epochs: dict[int, int], offset: int) -> None:
    """Every broker says that it has read up to `offset`."""
    for broker_id, epoch in epochs.items():
        await client.heartbeat(
            pb.HeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, metadata_offset=offset)
        )


def new_topic(name: str, partitions: int = 1, replicas: int = 1) -> pb.CreateTopicsRequest:
    return pb.CreateTopicsRequest(
        topics=[
            pb.CreateTopicsRequest.Topic(
                name=name, num_partitions=partitions, replication_factor=replicas
            )
        ]
    )


async def failing(call: Awaitable[Any]) -> grpc.aio.AioRpcError:
    """The error of a call that must fail."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError(f"the call was answered: {answer}")
