"""When an answer leaves the controller, and what it says if things went wrong."""

import asyncio
import functools
import gc
from collections.abc import Coroutine
from typing import Any

import pytest

from floodmark.invariant import InvariantViolation
from kafka_wire.error_codes import ErrorCode
from quorum.active_controller import DRAIN_LIMIT_MS, ActiveController
from quorum.errors import (
    DeadlineError,
    NotControllerError,
    OutcomeUnknownError,
    OverloadedError,
    QuorumError,
)
from quorum.loop_inbox import LoopInbox
from quorum.metadata.commands import (
    Answer,
    Command,
    ConfigChange,
    ConfigsAltered,
    Endpoint,
    Heartbeat,
    IncrementalAlterConfigs,
    RegisterBroker,
    ResourceChange,
)
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.types import (
    CLUSTER_DEFAULT,
    BrokerEpoch,
    ConfigOperation,
    DirectoryId,
    MetadataOffset,
)
from quorum.raft.port import Outcome
from quorum.state_machine import MetadataStateMachine
from tests.quorum.service.voters import on_loop, until
from tests.support.fake_raft import FakeQuorum

TIMEOUT_S = 20.0


class Node:
    """A controller on a raft quorum that commits only when it is told to."""

    def __init__(self, raft: FakeQuorum, voter_id: int, **options: Any) -> None:
        self.problems: list[Exception] = []
        self.now_ms = 1_000_000
        self.inbox = LoopInbox(asyncio.get_running_loop(), self.problems.append)
        self.machine = MetadataStateMachine(self.inbox)
        self.engine = raft.voters[voter_id]
        self.engine.machine = self.machine
        self.controller = ActiveController(
            settings=ControllerSettings(cluster_id="c"),
            engine=self.engine,
            inbox=self.inbox,
            now_ms=lambda: self.now_ms,
            address_of=lambda leader_id: f"voter-{leader_id}:9093",
            **options,
        )
        self.machine.follow(self.controller)

    def submit(self, command: Command, timeout_s: float = TIMEOUT_S) -> "asyncio.Task[Answer]":
        call: Coroutine[Any, Any, Answer] = self.controller.submit(command, timeout_s=timeout_s)
        return asyncio.create_task(call)

    async def proposed(self, count: int) -> None:
        await until(lambda: len(self.engine.pending) == count)


class World:
    def __init__(self, voters: int = 2, **options: Any) -> None:
        ids = range(1, voters + 1)
        self.raft = FakeQuorum(*ids, is_automatic=False)
        self.nodes = {voter_id: Node(self.raft, voter_id, **options) for voter_id in ids}

    async def __aenter__(self) -> "World":
        await self.elect(1)
        return self

    async def __aexit__(self, kind: object, *rest: object) -> None:
        for node in self.nodes.values():
            node.controller.close()
        self.raft.close()
        if kind is None:
            assert not [problem for node in self.nodes.values() for problem in node.problems]

    async def elect(self, voter_id: int, fate: Outcome = Outcome.DISCARDED) -> None:
        await asyncio.to_thread(lambda: self.raft.elect(voter_id, fate=fate))
        await until(lambda: self.nodes[voter_id].controller.is_active)

    async def commit(self) -> None:
        await asyncio.to_thread(self.raft.commit)
        await self.settle()

    async def confirm_reads(self) -> None:
        await asyncio.to_thread(self.raft.confirm_reads)
        await self.settle()

    async def settle(self) -> None:
        """Everything that the engines said so far has been heard."""
        for node in self.nodes.values():
            heard = asyncio.Event()
            post = functools.partial(node.inbox.post, heard.set)
            await asyncio.to_thread(self.raft.run, post)
            await heard.wait()
        await asyncio.sleep(0)


def config(value: str, key: str = "num.partitions", request_id: str | None = None) -> Command:
    change = ConfigChange(key=key, operation=ConfigOperation.SET, value=value)
    return IncrementalAlterConfigs(
        resources=(ResourceChange(resource=CLUSTER_DEFAULT, changes=(change,)),),
        request_id=request_id,
    )


def register(broker_id: int) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker_id,
        cluster_id="c",
        incarnation_id=bytes([broker_id] * 16),
        endpoints=(Endpoint(name="PLAINTEXT", host="h", port=9092),),
        directories=(DirectoryId(bytes([broker_id] * 16)),),
    )


def beat(broker_id: int, epoch: int, offset: int) -> Heartbeat:
    return Heartbeat(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(epoch),
        metadata_offset=MetadataOffset(offset),
        want_fence=True,
    )


@on_loop
async def test_answer_leaves_only_after_commit() -> None:
    async with World() as world:
        call = world.nodes[1].submit(config("7"))
        await world.nodes[1].proposed(1)
        await world.settle()
        assert not call.done()
        await world.commit()
        assert isinstance(await call, ConfigsAltered)
        for node in world.nodes.values():
            assert node.machine.image.config(CLUSTER_DEFAULT)["num.partitions"] == "7"


