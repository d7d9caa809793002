"""The bytes of Apache Kafka's own clients, of the newest line and of the one before.

As in `test_real_clients`, a session runs against brokers that know less and less. All sessions
of one version of the clients run in one JVM, once, and the tests look at what their brokers saw.
"""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack

import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.compression import Compression
from kafka_wire.consumer_protocol import (
    CooperativeStickyUserData,
    TopicPartition,
    decode_sticky_user_data,
)
from kafka_wire.messages.produce import ProduceRequest
from kafka_wire.records import parse_header
from tests.support.fake_broker import FakeBroker
from tests.support.java_client import compile_client
from tests.support.maven import KAFKA, KAFKA_3
from tests.support.round_trip import check_requests, produced_records
from tests.wire.group_blobs import assignments, rebalance_until_finished, subscriptions
from tests.wire.older_brokers import PARTITIONS, older_broker
from tests.wire.sessions import KEY, TOPIC, VALUES
from tests.wire.sessions.table import span

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]  # Maven may have to download first

STEPS_BACK = {
    "produce": 6,  # further back there is no zstd
    "transactions": 5,
    "consume": 12,  # further back there is only version 0 of Metadata
    "range": 9,
    "sticky": 0,
    "cooperative-sticky": 0,
    "new-group": 0,
    "administer": 2,  # further back members cannot be removed from groups
}
TRANSACTIONS_2 = "transactions of KIP-890"

