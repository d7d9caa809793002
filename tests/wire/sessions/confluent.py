"""Sessions of confluent-kafka, which is librdkafka."""

import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import confluent_kafka.admin
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)

from tests.wire.sessions import GROUP, HEADERS, KEY, TIMEOUT_S, TOPIC, TRANSACTIONAL_ID, VALUES

ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")

# Its types do not say what the module exports.
admin: Any = confluent_kafka.admin


def produce(address: str, *, codec: str = "none", acks: int = -1, idempotent: bool = False) -> None:
    producer = _producer(
        address, **{"compression.type": codec, "acks": acks, "enable.idempotence": idempotent}
    )
    _send(producer)
    assert producer.flush(TIMEOUT_S) == 0


def transactions(address: str) -> None:
    """Commit one with offsets in it, abort another."""
    producer = _producer(address, **{"transactional.id": TRANSACTIONAL_ID})
    with closing(_consumer(address)) as consumer:
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        _send(producer)
        producer.send_offsets_to_transaction(
            [TopicPartition(TOPIC, 0, 1)], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        producer.commit_transaction(TIMEOUT_S)
        producer.begin_transaction()
        _send(producer)
        producer.flush(TIMEOUT_S)
        producer.abort_transaction(TIMEOUT_S)


def consume(address: str) -> None:
    with closing(_consumer(address)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        _take_one(consumer)
        consumer.commit(asynchronous=False)


def join_group(address: str, *, assignor: str, until: Callable[[], bool]) -> None:
    """Stay in the group until `until()`; leaving it commits."""
    _stay(
        _consumer(
            address, **{"partition.assignment.strategy": assignor, "heartbeat.interval.ms": 50}
        ),
        until,
    )


def join_new_group(address: str, *, until: Callable[[], bool]) -> None:
    """The same in a group of the kind of KIP-848."""
    _stay(_consumer(address, **{"group.protocol": "consumer"}), until)


def administer(address: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": address})
    partition = TopicPartition(TOPIC, 0, 1)
    configured = admin.ConfigResource(
        admin.ResourceType.TOPIC, TOPIC, set_config={"retention.ms": "1000"}
    )
    changed = admin.ConfigResource(
        admin.ResourceType.TOPIC,
        TOPIC,
        incremental_configs=[
            admin.ConfigEntry(
                "retention.ms", "1", incremental_operation=admin.AlterConfigOpType.SET
            )
        ],
    )
    acl = (
        admin.ResourceType.TOPIC,
        TOPIC,
        admin.ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        admin.AclOperation.READ,
        admin.AclPermissionType.ALLOW,
    )
    credential = admin.UserScramCredentialUpsertion(
        "alice",
        admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_256, 4096),
        b"password",
        b"salt",
    )
    _done(
        client.create_topics(
            [
                admin.NewTopic(
                    TOPIC,
                    num_partitions=2,
                    replication_factor=1,
                    config={"cleanup.policy": "compact"},
                )
            ]
        ).values()
    )
    _done(client.create_partitions([admin.NewPartitions(TOPIC, 3)]).values())
    _done(client.describe_configs([admin.ConfigResource(admin.ResourceType.TOPIC, TOPIC)]).values())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "alter_configs has been deprecated", DeprecationWarning)
        _done(client.alter_configs([configured]).values())
    _done(client.incremental_alter_configs([changed]).values())
    _done(client.describe_topics(TopicCollection([TOPIC])).values())
    _done([client.describe_cluster(include_authorized_operations=True)])
    _done(client.list_offsets({partition: admin.OffsetSpec.latest()}).values())
    _done(client.delete_records([partition]).values())
    _done([client.elect_leaders(ElectionType.PREFERRED, [partition])])
    _done(client.create_acls([admin.AclBinding(*acl)]).values())
    _done([client.describe_acls(admin.AclBindingFilter(*acl))])
    _done(client.delete_acls([admin.AclBindingFilter(*acl)]).values())
    _done(client.alter_user_scram_credentials([credential]).values())
    _done(client.describe_user_scram_credentials(["alice"]).values())
    _done([client.list_consumer_groups()])
    _done(client.describe_consumer_groups([GROUP]).values())
    committed = [ConsumerGroupTopicPartitions(GROUP, [partition])]
    _done(client.alter_consumer_group_offsets(committed).values())
    _done(client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]).values())
    _done(client.delete_consumer_groups([GROUP]).values())
    _done(client.delete_topics([TOPIC]).values())


def _producer(address: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": address, "linger.ms": 0, **settings})


def _consumer(address: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **settings,
        }
    )


def _send(producer: Producer) -> None:
    for value in VALUES:
        producer.produce(TOPIC, value, key=KEY, headers=[*HEADERS], partition=0)


def _take_one(consumer: Consumer) -> None:
    message = consumer.poll(TIMEOUT_S)
    assert message is not None, "nothing arrived"
    assert message.error() is None, message.error()
    assert message.value() == VALUES[0]


def _stay(consumer: Consumer, until: Callable[[], bool]) -> None:
    with closing(consumer):
        consumer.subscribe([TOPIC])
        _take_one(consumer)
        while not until():
            consumer.poll(0.02)


def _done(futures: "Iterable[Future[Any]]") -> None:
    """Wait for the answers. What they say does not matter here."""
    for future in futures:
        error = future.exception(TIMEOUT_S)
        assert error is None or isinstance(error, KafkaException), repr(error)