@on_loop
async def test_answer_without_a_record_waits_for_what_it_speaks_of_and_for_confirmation() -> None:
    async with World() as world:
        node = world.nodes[1]
        write = node.submit(config("7"))
        await node.proposed(1)
        same = node.submit(config("7"))  # already so, on the speculative image
        await until(lambda: len(node.engine.waiting_reads) == 1)
        await world.confirm_reads()
        assert not same.done()  # confirmed, but what it speaks of is not committed
        await world.commit()
        await asyncio.gather(write, same)
        again = node.submit(config("7"))
        await until(lambda: len(node.engine.waiting_reads) == 1)
        await world.settle()
        assert not again.done()  # committed, but not confirmed
        await world.confirm_reads()
        await again


@on_loop
async def test_deposed_controller_answers_no_heartbeat() -> None:
    async with World() as world:
        node = world.nodes[1]
        call = node.submit(register(1))
        await node.proposed(1)
        await world.commit()
        epoch = getattr(await call, "broker_epoch")  # noqa: B009 - of one answer among many
        heartbeat = node.submit(beat(1, epoch, epoch))
        await until(lambda: len(node.engine.waiting_reads) == 1)
        await world.elect(2)
        with pytest.raises(NotControllerError) as refused:
            await heartbeat
        assert refused.value.leader_address == "voter-2:9093"


@on_loop
async def test_waiting_heartbeats_share_one_confirmation() -> None:
    async with World() as world:
        node = world.nodes[1]
        call = node.submit(register(1))
        await node.proposed(1)
        await world.commit()
        epoch = getattr(await call, "broker_epoch")  # noqa: B009 - of one answer among many
        first = node.submit(beat(1, epoch, epoch))
        await until(lambda: len(node.engine.waiting_reads) == 1)
        others = [node.submit(beat(1, epoch, epoch)) for _ in range(100)]
        await world.settle()
        assert node.engine.reads == 1
        await world.confirm_reads()
        await first
        assert not any(call.done() for call in others)  # they came after the question
        await until(lambda: len(node.engine.waiting_reads) == 1)
        await world.confirm_reads()
        await asyncio.gather(*others)
        assert node.engine.reads == 2


@on_loop
async def test_lost_leadership_makes_the_outcome_unknown() -> None:
    async with World() as world:
        call = world.nodes[1].submit(config("7"))
        await world.nodes[1].proposed(1)
        await world.elect(2, fate=Outcome.COMMITTED)
        with pytest.raises(OutcomeUnknownError):
            await call
        # And it did happen.
        assert world.nodes[2].machine.image.config(CLUSTER_DEFAULT)["num.partitions"] == "7"


@on_loop
async def test_speculation_is_dropped_with_leadership() -> None:
    async with World() as world:
        call = world.nodes[1].submit(config("7"))
        await world.nodes[1].proposed(1)
        await world.elect(2)
        with pytest.raises(OutcomeUnknownError):
            await call
        await world.elect(1)
        controller = world.nodes[1].controller.controller
        assert controller is not None
        assert not controller.speculative_image.config(CLUSTER_DEFAULT)


@on_loop
async def test_refused_proposal_takes_back_only_what_was_decided_after_it() -> None:
    async with World() as world:
        node = world.nodes[1]
        before = node.submit(config("1", "num.partitions"))
        await node.proposed(1)
        node.engine.refuse_next = 1
        refused = node.submit(config("2", "default.replication.factor"))
        after = node.submit(config("3", "min.insync.replicas"))
        await node.proposed(2)
        await world.settle()
        # Until the outcome of everything is known, nothing new is decided.
        with pytest.raises(OverloadedError):
            await node.submit(config("9"))
        await world.commit()
        assert isinstance(await before, ConfigsAltered)
        with pytest.raises(OverloadedError):
            await refused
        with pytest.raises(QuorumError):
            await after
        assert dict(node.machine.image.config(CLUSTER_DEFAULT)) == {"num.partitions": "1"}
        # And it goes on from there.
        then = node.submit(config("4", "min.insync.replicas"))
        await node.proposed(1)
        await world.commit()
        await then
        for found in world.nodes.values():
            assert dict(found.machine.image.config(CLUSTER_DEFAULT)) == {
                "num.partitions": "1",
                "min.insync.replicas": "4",
            }


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.DISCARDED, Outcome.NOT_LEADER])
def test_leader_goes_on_after_a_proposal_that_failed(outcome: Outcome) -> None:
    @on_loop
    async def run() -> None:
        async with World() as world:
            node = world.nodes[1]
            call = node.submit(config("1"))
            await node.proposed(1)
            await asyncio.to_thread(world.raft.lose, outcome)
            expected = OutcomeUnknownError if outcome is Outcome.UNKNOWN else NotControllerError
            with pytest.raises(expected):
                await call
            then = node.submit(config("2"))
            await node.proposed(1)
            await world.commit()
            await then
            assert node.machine.image.config(CLUSTER_DEFAULT)["num.partitions"] == "2"

    run()