NEWEST_VERSIONS = {
    ApiKey.PRODUCE: span(7, 13),
    ApiKey.FETCH: span(6, 18),
    ApiKey.LIST_OFFSETS: span(1, 11),
    ApiKey.METADATA: span(1, 13),
    ApiKey.OFFSET_COMMIT: span(2, 10),
    ApiKey.OFFSET_FETCH: span(1, 10),
    ApiKey.FIND_COORDINATOR: span(0, 6),
    ApiKey.JOIN_GROUP: span(0, 9),
    ApiKey.HEARTBEAT: span(0, 4),
    ApiKey.LEAVE_GROUP: span(0, 5),
    ApiKey.SYNC_GROUP: span(0, 5),
    ApiKey.DESCRIBE_GROUPS: span(4, 6),
    ApiKey.LIST_GROUPS: span(3, 5),
    ApiKey.API_VERSIONS: span(0, 4),
    ApiKey.CREATE_TOPICS: span(5, 7),
    ApiKey.DELETE_TOPICS: span(4, 6),
    ApiKey.DELETE_RECORDS: span(0, 2),
    ApiKey.INIT_PRODUCER_ID: span(0, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: span(0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: span(0, 4),
    ApiKey.END_TXN: span(0, 5),
    ApiKey.TXN_OFFSET_COMMIT: span(0, 5),
    ApiKey.DESCRIBE_ACLS: span(1, 3),
    ApiKey.CREATE_ACLS: span(1, 3),
    ApiKey.DELETE_ACLS: span(1, 3),
    ApiKey.DESCRIBE_CONFIGS: span(2, 4),
    ApiKey.DESCRIBE_LOG_DIRS: span(3, 5),
    ApiKey.CREATE_PARTITIONS: span(1, 3),
    ApiKey.DELETE_GROUPS: span(0, 2),
    ApiKey.ELECT_LEADERS: span(0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {0, 1},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {0, 1},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {0},
    ApiKey.OFFSET_DELETE: {0},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {0, 1},
    ApiKey.ALTER_CLIENT_QUOTAS: {0, 1},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {0},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {0},
    ApiKey.DESCRIBE_QUORUM: span(0, 2),
    ApiKey.UPDATE_FEATURES: {1, 2},
    ApiKey.DESCRIBE_CLUSTER: span(0, 2),
    ApiKey.DESCRIBE_PRODUCERS: {0},
    ApiKey.DESCRIBE_TRANSACTIONS: {0},
    ApiKey.LIST_TRANSACTIONS: span(0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {1},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {0, 1},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {0},
}
VERSIONS = {
    KAFKA: NEWEST_VERSIONS,
    KAFKA_3: NEWEST_VERSIONS
    | {
        ApiKey.PRODUCE: span(7, 11),
        ApiKey.FETCH: span(6, 17),
        ApiKey.LIST_OFFSETS: span(1, 9),
        ApiKey.METADATA: span(1, 12),
        ApiKey.OFFSET_COMMIT: span(2, 9),
        ApiKey.OFFSET_FETCH: span(1, 9),
        ApiKey.DESCRIBE_GROUPS: {4, 5},
        ApiKey.END_TXN: span(0, 4),
        ApiKey.TXN_OFFSET_COMMIT: span(0, 4),
        ApiKey.DESCRIBE_LOG_DIRS: {3, 4},
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {0},
        ApiKey.UPDATE_FEATURES: {1},
        ApiKey.DESCRIBE_CLUSTER: {0, 1},
        ApiKey.LIST_TRANSACTIONS: {0, 1},
        ApiKey.CONSUMER_GROUP_HEARTBEAT: {0},
        ApiKey.CONSUMER_GROUP_DESCRIBE: {0},
    },
}
"""What the clients send in all sessions together."""

HEADERS = (("trace", b"\x00\xff"), ("nothing", None))
HELD = [TopicPartition(topic=TOPIC, partitions=list(range(PARTITIONS)))]

Captured = Mapping[str, list[FakeBroker]]
"""The brokers of each session, the newest first, after it."""


@pytest.fixture(scope="module", params=[KAFKA, KAFKA_3])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def captured(version: str, tmp_path_factory: pytest.TempPathFactory) -> Captured:
    client = compile_client(version, tmp_path_factory.mktemp("java"))
    brokers = {
        session: [older_broker(steps) for steps in range(steps_back + 1)]
        for session, steps_back in STEPS_BACK.items()
    }
    brokers[TRANSACTIONS_2] = [older_broker(0, features={"transaction.version": 2})]
    with ExitStack() as running:
        sessions = []
        for name, of_session in brokers.items():
            for broker in of_session:
                running.enter_context(broker)
                broker.handle(ApiKey.HEARTBEAT, rebalance_until_finished(broker))
                sessions.append((name.partition(" ")[0], broker.address))
        client.run(sessions)
    return brokers


def test_requests_of_every_version_are_read_exactly(captured: Captured, version: str) -> None:
    seen: defaultdict[ApiKey, set[int]] = defaultdict(set)
    for brokers in captured.values():
        for broker in brokers:
            for api_key, versions in check_requests(broker.requests).items():
                seen[api_key] |= versions
    assert seen == VERSIONS[version]


def test_produced_batches_hold_what_was_produced(captured: Captured) -> None:
    """With every codec, every kind of acknowledgement, and as an idempotent producer."""
    for broker in captured["produce"]:
        records = list(produced_records(broker.requests))
        assert len(records) == len(Compression) + 3
        assert {record.value for record in records} == {VALUES[0]}
        assert {record.key for record in records} == {KEY}
        assert {record.headers for record in records} == {HEADERS}
        produced = broker.topics.batches[TOPIC, 0][1:]
        headers = [parse_header(batch) for batch in produced]
        assert {header.compression for header in headers} == set(Compression)
        assert [header.producer_id is not None for header in headers] == [False] * 7 + [True]
        requests = broker.received(ApiKey.PRODUCE)
        assert {request.expect(ProduceRequest).acks for request in requests} == {-1, 0, 1}


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_group_blobs_are_read_exactly(captured: Captured, assignor: str) -> None:
    for broker in captured[assignor]:
        assert subscriptions(broker, assignor)[-1].topics == [TOPIC]
        assert assignments(broker)[-1].assigned_partitions == HELD


def test_user_data_of_the_sticky_assignor_is_read_exactly(captured: Captured) -> None:
    user_data = subscriptions(captured["sticky"][0], "sticky")[-1].user_data
    assert user_data is not None
    sticky = decode_sticky_user_data(user_data)
    assert sticky.previous_assignment == HELD
    assert sticky.encode(1) == user_data


def test_user_data_of_the_cooperative_assignor_is_read_exactly(captured: Captured) -> None:
    subscription = subscriptions(captured["cooperative-sticky"][0], "cooperative-sticky")[-1]
    assert subscription.owned_partitions == HELD
    assert subscription.user_data is not None
    user_data = CooperativeStickyUserData.decode(subscription.user_data, 0)
    assert user_data.generation == subscription.generation_id
    assert user_data.encode(0) == subscription.user_data


def test_newest_client_adds_partitions_to_a_transaction_by_writing(
    captured: Captured, version: str
) -> None:
    """Where the broker has the feature (KIP-890)."""
    (broker,) = captured[TRANSACTIONS_2]
    says_so = bool(broker.received(ApiKey.ADD_PARTITIONS_TO_TXN))
    assert says_so == (version == KAFKA_3)
