"""Both clients over real sockets: garbage, silence, deadlines, and connections that break."""

import asyncio
import signal
import socket
import threading
import time
from types import FrameType

import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.client import (
    ClientClosedError,
    ConnectError,
    ConnectionLostError,
    Fetched,
    FetchLimits,
    Produced,
    ProtocolError,
    RequestTimedOutError,
    Retry,
)
from kafka_wire.client.producer import State
from kafka_wire.messages import (
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataResponse,
)
from kafka_wire.messages.metadata import MetadataResponseBroker
from kafka_wire.types import Offset
from tests.support.fake_broker import (
    Answer,
    DropConnection,
    FakeBroker,
    Received,
)
from tests.wire.client.both import Connect
from tests.wire.client.brokers import (
    TOPIC,
    dead_address,
    deaf_peer,
    peer,
    two_brokers,
)
from tests.wire.client.script import EVENTS_0, EVENTS_1, records

BATCH = records(b"value").build()
SHORT_MS = 150
PROMPT_S = 3.0
"""Much longer than `SHORT_MS`, much shorter than the timeouts that must not be waited for."""
RETRY = Retry(timeout_ms=5000, backoff_ms=1)


# ------------------------------------------------------------------------------- broken answers


@pytest.mark.parametrize(
    "garbage",
    [b"\0\0\0\x7f" + bytes(20), b"\0", bytes(100_000)],
    ids=["another correlation id", "half a header", "more than the limit"],
)
def test_garbage_is_a_protocol_error_and_costs_the_connection(
    connect: Connect, garbage: bytes
) -> None:
    with FakeBroker() as broker:
        client = connect(broker.address, max_frame_bytes=50_000)
        client.refresh_metadata(())
        broker.handle(ApiKey.LIST_GROUPS, lambda _: garbage)
        with pytest.raises(ProtocolError):
            client.request(ListGroupsRequest(), ListGroupsResponse)
        client.refresh_metadata(())
        assert broker.requests[-1].connection == 1


def test_garbage_of_one_broker_does_not_disturb_another(connect: Connect) -> None:
    with two_brokers({0: 0, 1: 1}) as cluster:
        client = connect(cluster.servers)
        client.produce_all({EVENTS_0: BATCH, EVENTS_1: BATCH})
        cluster.nodes[0].handle(ApiKey.PRODUCE, lambda _: b"garbage")
        outcomes = client.produce_all({EVENTS_0: BATCH, EVENTS_1: BATCH})
        assert isinstance(outcomes[EVENTS_0], ProtocolError)
        assert _produced(outcomes[EVENTS_1]).base_offset == 1


def test_a_broker_that_hangs_up_instead_of_answering_is_lost(connect: Connect) -> None:
    def hang_up(_: Received) -> Answer:
        raise DropConnection

    with FakeBroker() as broker:
        client = connect(broker.address)
        broker.handle(ApiKey.LIST_GROUPS, hang_up)
        with pytest.raises(ConnectionLostError):
            client.request(ListGroupsRequest(), ListGroupsResponse)
        client.refresh_metadata(())


# ------------------------------------------------------------------------------------ deadlines


def test_a_silent_broker_is_not_waited_for_longer_than_the_timeout(connect: Connect) -> None:
    with FakeBroker() as broker:
        client = connect(broker.address, request_timeout_ms=SHORT_MS)
        client.refresh_metadata(())
        broker.handle(ApiKey.LIST_GROUPS, lambda _: None)
        with _prompt(), pytest.raises(RequestTimedOutError):
            client.request(ListGroupsRequest(), ListGroupsResponse)
        client.refresh_metadata(())
        assert broker.requests[-1].connection == 1, "a late answer must not meet the next request"


def test_a_broker_that_answers_byte_by_byte_does_not_move_the_deadline(connect: Connect) -> None:
    stop = threading.Event()

    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"\0\0\1\0")
        while not stop.wait(SHORT_MS / 1000 / 10):
            connection.sendall(b"\0")

    with peer(trickle) as address:
        client = connect(address, connect_timeout_ms=SHORT_MS)
        with _prompt(), pytest.raises(ConnectError):
            client.refresh_metadata(())
        stop.set()


def test_one_silent_leader_does_not_hide_the_answer_of_another(connect: Connect) -> None:
    with two_brokers({0: 0, 1: 1}) as cluster:
        client = connect(cluster.servers, request_timeout_ms=SHORT_MS)
        client.produce_all({EVENTS_0: BATCH, EVENTS_1: BATCH})
        cluster.nodes[0].handle(ApiKey.PRODUCE, lambda _: None)
        outcomes = client.produce_all({EVENTS_0: BATCH, EVENTS_1: BATCH})
        assert isinstance(outcomes[EVENTS_0], RequestTimedOutError)
        assert _produced(outcomes[EVENTS_1]).base_offset == 1


def test_a_half_open_broker_is_given_up_in_time(connect: Connect) -> None:
    with deaf_peer() as address:
        client = connect(address, connect_timeout_ms=SHORT_MS)
        with _prompt(), pytest.raises(ConnectError):
            client.refresh_metadata(())


def test_a_bootstrap_server_that_hangs_does_not_keep_the_others_from_answering(
    connect: Connect,
) -> None:
    with deaf_peer() as deaf, FakeBroker() as broker:
        client = connect([deaf, broker.address], request_timeout_ms=SHORT_MS)
        with pytest.raises(ConnectError):
            client.refresh_metadata(())
        client.refresh_metadata(())


def test_a_bootstrap_server_that_is_down_is_passed_over(connect: Connect) -> None:
    with FakeBroker() as broker, _prompt():
        connect([dead_address(), broker.address]).refresh_metadata(())