@on_loop
async def test_retried_request_id_is_answered_once_whoever_leads() -> None:
    async with World() as world:
        first = world.nodes[1].submit(config("7", request_id="r"))
        await world.nodes[1].proposed(1)
        await world.elect(2, fate=Outcome.COMMITTED)
        with pytest.raises(OutcomeUnknownError):
            await first
        other = world.nodes[2].submit(config("8", request_id="other"))
        await world.nodes[2].proposed(1)
        await world.commit()
        await other
        offset = world.nodes[2].machine.image.offset
        again = world.nodes[2].submit(config("7", request_id="r"))
        await until(lambda: len(world.nodes[2].engine.waiting_reads) == 1)
        await world.confirm_reads()
        assert isinstance(await again, ConfigsAltered)
        assert world.nodes[2].machine.image.offset == offset
        assert world.nodes[2].machine.image.config(CLUSTER_DEFAULT)["num.partitions"] == "8"


@on_loop
async def test_time_is_over_before_commit_and_the_outcome_is_unknown() -> None:
    async with World() as world:
        with pytest.raises(OutcomeUnknownError):
            await world.nodes[1].submit(config("7"), timeout_s=0.01)
        await world.commit()
        assert world.nodes[1].machine.image.config(CLUSTER_DEFAULT)["num.partitions"] == "7"


@on_loop
async def test_time_is_over_without_a_record_and_nothing_happened() -> None:
    async with World() as world:
        with pytest.raises(DeadlineError):
            await world.nodes[1].submit(beat(9, 1, 1), timeout_s=0.01)


@on_loop
async def test_commands_beyond_the_limit_are_refused_and_forgotten() -> None:
    async with World(max_waiting=10) as world:
        node = world.nodes[1]
        calls = [node.submit(config(str(i + 1))) for i in range(10)]
        await node.proposed(10)
        with pytest.raises(OverloadedError):
            await node.submit(config("99"))
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        # Those who gave up still count until the quorum has spoken: memory has an end.
        with pytest.raises(OverloadedError):
            await node.submit(config("99"))
        await world.commit()
        then = node.submit(config("11"))
        await node.proposed(1)
        await world.commit()
        await then


@on_loop
async def test_follower_names_the_leader() -> None:
    async with World() as world:
        with pytest.raises(NotControllerError) as refused:
            await world.nodes[2].submit(config("1"))
        error = refused.value
        assert (error.leader_id, error.leader_address, error.leader_epoch) == (
            1,
            "voter-1:9093",
            1,
        )
        assert error.code is ErrorCode.NOT_CONTROLLER


@on_loop
async def test_refusal_waits_for_confirmation_too() -> None:
    async with World() as world:
        node = world.nodes[1]
        call = node.submit(beat(9, 1, 1))
        await until(lambda: len(node.engine.waiting_reads) == 1)
        assert not call.done()
        await world.confirm_reads()
        with pytest.raises(QuorumError) as refused:
            await call
        assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@on_loop
async def test_abandoned_call_leaves_no_complaint() -> None:
    async with World() as world:
        call = world.nodes[1].submit(config("7"))
        await world.nodes[1].proposed(1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        del call
        await world.elect(2)
        gc.collect()  # an exception that nobody took would be a warning, which is an error


@on_loop
async def test_controller_goes_on_without_an_outcome_that_never_comes() -> None:
    async with World() as world:
        node = world.nodes[1]
        stuck = node.submit(config("1"))
        await node.proposed(1)
        # The first never ends; the second is refused, so the controller waits for the first.
        lost = node.engine.pending.popleft()
        node.engine.refuse_next = 1
        with pytest.raises(OverloadedError):
            await node.submit(config("2"))
        with pytest.raises(OverloadedError):
            await node.submit(config("3"))
        node.now_ms += DRAIN_LIMIT_MS + 1
        node.controller.periodic()
        with pytest.raises(OutcomeUnknownError):
            await stuck
        then = node.submit(config("4"))
        await node.proposed(1)
        # It turns up after all, in front of what was decided without it.
        node.engine.pending.appendleft(lost)
        await world.commit()
        with pytest.raises(NotControllerError):
            await then
        last = node.submit(config("5"))
        await node.proposed(1)
        await world.commit()
        await last
        assert node.machine.image.config(CLUSTER_DEFAULT)["num.partitions"] == "5"


@on_loop
async def test_impossible_state_stops_the_voter_and_not_only_the_call() -> None:
    async with World() as world:
        node = world.nodes[1]

        def impossible(image: object) -> Command:
            raise InvariantViolation("cannot be")

        with pytest.raises(InvariantViolation):
            await node.controller.submit(impossible, timeout_s=TIMEOUT_S)
        await world.settle()
        assert [str(problem) for problem in node.problems] == ["cannot be"]
        node.problems.clear()


@on_loop
async def test_commit_of_what_an_answer_speaks_of_is_no_confirmation() -> None:
    async with World() as world:
        node = world.nodes[1]
        write = node.submit(config("7"))
        await node.proposed(1)
        same = node.submit(config("7"))
        await until(lambda: len(node.engine.waiting_reads) == 1)
        await world.commit()
        await write
        assert not same.done()
        await world.confirm_reads()
        await same
