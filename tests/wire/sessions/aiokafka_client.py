"""Sessions of aiokafka."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import aiokafka.admin as admin  # type: ignore[import-untyped]
from aiokafka.admin.config_resource import (  # type: ignore[import-untyped]
    ConfigResource,
    ConfigResourceType,
)
from aiokafka.coordinator.assignors.roundrobin import (  # type: ignore[import-untyped]
    RoundRobinPartitionAssignor,
)
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (  # type: ignore[import-untyped]
    StickyPartitionAssignor,
)

from tests.wire.sessions import GROUP, HEADERS, KEY, TIMEOUT_S, TOPIC, TRANSACTIONAL_ID, VALUES

ASSIGNORS = {"roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}


def produce(address: str, *, codec: str = "none", acks: int = -1, idempotent: bool = False) -> None:
    async def session() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=None if codec == "none" else codec,
            acks=acks,
            enable_idempotence=idempotent,
        )
        async with producer:
            await _send(producer)

    _run(session())


def transactions(address: str) -> None:
    """Commit one with offsets in it, abort another."""

    async def session() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, transactional_id=TRANSACTIONAL_ID
        )
        async with producer:
            async with producer.transaction():
                await _send(producer)
                await producer.send_offsets_to_transaction(
                    {aiokafka.TopicPartition(TOPIC, 0): 1}, GROUP
                )
            await producer.begin_transaction()
            await _send(producer)
            await producer.abort_transaction()

    _run(session())


def consume(address: str) -> None:
    async def session() -> None:
        consumer = _consumer(address)
        consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
        async with consumer:
            assert (await consumer.getone()).value == VALUES[0]
            await consumer.commit()

    _run(session())


def join_group(address: str, *, assignor: str, until: Callable[[], bool]) -> None:
    """Stay in the group until `until()`; leaving it commits."""

    async def session() -> None:
        consumer = _consumer(address, partition_assignment_strategy=(ASSIGNORS[assignor],))
        consumer.subscribe([TOPIC])
        async with consumer:
            assert (await consumer.getone()).value == VALUES[0]
            while not until():
                await consumer.getmany(timeout_ms=20)

    _run(session())


def administer(address: str) -> None:
    async def session() -> None:
        partition = aiokafka.TopicPartition(TOPIC, 0)
        config = {"cleanup.policy": "compact"}
        topic = ConfigResource(ConfigResourceType.TOPIC, TOPIC, config)
        client = admin.AIOKafkaAdminClient(bootstrap_servers=address)
        await client.start()
        try:
            await client.create_topics([admin.NewTopic(TOPIC, 2, 1, topic_configs=config)])
            await client.create_partitions({TOPIC: admin.NewPartitions(3)})
            await client.list_topics()
            await client.describe_topics([TOPIC])
            await client.describe_cluster()
            await client.describe_configs([topic])
            await client.alter_configs([topic])
            await client.delete_records({partition: admin.RecordsToDelete(1)})
            await client.list_consumer_groups()
            await client.describe_consumer_groups([GROUP])
            await client.list_consumer_group_offsets(GROUP, partitions=[partition])
            await client.delete_topics([TOPIC])
        finally:
            await client.close()

    _run(session())


def _run(session: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await session

    asyncio.run(in_time())


def _consumer(address: str, **settings: Any) -> Any:
    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=address,
        group_id=GROUP,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        heartbeat_interval_ms=50,
        **settings,
    )


async def _send(producer: Any) -> None:
    for value in VALUES:
        await producer.send_and_wait(TOPIC, value, key=KEY, headers=HEADERS, partition=0)
