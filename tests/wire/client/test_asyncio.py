"""What only the asyncio client does: many calls at once on one connection, and their cancelling."""

import asyncio
import random
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.client import (
    Address,
    AsyncClient,
    ClientClosedError,
    ConnectError,
    ConnectionLostError,
    OutcomeUnknownError,
    RequestTimedOutError,
    Retry,
    Settings,
    maybe_applied,
)
from kafka_wire.client.asyncio_driver import AsyncioDriver, _Connection
from kafka_wire.client.connection import api_versions_request
from kafka_wire.client.producer import State
from kafka_wire.messages import ListGroupsRequest, ListGroupsResponse
from kafka_wire.messages.list_groups import ListedGroup
from kafka_wire.schema import LATEST
from tests.support.fake_broker import Answer, FakeBroker, Received
from tests.wire.client.both import no_leaks
from tests.wire.client.brokers import TOPIC, deaf_peer
from tests.wire.client.script import EVENTS_0, records

TIMEOUT_S = 10.0
MANY = 300


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs a test, at whose end no task may be left."""

    async def watched() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await main
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    asyncio.run(watched())


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    with no_leaks():
        yield


def test_many_calls_share_one_connection_and_get_their_own_answers() -> None:
    async def main() -> None:
        async with _client(broker) as client:
            states = [f"{number}" for number in range(MANY)]
            answers = await asyncio.gather(*(_list(client, state) for state in states))
            assert [answer.groups[0].group_id for answer in answers] == states
        assert {request.connection for request in broker.requests} == {0}

    with _echo_broker() as broker:
        run(main())


def test_a_cancelled_call_does_not_disturb_the_others() -> None:
    async def main() -> None:
        async with _client(broker) as client:
            rng = random.Random(1)
            states = [f"{number}" for number in range(50)]
            gate.held = True
            calls = {state: asyncio.create_task(_list(client, state)) for state in states}
            await gate.waiting(1)
            cancelled = set(rng.sample(states, 20))
            for state in cancelled:
                calls[state].cancel()
            gate.open()
            for state, call in calls.items():
                if state in cancelled:
                    with pytest.raises(asyncio.CancelledError):
                        await call
                else:
                    assert (await call).groups[0].group_id == state
            assert (await _list(client, "after")).groups[0].group_id == "after"
        assert {request.connection for request in broker.requests} == {0}

    gate = _Gate()
    with _echo_broker(gate) as broker:
        run(main())


def test_a_cancelled_append_leaves_a_doubt_and_a_usable_connection() -> None:
    async def main() -> None:
        async with _client(broker) as client:
            producer = client.producer()
            await producer.initialize()
            await producer.append(EVENTS_0, records(b"a"))
            gate.held = True
            append = asyncio.create_task(producer.append(EVENTS_0, records(b"b")))
            await gate.waiting(2)
            append.cancel()
            with pytest.raises(asyncio.CancelledError):
                await append
            assert producer.core.state is State.DOUBTFUL
            gate.open()
            await producer.initialize()
            await producer.append(EVENTS_0, records(b"c"))
        assert len(broker.topics.batches[TOPIC, 0]) == 3
        assert {request.connection for request in broker.requests} == {0}

    gate = _Gate()
    with FakeBroker(topics={TOPIC: 1}) as broker:
        broker.handle(ApiKey.PRODUCE, gate.before(broker.topics.handle_produce))
        run(main())


def test_a_timeout_costs_the_connection_and_what_else_was_on_it() -> None:
    async def main() -> None:
        async with _client(broker, request_timeout_ms=100) as short, _client(broker) as long:
            await short.refresh_metadata(())
            first = asyncio.create_task(_list(short, "first"))
            second = asyncio.create_task(short.refresh_metadata(()))
            for outcome in await asyncio.gather(first, second, return_exceptions=True):
                assert isinstance(outcome, RequestTimedOutError | ConnectionLostError)
                assert maybe_applied(outcome)
            await long.refresh_metadata(())
            await short.refresh_metadata(())

    with FakeBroker(handlers={ApiKey.LIST_GROUPS: _hang}) as broker:
        run(main())


def test_closing_fails_the_calls_under_way_with_an_unknown_outcome() -> None:
    async def main() -> None:
        client = _client(broker)
        producer = client.producer(retry=Retry(timeout_ms=60_000))
        await producer.initialize()
        append = asyncio.create_task(producer.append(EVENTS_0, records()))
        await asyncio.to_thread(broker.wait_for, ApiKey.PRODUCE)
        plain = asyncio.create_task(_list(client, "x"))
        (connection,) = client._driver._connections.values()
        while len(connection._answers) < 2:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ConnectionLostError, match="client was closed"):
            await plain
        with pytest.raises(OutcomeUnknownError):
            await append
        assert isinstance(append.exception().__cause__, ClientClosedError)  # type: ignore[union-attr]

    with FakeBroker(topics={TOPIC: 1}) as broker:
        broker.handle(ApiKey.PRODUCE, _hang)
        run(main())


def test_closing_ends_an_attempt_to_connect() -> None:
    async def main() -> None:
        client = AsyncClient(address)
        calls = [asyncio.create_task(client.refresh_metadata(())) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await client.close()
        for call in calls:
            with pytest.raises(ClientClosedError):
                await call

    with deaf_peer() as address:
        run(main())


def test_a_cancelled_call_is_cancelled_though_the_client_closes_at_the_same_time() -> None:
    async def main() -> None:
        client = AsyncClient(address)
        call = asyncio.create_task(client.refresh_metadata(()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        call.cancel()
        await closing
        with pytest.raises(asyncio.CancelledError):
            await call

    with deaf_peer() as address:
        run(main())


def test_no_attempt_to_connect_begins_after_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        client = AsyncClient(["127.0.0.1:1", "127.0.0.1:2"])
        attempts = []
        closings = []

        async def fail(_: AsyncioDriver, address: object) -> None:
            attempts.append(address)
            closings.append(asyncio.create_task(client.close()))
            raise ConnectError("refused")

        monkeypatch.setattr(AsyncioDriver, "_connect", fail)
        with pytest.raises(ClientClosedError):
            await client.refresh_metadata(())
        await asyncio.gather(*closings)
        assert len(attempts) == 1

    run(main())


def test_a_caller_that_gives_up_leaves_the_attempt_to_the_others() -> None:
    async def main() -> None:
        async with _client(broker) as client:
            calls = [asyncio.create_task(client.refresh_metadata(())) for _ in range(3)]
            await asyncio.sleep(0)
            calls[0].cancel()
            await asyncio.gather(*calls[1:])
        assert {request.connection for request in broker.requests} == {0}

    with FakeBroker() as broker:
        run(main())


def test_what_the_broker_does_not_take_is_not_piled_up() -> None:
    """Past the transport's limit calls wait before they are written."""

    async def main() -> None:
        async with _client(broker) as client:
            await client.refresh_metadata([TOPIC])
            gate.held = True
            appends = [asyncio.create_task(client.produce(EVENTS_0, batch)) for _ in range(60)]
            await gate.waiting(1)
            (connection,) = client._driver._connections.values()
            assert 1 <= len(connection._answers) < len(appends)
            appends[-1].cancel()
            gate.open()
            offsets = [(await append).base_offset for append in appends[:-1]]
            assert sorted(offset for offset in offsets if offset is not None) == list(range(59))

    batch = records(random.Random(2).randbytes(1_000_000)).build()
    gate = _Gate()
    with FakeBroker(topics={TOPIC: 1}) as broker:
        broker.handle(ApiKey.PRODUCE, gate.before(broker.topics.handle_produce))
        run(main())