def test_a_cluster_that_is_down_is_named_promptly(connect: Connect) -> None:
    first, second = dead_address(), dead_address()
    with _prompt(), pytest.raises(ConnectError) as caught:
        connect([first, second]).refresh_metadata(())
    assert first in str(caught.value)
    assert second in str(caught.value)


@pytest.mark.parametrize(("host", "port"), [("a" * 70, 9092), ("127.0.0.1", 70_000), ("", -1)])
def test_an_advertised_address_that_cannot_be_one_is_a_connect_error(
    connect: Connect, host: str, port: int
) -> None:
    nonsense = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=7, host=host, port=port)], topics=[]
    )
    with FakeBroker(handlers={ApiKey.METADATA: lambda _: nonsense}) as broker:
        client = connect(broker.address)
        with pytest.raises(ConnectError):
            client.request(ListGroupsRequest(), ListGroupsResponse, node_id=7)


# ---------------------------------------------------------------------- connections come and go


def test_a_connection_that_was_closed_while_idle_is_made_anew(connect: Connect) -> None:
    with FakeBroker() as broker:
        client = connect(broker.address)
        for _ in range(3):
            client.request(ListGroupsRequest(), ListGroupsResponse)
            broker.drop_connections()
        assert len(broker.received(ApiKey.LIST_GROUPS)) == 3


def test_a_broker_that_was_restarted_is_found_again(connect: Connect) -> None:
    first = FakeBroker()
    with first:
        client = connect(first.address)
        client.request(ListGroupsRequest(), ListGroupsResponse)
    with pytest.raises(ConnectError):
        client.request(ListGroupsRequest(), ListGroupsResponse)
    with FakeBroker(port=first.port):
        client.request(ListGroupsRequest(), ListGroupsResponse)


def test_a_closed_client_says_so_at_once_even_to_one_who_would_retry(connect: Connect) -> None:
    with FakeBroker(topics={TOPIC: 1}) as broker:
        client = connect(broker.address)
        producer = client.producer()
        producer.initialize()
        client.close()
        client.close()
        with _prompt(), pytest.raises(ClientClosedError):
            producer.append(EVENTS_0, records())
        with pytest.raises(ClientClosedError):
            client.refresh_metadata()


def test_a_client_that_was_never_used_closes(connect: Connect) -> None:
    connect("localhost:1").close()


def test_a_name_is_resolved_without_leaving_a_thread(connect: Connect) -> None:
    with FakeBroker() as broker:
        connect(f"localhost:{broker.port}").refresh_metadata(())


def test_a_name_that_does_not_exist_is_a_connect_error(connect: Connect) -> None:
    with pytest.raises(ConnectError):
        connect("no-such-host.invalid:9092").refresh_metadata(())


def test_ipv6_addresses_are_spoken_to(connect: Connect) -> None:
    with FakeBroker(host="::1") as broker:
        client = connect(f"[::1]:{broker.port}")
        client.refresh_metadata(())
        client.request(ListGroupsRequest(), ListGroupsResponse, node_id=broker.node_id)


def test_a_long_poll_ends_with_the_first_record(connect: Connect) -> None:
    with FakeBroker(topics={TOPIC: 1}) as broker:
        reader, writer = connect(broker.address), connect(broker.address)
        waiting = threading.Thread(
            target=lambda: broker.wait_for(ApiKey.FETCH) and writer.produce(EVENTS_0, BATCH)
        )
        waiting.start()
        limits = FetchLimits(max_wait_ms=5000)
        with _prompt():
            fetched = reader.fetch({EVENTS_0: Offset(0)}, limits=limits)[EVENTS_0]
        waiting.join()
        assert isinstance(fetched, Fetched)
        assert len(list(fetched.records())) == 1


# ----------------------------------------------------------------------------------- interrupts


def test_an_interrupted_append_leaves_a_doubt_and_a_usable_client(
    connect_blocking: Connect,
) -> None:
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    async def interrupt(_: Received) -> Answer:
        await asyncio.to_thread(cluster.nodes[1].wait_for, ApiKey.PRODUCE, count=expected)
        signal.pthread_kill(main_thread, signal.SIGUSR1)
        return None

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, on_signal)
    try:
        with two_brokers({0: 0, 1: 1}) as cluster:
            client = connect_blocking(cluster.servers)
            producer = client.producer(retry=RETRY)
            producer.initialize()
            producer.append(EVENTS_0, records())
            default = cluster.nodes[0].topics.handle_produce
            cluster.nodes[0].handle(ApiKey.PRODUCE, interrupt)
            expected = 0
            with pytest.raises(KeyboardInterrupt):
                producer.append(EVENTS_0, records())
            assert producer.core.state is State.DOUBTFUL
            expected = 1
            with pytest.raises(KeyboardInterrupt):
                client.produce_all({EVENTS_0: BATCH, EVENTS_1: BATCH})
            cluster.nodes[0].handle(ApiKey.PRODUCE, default)
            producer.initialize()
            producer.append(EVENTS_0, records())
            assert _produced(client.produce_all({EVENTS_1: BATCH})[EVENTS_1]).base_offset == 1
    finally:
        signal.signal(signal.SIGUSR1, before)


class _prompt:  # noqa: N801 - reads as a statement
    """What is within takes no longer than `PROMPT_S`."""

    def __enter__(self) -> None:
        self._start = time.monotonic()

    def __exit__(self, *_: object) -> None:
        taken_s = time.monotonic() - self._start
        assert taken_s < PROMPT_S, f"took {taken_s:.1f} s"


def _produced(outcome: object) -> Produced:
    assert isinstance(outcome, Produced), outcome
    return outcome
