"""TLS for both clients: it works with the right authority, and fails at once with a wrong one."""

import socket
import ssl
import time

import pytest
import trustme

from kafka_wire.client import ConnectError
from kafka_wire.messages import ListGroupsRequest, ListGroupsResponse
from tests.support.fake_broker import FakeBroker
from tests.wire.client.both import Connect
from tests.wire.client.brokers import peer
from tests.wire.client.script import EVENTS_0, records

PROMPT_S = 3.0


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


def test_requests_go_over_tls(connect: Connect, authority: trustme.CA) -> None:
    with _tls_broker(authority, "localhost") as broker:
        client = connect(f"localhost:{broker.port}", tls=_trusting(authority))
        for _ in range(3):
            client.request(ListGroupsRequest(), ListGroupsResponse)
            broker.drop_connections()


def test_large_batches_go_over_tls(connect: Connect, authority: trustme.CA) -> None:
    with _tls_broker(authority, "127.0.0.1") as broker:
        client = connect(broker.address, tls=_trusting(authority))
        batch = records(bytes(3_000_000)).build()
        assert [client.produce(EVENTS_0, batch).base_offset for _ in range(2)] == [0, 1]


def test_a_broker_of_another_authority_is_refused_at_once(
    connect: Connect, authority: trustme.CA
) -> None:
    other = trustme.CA(key_type=trustme.KeyType.ECDSA)
    with _tls_broker(authority, "127.0.0.1") as broker:
        client = connect(broker.address, tls=_trusting(other))
        start = time.monotonic()
        with pytest.raises(ConnectError, match="certificate verify failed"):
            client.refresh_metadata(())
        assert time.monotonic() - start < PROMPT_S


def test_a_broker_of_another_name_is_refused(connect: Connect, authority: trustme.CA) -> None:
    with _tls_broker(authority, "broker.example") as broker:
        client = connect(broker.address, tls=_trusting(authority))
        with pytest.raises(ConnectError, match="certificate"):
            client.refresh_metadata(())


def test_a_plain_client_of_a_tls_broker_is_told(connect: Connect, authority: trustme.CA) -> None:
    with _tls_broker(authority, "127.0.0.1") as broker, pytest.raises(ConnectError):
        connect(broker.address).refresh_metadata(())


def test_a_tls_client_of_a_plain_broker_is_told(connect: Connect, authority: trustme.CA) -> None:
    with peer(_hang_up) as address, pytest.raises(ConnectError):
        connect(address, tls=_trusting(authority)).refresh_metadata(())


def _hang_up(connection: socket.socket) -> None:
    """As Kafka does on a frame that is too large, for which it takes the greeting of TLS."""
    connection.recv(1000)


def _tls_broker(authority: trustme.CA, name: str) -> FakeBroker:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name, key_type=trustme.KeyType.ECDSA).configure_cert(context)
    return FakeBroker(ssl_context=context)


def _trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context
