"""Sessions of kafka-python."""

import warnings
from collections.abc import Callable
from contextlib import closing
from typing import Any

import tests.wire.other_clients  # noqa: F401 - gives it snappy
from tests.wire.sessions import GROUP, HEADERS, KEY, TOPIC, TRANSACTIONAL_ID, VALUES

with warnings.catch_warnings():
    # It reads its schemas with a function that Python 3.11 deprecates and 3.13 restores.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka  # type: ignore[import-untyped]
    import kafka.admin as admin  # type: ignore[import-untyped]
    from kafka.coordinator.assignors.cooperative_sticky import (  # type: ignore[import-untyped]
        CooperativeStickyAssignor,
    )
    from kafka.coordinator.assignors.range import (  # type: ignore[import-untyped]
        RangePartitionAssignor,
    )
    from kafka.coordinator.assignors.sticky.sticky_assignor import (  # type: ignore[import-untyped]
        StickyPartitionAssignor,
    )

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
TIMEOUT_MS = 10_000


def produce(address: str, *, codec: str = "none", acks: int = -1, idempotent: bool = False) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        acks=acks,
        enable_idempotence=idempotent,
    )
    with closing(producer):
        _send(producer)


def transactions(address: str) -> None:
    """Commit one with offsets in it, abort another."""
    producer = kafka.KafkaProducer(bootstrap_servers=address, transactional_id=TRANSACTIONAL_ID)
    with closing(producer):
        producer.init_transactions()
        producer.begin_transaction()
        _send(producer)
        offsets = {kafka.TopicPartition(TOPIC, 0): kafka.OffsetAndMetadata(1, "", -1)}
        producer.send_offsets_to_transaction(offsets, GROUP)
        producer.commit_transaction()
        producer.begin_transaction()
        _send(producer)
        producer.abort_transaction()


def consume(address: str) -> None:
    with closing(_consumer(address)) as consumer:
        consumer.assign([kafka.TopicPartition(TOPIC, 0)])
        assert next(consumer).value == VALUES[0]
        consumer.commit()


def join_group(address: str, *, assignor: str, until: Callable[[], bool]) -> None:
    """Stay in the group until `until()`; leaving it commits."""
    strategy = (ASSIGNORS[assignor],)
    with closing(_consumer(address, partition_assignment_strategy=strategy)) as consumer:
        consumer.subscribe([TOPIC])
        assert next(consumer).value == VALUES[0]
        while not until():
            consumer.poll(timeout_ms=20)


def administer(address: str) -> None:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=address)) as client:
        for call in _calls(client):
            call()


def _calls(client: Any) -> list[Callable[[], Any]]:
    partition = kafka.TopicPartition(TOPIC, 0)
    topic = admin.ConfigResource(
        admin.ConfigResourceType.TOPIC, TOPIC, {"cleanup.policy": "compact"}
    )
    pattern = admin.ResourcePattern(admin.ResourceType.TOPIC, TOPIC)
    acl = ("User:alice", "*", admin.ACLOperation.READ, admin.ACLPermissionType.ALLOW, pattern)
    upsertion = admin.UserScramCredentialUpsertion(
        "alice", admin.ScramMechanism.SCRAM_SHA_256, b"password", 4096, b"salt"
    )
    return [
        lambda: client.create_topics([admin.NewTopic(TOPIC, 2, 1, topic_configs=topic.configs)]),
        lambda: client.create_partitions({TOPIC: admin.NewPartitions(3)}),
        client.list_topics,
        lambda: client.describe_topics([TOPIC]),
        lambda: client.describe_topic_partitions([TOPIC]),
        client.describe_cluster,
        lambda: client.describe_configs([topic]),
        lambda: client.alter_configs([topic], incremental=False),
        lambda: client.alter_configs([topic], incremental=True),
        lambda: client.delete_records({partition: 1}),
        lambda: client.elect_leaders(0, {TOPIC: [0]}),
        lambda: client.alter_partition_reassignments({partition: [0]}),
        lambda: client.list_partition_reassignments({TOPIC: [0]}),
        client.describe_log_dirs,
        lambda: client.describe_producers([partition]),
        client.describe_metadata_quorum,
        client.list_transactions,
        lambda: client.describe_transactions([TRANSACTIONAL_ID]),
        lambda: client.update_features({"group.version": (1, 1)}, validate_only=True),
        lambda: client.create_acls([admin.ACL(*acl)]),
        lambda: client.describe_acls(admin.ACLFilter(*acl)),
        lambda: client.delete_acls([admin.ACLFilter(*acl)]),
        lambda: client.alter_user_scram_credentials([upsertion]),
        lambda: client.describe_user_scram_credentials(["alice"]),
        client.list_groups,
        lambda: client.describe_groups([GROUP]),
        lambda: client.alter_group_offsets(GROUP, {partition: kafka.OffsetAndMetadata(1, "", -1)}),
        lambda: client.list_group_offsets({GROUP: [partition]}),
        lambda: client.delete_group_offsets(GROUP, [partition]),
        lambda: client.remove_group_members(GROUP, [admin.MemberToRemove(member_id="m")]),
        lambda: client.delete_groups([GROUP]),
        lambda: client.delete_topics([TOPIC]),
    ]


def _consumer(address: str, **settings: Any) -> Any:
    return kafka.KafkaConsumer(
        bootstrap_servers=address,
        group_id=GROUP,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        heartbeat_interval_ms=50,
        consumer_timeout_ms=TIMEOUT_MS,
        **settings,
    )


def _send(producer: Any) -> None:
    sent = [producer.send(TOPIC, value, key=KEY, headers=HEADERS, partition=0) for value in VALUES]
    for future in sent:
        future.get(TIMEOUT_MS / 1000)