def test_one_call_at_a_time_is_written_to_a_transport_that_is_full_with_one() -> None:
    """All wait for the same event, but only the first to wake up finds room."""

    class Full(asyncio.Transport):
        def __init__(self, connection: _Connection) -> None:
            super().__init__({"socket": unconnected})
            self.connection = connection
            self.writes = 0

        def writelines(self, list_of_data: object) -> None:
            self.writes += 1
            self.connection.pause_writing()

        def abort(self) -> None:
            pass

    async def main() -> None:
        connection = _Connection(Address("nowhere", 1), Settings())
        transport = Full(connection)
        connection.connection_made(transport)
        connection.pause_writing()
        calls = [asyncio.create_task(_api_versions(connection)) for _ in range(5)]
        for written in range(1, 4):
            connection.resume_writing()
            for _ in range(3):
                await asyncio.sleep(0)
            assert transport.writes == written
        connection.close(ConnectionLostError("over"))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        kinds = Counter(type(outcome) for outcome in outcomes)
        assert kinds == {ConnectionLostError: 3, ConnectError: 2}

    with socket.socket() as unconnected:
        run(main())


async def _api_versions(connection: _Connection) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    request = api_versions_request()
    await connection.call(request, first_version=0, last_version=LATEST, deadline=deadline)


class _Gate:
    """Holds requests back in the broker until it is opened."""

    def __init__(self) -> None:
        self.held = False
        self.arrived = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: asyncio.Event | None = None

    def before(
        self, handler: Callable[[Received], Answer | Awaitable[Answer]]
    ) -> Callable[[Received], Awaitable[Answer]]:
        async def wait(request: Received) -> Answer:
            self._loop = asyncio.get_running_loop()
            self._opened = self._opened or asyncio.Event()
            self.arrived += 1
            if self.held:
                await self._opened.wait()
            answer = handler(request)
            return await answer if isinstance(answer, Awaitable) else answer

        return wait

    async def waiting(self, count: int) -> None:
        while self.arrived < count:  # noqa: ASYNC110 - the event would be another loop's
            await asyncio.sleep(0.001)

    def open(self) -> None:
        self.held = False
        assert self._loop is not None
        assert self._opened is not None
        self._loop.call_soon_threadsafe(self._opened.set)


async def _hang(_: Received) -> Answer:
    await asyncio.Event().wait()
    return None


def _echo_broker(gate: _Gate | None = None) -> FakeBroker:
    """Answers ListGroups with a group that is named like the state that was asked for."""

    def echo(request: Received) -> Answer:
        (state,) = request.expect(ListGroupsRequest).states_filter
        return ListGroupsResponse(groups=[ListedGroup(group_id=state, protocol_type="")])

    return FakeBroker(handlers={ApiKey.LIST_GROUPS: gate.before(echo) if gate else echo})


def _client(broker: FakeBroker, *, request_timeout_ms: int = 10_000) -> AsyncClient:
    return AsyncClient(broker.address, settings=Settings(request_timeout_ms=request_timeout_ms))


async def _list(client: AsyncClient, state: str) -> ListGroupsResponse:
    return await client.request(ListGroupsRequest(states_filter=[state]), ListGroupsResponse)
