"""Which sessions there are, and the versions of each API that a client sends in them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafka_wire.api_keys import ApiKey
from tests.support.fake_broker import FakeBroker
from tests.wire.sessions import aiokafka_client, confluent, kafka_python, kcat

ANY: set[int] = set()
"""The versions of kcat, which is not pinned: whatever the system has."""


def span(first: int, last: int) -> set[int]:
    return set(range(first, last + 1))


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a client does, how many versions back it can go, and the versions that it then sends."""

    run: Callable[[FakeBroker], None]
    steps_back: int = 0
    versions: Mapping[ApiKey, set[int]]
    tails: Mapping[ApiKey, bytes] = field(default_factory=dict)
    """Bytes too many, which Kafka ignores."""


def at(session: Callable[[str], None]) -> Callable[[FakeBroker], None]:
    return lambda broker: session(broker.address)


def until(
    session: Callable[..., None], api_key: ApiKey, **settings: str
) -> Callable[[FakeBroker], None]:
    """A session that lasts until it has sent such a request."""
    return lambda broker: session(
        broker.address, until=lambda: bool(broker.received(api_key)), **settings
    )


SESSIONS = {
    "confluent-produce": Session(
        run=at(confluent.produce),
        steps_back=10,
        versions={
            ApiKey.API_VERSIONS: {0, 3},
            ApiKey.METADATA: span(3, 13),
            ApiKey.PRODUCE: span(3, 10),
        },
    ),
    "confluent-idempotent": Session(
        run=at(lambda address: confluent.produce(address, idempotent=True)),
        versions={
            ApiKey.API_VERSIONS: {3},
            ApiKey.METADATA: {13},
            ApiKey.INIT_PRODUCER_ID: {4},
            ApiKey.PRODUCE: {10},
        },
    ),
    "confluent-transactions": Session(
        run=at(confluent.transactions),
        steps_back=5,
        versions={
            ApiKey.API_VERSIONS: {0, 3},
            ApiKey.METADATA: span(8, 13),
            ApiKey.FIND_COORDINATOR: {1, 2},
            ApiKey.INIT_PRODUCER_ID: span(1, 4),
            ApiKey.ADD_PARTITIONS_TO_TXN: {0},
            ApiKey.PRODUCE: span(8, 10),
            ApiKey.ADD_OFFSETS_TO_TXN: {0},
            ApiKey.TXN_OFFSET_COMMIT: span(0, 3),
            ApiKey.END_TXN: {0, 1},
        },
    ),
    "confluent-consume": Session(
        run=at(confluent.consume),
        steps_back=14,
        versions={
            ApiKey.API_VERSIONS: {0, 3},
            ApiKey.METADATA: span(0, 13),
            ApiKey.FETCH: span(4, 12) | {15, 16},
            ApiKey.FIND_COORDINATOR: span(0, 2),
            ApiKey.OFFSET_COMMIT: span(2, 9),
        },
    ),
    "confluent-group": Session(
        run=until(confluent.join_group, ApiKey.HEARTBEAT, assignor="range"),
        steps_back=10,
        versions={
            ApiKey.API_VERSIONS: {0, 3},
            ApiKey.METADATA: span(3, 13),
            ApiKey.FIND_COORDINATOR: span(0, 2),
            ApiKey.JOIN_GROUP: span(0, 5),
            ApiKey.SYNC_GROUP: span(0, 3),
            ApiKey.HEARTBEAT: span(0, 3),
            ApiKey.OFFSET_FETCH: span(1, 9),
            ApiKey.LIST_OFFSETS: span(1, 7),
            ApiKey.FETCH: span(8, 12) | {15, 16},
            ApiKey.OFFSET_COMMIT: span(2, 9),
            ApiKey.LEAVE_GROUP: {0, 1},
        },
    ),
    "confluent-new-group": Session(
        run=until(confluent.join_new_group, ApiKey.CONSUMER_GROUP_HEARTBEAT),
        versions={
            ApiKey.API_VERSIONS: {3},
            ApiKey.METADATA: {13},
            ApiKey.FIND_COORDINATOR: {2},
            ApiKey.CONSUMER_GROUP_HEARTBEAT: {1},
            ApiKey.OFFSET_FETCH: {9},
            ApiKey.LIST_OFFSETS: {7},
            ApiKey.FETCH: {16},
            ApiKey.OFFSET_COMMIT: {9},
        },
    ),
    "confluent-administer": Session(
        run=at(confluent.administer),
        steps_back=6,
        tails={ApiKey.ALTER_USER_SCRAM_CREDENTIALS: b"\x00"},  # tagged fields, a second time
        versions={
            ApiKey.API_VERSIONS: {0, 3},
            ApiKey.METADATA: span(7, 13),
            ApiKey.CREATE_TOPICS: {2, 3, 4},
            ApiKey.CREATE_PARTITIONS: span(0, 2),
            ApiKey.DESCRIBE_CONFIGS: {1},
            ApiKey.ALTER_CONFIGS: span(0, 2),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: {0, 1},
            ApiKey.LIST_OFFSETS: span(5, 7),
            ApiKey.DELETE_RECORDS: span(0, 2),
            ApiKey.ELECT_LEADERS: span(0, 2),
            ApiKey.CREATE_ACLS: {1, 2},
            ApiKey.DESCRIBE_ACLS: {1, 2},
            ApiKey.DELETE_ACLS: {1, 2},
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {0},
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {0},
            ApiKey.LIST_GROUPS: span(0, 5),
            ApiKey.FIND_COORDINATOR: span(0, 2),
            ApiKey.CONSUMER_GROUP_DESCRIBE: {0},
            ApiKey.DESCRIBE_GROUPS: span(0, 5),
            ApiKey.OFFSET_COMMIT: span(4, 9),
            ApiKey.OFFSET_FETCH: span(4, 9),
            ApiKey.DELETE_GROUPS: span(0, 2),
            ApiKey.DELETE_TOPICS: span(1, 4),
        },
    ),
    "kafka-python-produce": Session(
        run=at(kafka_python.produce),
        steps_back=10,
        versions={
            ApiKey.API_VERSIONS: span(0, 4),
            ApiKey.METADATA: span(3, 13),
            ApiKey.PRODUCE: span(3, 9),
        },
    ),
    "kafka-python-idempotent": Session(
        run=at(lambda address: kafka_python.produce(address, idempotent=True)),
        steps_back=6,
        versions={
            ApiKey.API_VERSIONS: span(0, 4),
            ApiKey.METADATA: span(7, 13),
            ApiKey.INIT_PRODUCER_ID: span(0, 4),
            ApiKey.PRODUCE: span(7, 9),
        },
    ),
    "kafka-python-transactions": Session(
        run=at(kafka_python.transactions),
        steps_back=5,
        versions={
            ApiKey.API_VERSIONS: span(0, 4),
            ApiKey.METADATA: span(8, 13),
            ApiKey.FIND_COORDINATOR: span(1, 6),
            ApiKey.INIT_PRODUCER_ID: span(1, 4),
            ApiKey.ADD_PARTITIONS_TO_TXN: span(0, 3),
            ApiKey.PRODUCE: {8, 9},
            ApiKey.ADD_OFFSETS_TO_TXN: span(0, 3),
            ApiKey.TXN_OFFSET_COMMIT: span(0, 3),
            ApiKey.END_TXN: span(0, 3),
        },
    ),
    "kafka-python-consume": Session(
        run=at(kafka_python.consume),
        steps_back=14,
        versions={
            ApiKey.API_VERSIONS: span(0, 4),
            ApiKey.METADATA: span(0, 13),
            ApiKey.FIND_COORDINATOR: span(0, 6),
            ApiKey.OFFSET_FETCH: span(1, 8),
            ApiKey.LIST_OFFSETS: span(1, 11),
            ApiKey.FETCH: span(4, 12),
            ApiKey.OFFSET_COMMIT: span(2, 8),
        },
    ),
    "kafka-python-group": Session(
        run=until(kafka_python.join_group, ApiKey.HEARTBEAT, assignor="range"),
        steps_back=9,
        versions={
            ApiKey.API_VERSIONS: span(0, 4),
            ApiKey.METADATA: span(4, 13),
            ApiKey.FIND_COORDINATOR: span(0, 6),
            ApiKey.JOIN_GROUP: span(0, 7),
            ApiKey.SYNC_GROUP: span(0, 5),
            ApiKey.HEARTBEAT: span(0, 4),
            ApiKey.OFFSET_FETCH: span(1, 8),
            ApiKey.LIST_OFFSETS: span(2, 11),
            ApiKey.FETCH: span(9, 12),
            ApiKey.OFFSET_COMMIT: span(2, 8),
            ApiKey.LEAVE_GROUP: span(0, 5),
        },
    ),
    # Of DescribeCluster and DescribeQuorum it copes with the newest versions only.
    "kafka-python-administer": Session(
        run=at(kafka_python.administer),
        versions={
            ApiKey.API_VERSIONS: {4},
            ApiKey.METADATA: {13},
            ApiKey.CREATE_TOPICS: {7},
            ApiKey.CREATE_PARTITIONS: {3},
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: {0},
            ApiKey.DESCRIBE_CLUSTER: {2},
            ApiKey.DESCRIBE_CONFIGS: {4},
            ApiKey.ALTER_CONFIGS: {2},
            ApiKey.INCREMENTAL_ALTER_CONFIGS: {1},
            ApiKey.DELETE_RECORDS: {2},
            ApiKey.ELECT_LEADERS: {2},
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: {1},
            ApiKey.LIST_PARTITION_REASSIGNMENTS: {0},
            ApiKey.DESCRIBE_LOG_DIRS: {5},
            ApiKey.DESCRIBE_PRODUCERS: {0},
            ApiKey.DESCRIBE_QUORUM: {2},
            ApiKey.LIST_TRANSACTIONS: {2},
            ApiKey.FIND_COORDINATOR: {6},
            ApiKey.DESCRIBE_TRANSACTIONS: {0},
            ApiKey.UPDATE_FEATURES: {2},
            ApiKey.CREATE_ACLS: {3},
            ApiKey.DESCRIBE_ACLS: {3},
            ApiKey.DELETE_ACLS: {3},
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {0},
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {0},
            ApiKey.LIST_GROUPS: {5},
            ApiKey.DESCRIBE_GROUPS: {6},
            ApiKey.OFFSET_COMMIT: {8},
            ApiKey.OFFSET_FETCH: {8},
            ApiKey.OFFSET_DELETE: {0},
            ApiKey.LEAVE_GROUP: {5},
            ApiKey.DELETE_GROUPS: {2},
            ApiKey.DELETE_TOPICS: {6},
        },
    ),
    "aiokafka-produce": Session(
        run=at(aiokafka_client.produce),
        steps_back=10,
        versions={
            ApiKey.API_VERSIONS: {0},
            ApiKey.METADATA: span(3, 5),
            ApiKey.PRODUCE: span(3, 7),
        },
    ),
    "aiokafka-transactions": Session(
        run=at(aiokafka_client.transactions),
        versions={
            ApiKey.API_VERSIONS: {0},
            ApiKey.METADATA: {5},
            ApiKey.FIND_COORDINATOR: {1},
            ApiKey.INIT_PRODUCER_ID: {0},
            ApiKey.ADD_PARTITIONS_TO_TXN: {0},
            ApiKey.PRODUCE: {7},
            ApiKey.ADD_OFFSETS_TO_TXN: {0},
            ApiKey.TXN_OFFSET_COMMIT: {0},
            ApiKey.END_TXN: {0},
        },
    ),
    "aiokafka-consume": Session(
        run=at(aiokafka_client.consume),
        steps_back=14,
        versions={
            ApiKey.API_VERSIONS: {0},
            ApiKey.METADATA: span(0, 5),
            ApiKey.FIND_COORDINATOR: {0, 1},
            ApiKey.OFFSET_FETCH: span(1, 3),
            ApiKey.LIST_OFFSETS: span(1, 3),
            ApiKey.FETCH: span(4, 11),
            ApiKey.OFFSET_COMMIT: {2, 3},
        },
    ),
    "aiokafka-group": Session(
        run=until(aiokafka_client.join_group, ApiKey.HEARTBEAT, assignor="roundrobin"),
        steps_back=9,
        versions={
            ApiKey.API_VERSIONS: {0},
            ApiKey.METADATA: {4, 5},
            ApiKey.FIND_COORDINATOR: {0, 1},
            ApiKey.JOIN_GROUP: {0, 1, 2, 5},
            ApiKey.SYNC_GROUP: {0, 1, 3},
            ApiKey.HEARTBEAT: {0, 1},
            ApiKey.OFFSET_FETCH: span(1, 3),
            ApiKey.LIST_OFFSETS: {2, 3},
            ApiKey.FETCH: span(9, 11),
            ApiKey.OFFSET_COMMIT: {2, 3},
            ApiKey.LEAVE_GROUP: {0, 1},
        },
    ),
    "aiokafka-administer": Session(
        run=at(aiokafka_client.administer),
        steps_back=6,
        versions={
            ApiKey.API_VERSIONS: {0},
            ApiKey.METADATA: {5},
            ApiKey.CREATE_TOPICS: {2, 3},
            ApiKey.CREATE_PARTITIONS: {0, 1},
            ApiKey.DESCRIBE_CONFIGS: {1, 2},
            ApiKey.ALTER_CONFIGS: {0, 1},
            ApiKey.DELETE_RECORDS: span(0, 2),
            ApiKey.LIST_GROUPS: {0, 1},
            ApiKey.FIND_COORDINATOR: {0, 1},
            ApiKey.DESCRIBE_GROUPS: span(0, 3),
            ApiKey.OFFSET_FETCH: {3},
            ApiKey.DELETE_TOPICS: span(1, 3),
        },
    ),
    "kcat-list": Session(
        run=at(kcat.list_metadata),
        steps_back=4,
        versions={ApiKey.API_VERSIONS: ANY, ApiKey.METADATA: ANY},
    ),
    "kcat-produce": Session(
        run=at(kcat.produce),
        steps_back=10,
        versions={ApiKey.API_VERSIONS: ANY, ApiKey.METADATA: ANY, ApiKey.PRODUCE: ANY},
    ),
    "kcat-transactions": Session(
        run=at(kcat.transactions),
        versions=dict.fromkeys(
            (
                ApiKey.FIND_COORDINATOR,
                ApiKey.INIT_PRODUCER_ID,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                ApiKey.PRODUCE,
                ApiKey.END_TXN,
            ),
            ANY,
        ),
    ),
    "kcat-consume": Session(
        run=at(kcat.consume), steps_back=14, versions={ApiKey.LIST_OFFSETS: ANY, ApiKey.FETCH: ANY}
    ),
    "kcat-group": Session(
        run=at(kcat.join_group),
        steps_back=5,
        versions=dict.fromkeys(
            (
                ApiKey.JOIN_GROUP,
                ApiKey.SYNC_GROUP,
                ApiKey.FETCH,
                ApiKey.OFFSET_COMMIT,
                ApiKey.LEAVE_GROUP,
            ),
            ANY,
        ),
    ),
}
