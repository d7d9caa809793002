"""The fake broker keeps what it promises to the tests that stand on it."""

import asyncio
import ssl
import threading

import pytest
import trustme

from kafka_wire.api_keys import ApiKey
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import HeartbeatRequest, HeartbeatResponse, MetadataRequest
from kafka_wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.protocol import decode_response
from kafka_wire.schema import Versions
from tests.support.fake_broker import Answer, DropConnection, FakeBroker, Handler, Received
from tests.support.raw_client import RawClient

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
METADATA = MetadataRequest(topics=None)
ANSWER = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


def drop(_: Received) -> Answer:
    raise DropConnection


def never(_: Received) -> Answer:
    return None


def heartbeats(handler: Handler) -> FakeBroker:
    return FakeBroker(handlers={ApiKey.HEARTBEAT: handler})


def connect(broker: FakeBroker) -> RawClient:
    return RawClient(broker.host, broker.port)


def read(frame: bytes, api_key: ApiKey, version: int) -> object:
    return decode_response(frame, api_key=api_key, api_version=version)[1]


def test_request_is_kept_as_it_came() -> None:
    with FakeBroker() as broker, connect(broker) as client:
        client.exchange(HEARTBEAT, 4)
        client.exchange(METADATA, 12)
        assert [(request.api_key, request.api_version) for request in broker.requests] == [
            (ApiKey.HEARTBEAT, 4),
            (ApiKey.METADATA, 12),
        ]
        assert broker.requests[0].body == HEARTBEAT
        assert broker.requests[0].frame.endswith(HEARTBEAT.encode(4))


def test_handler_decides_the_answer() -> None:
    with heartbeats(lambda _: ANSWER) as broker, connect(broker) as client:
        assert read(client.exchange(HEARTBEAT, 4), ApiKey.HEARTBEAT, 4) == ANSWER


def test_handler_may_answer_nonsense() -> None:
    with heartbeats(lambda _: b"nonsense") as broker, connect(broker) as client:
        client.send(HEARTBEAT, 4)
        assert client.receive() == b"nonsense"


def test_handler_may_drop_the_connection() -> None:
    with heartbeats(drop) as broker, connect(broker) as client, connect(broker) as other:
        client.send(HEARTBEAT, 4)
        with pytest.raises(ConnectionError):
            client.receive()
        other.exchange(METADATA, 12)


def test_request_that_is_never_answered_holds_nothing_up() -> None:
    with heartbeats(never) as broker, connect(broker) as client:
        client.send(HEARTBEAT, 4)
        metadata_id = client.send(METADATA, 12)
        assert int.from_bytes(client.receive()[:4], "big") == metadata_id


def test_answer_may_come_later() -> None:
    with heartbeats(never) as broker, connect(broker) as client:
        client.send(HEARTBEAT, 4)
        (request,) = broker.wait_for(ApiKey.HEARTBEAT)
        broker.answer(request, ANSWER)
        assert read(client.receive(), ApiKey.HEARTBEAT, 4) == ANSWER


def test_handler_that_waits_is_cancelled_when_the_broker_stops() -> None:
    async def wait_forever(_: Received) -> Answer:
        await asyncio.Event().wait()
        return None

    with heartbeats(wait_forever) as broker, connect(broker) as client:
        client.send(HEARTBEAT, 4)
        broker.wait_for(ApiKey.HEARTBEAT)


def test_connections_can_be_dropped_from_outside() -> None:
    with FakeBroker() as broker, connect(broker) as client:
        client.exchange(METADATA, 12)
        broker.drop_connections()
        with pytest.raises(ConnectionError):
            client.receive()
        with connect(broker) as again:
            again.exchange(METADATA, 12)


def test_error_of_a_handler_fails_the_test() -> None:
    def broken(_: Received) -> Answer:
        raise ZeroDivisionError

    def session() -> None:
        with heartbeats(broken) as broker, connect(broker) as client:
            client.send(HEARTBEAT, 4)
            with pytest.raises(ConnectionError):
                client.receive()

    with pytest.raises(ZeroDivisionError):
        session()


def test_unknown_version_of_api_versions_is_answered_as_version_0() -> None:
    with FakeBroker(api_versions={ApiKey.API_VERSIONS: (0, 2)}) as broker:
        with connect(broker) as client:
            answer = client.exchange(ApiVersionsRequest(), 3)
        response = read(answer, ApiKey.API_VERSIONS, 0)
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (only,) = response.api_keys
    assert (only.api_key, only.min_version, only.max_version) == (ApiKey.API_VERSIONS, 0, 2)


def test_advertised_versions_can_be_narrowed_and_taken_away() -> None:
    narrowed = FakeBroker(api_versions={ApiKey.FETCH: (4, 11), ApiKey.END_TXN: None})
    with narrowed as broker, connect(broker) as client:
        response = read(client.exchange(ApiVersionsRequest(), 4), ApiKey.API_VERSIONS, 4)
    assert isinstance(response, ApiVersionsResponse)
    ranges = {api.api_key: Versions(api.min_version, api.max_version) for api in response.api_keys}
    assert ranges[ApiKey.FETCH] == (4, 11)
    assert ApiKey.END_TXN not in ranges


def test_version_that_is_not_advertised_closes_the_connection() -> None:
    with FakeBroker(api_versions={ApiKey.HEARTBEAT: (0, 3)}) as broker, connect(broker) as client:
        client.send(HEARTBEAT, 4)
        with pytest.raises(ConnectionError):
            client.receive()


def test_speaks_tls() -> None:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with (
        FakeBroker(ssl_context=server) as broker,
        RawClient(broker.host, broker.port, ssl_context=trusting) as client,
    ):
        client.exchange(METADATA, 12)
        assert broker.received(ApiKey.METADATA)


def test_nothing_is_left_after_stop_and_the_port_can_be_used_again() -> None:
    threads = set(threading.enumerate())
    with FakeBroker() as broker, connect(broker) as client:
        client.exchange(METADATA, 12)
        port = broker.port
    assert set(threading.enumerate()) == threads
    with pytest.raises(ConnectionRefusedError):
        RawClient("127.0.0.1", port)
    with FakeBroker(port=port) as again, connect(again) as client:
        client.exchange(METADATA, 12)
