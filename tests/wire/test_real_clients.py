"""A real client's bytes: what other people's clients send, we decode and encode again exactly.

Each session runs against a broker that advertises what we know, and again against brokers whose
newest version of every API is one, two, ... versions older, so that a client is seen to speak
every version that it has. A table says which those are: a session that sends less fails, too.
"""

from collections import defaultdict
from types import ModuleType

import msgspec
import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.compression import Compression
from kafka_wire.consumer_protocol import (
    TopicPartition,
    decode_sticky_user_data,
)
from kafka_wire.messages import REQUESTS
from kafka_wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.produce import ProduceRequest
from kafka_wire.records import BatchHeader, iter_batches
from kafka_wire.schema import Bool, Decoder, Int32, Request, message
from kafka_wire.types import Buffer
from tests.support.fake_broker import FakeBroker
from tests.support.round_trip import check_requests, produced_records, request_problem
from tests.wire.group_blobs import (
    assignments,
    has_finished,
    rebalance_until_finished,
    subscriptions,
)
from tests.wire.older_brokers import PARTITIONS, older_broker
from tests.wire.sessions import (
    CODECS,
    HEADERS,
    KEY,
    TOPIC,
    VALUES,
    aiokafka_client,
    confluent,
    kafka_python,
    kcat,
)
from tests.wire.sessions.table import SESSIONS, Session


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_requests_of_every_version_are_read_exactly(session: Session) -> None:
    seen: defaultdict[ApiKey, set[int]] = defaultdict(set)
    for steps in range(session.steps_back + 1):
        with older_broker(steps) as broker:
            session.run(broker)
        for api_key, versions in check_requests(broker.requests, tails=session.tails).items():
            seen[api_key] |= versions

    assert session.versions.keys() <= seen.keys()
    pinned = {api_key: versions for api_key, versions in session.versions.items() if versions}
    assert not pinned or seen == pinned


@pytest.mark.parametrize(
    ("client", "values", "headers"),
    [
        pytest.param(confluent, VALUES, HEADERS, id="confluent"),
        pytest.param(kafka_python, VALUES, HEADERS, id="kafka-python"),
        pytest.param(aiokafka_client, VALUES, HEADERS, id="aiokafka"),
        pytest.param(kcat, kcat.LINES, kcat.HEADERS, id="kcat"),
    ],
)
def test_produced_batches_hold_what_was_produced(
    client: ModuleType, values: list[bytes], headers: list[tuple[str, bytes]]
) -> None:
    """With every codec, every kind of acknowledgement, and as an idempotent producer."""
    with FakeBroker() as broker:
        for codec in CODECS:
            client.produce(broker.address, codec=codec)
        for acks in (0, 1):
            client.produce(broker.address, acks=acks)
        client.produce(broker.address, idempotent=True)
        broker.wait_for(ApiKey.PRODUCE, count=len(CODECS) + 3)

    check_requests(broker.requests)
    records = list(produced_records(broker.requests))
    rounds = len(CODECS) + 3
    assert [record.value for record in records] == values * rounds
    assert {record.key for record in records} == {KEY}
    assert {record.headers for record in records} == {tuple(headers)}
    batches = produced_batches(broker)
    assert {batch.compression for batch in batches} == set(Compression)
    assert batches[0].producer_id is None
    assert batches[-1].producer_id is not None
    acks_seen = {request.expect(ProduceRequest).acks for request in broker.received(ApiKey.PRODUCE)}
    assert acks_seen == {-1, 0, 1}


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        pytest.param(client, assignor, id=f"{client.__name__.rpartition('.')[2]}-{assignor}")
        for client in (confluent, kafka_python, aiokafka_client)
        for assignor in client.ASSIGNORS
    ],
)
def test_group_blobs_are_read_exactly(client: ModuleType, assignor: str) -> None:
    with older_broker(0) as broker:
        broker.handle(ApiKey.HEARTBEAT, rebalance_until_finished(broker))
        client.join_group(broker.address, assignor=assignor, until=lambda: has_finished(broker))

    check_requests(broker.requests)
    joined = subscriptions(broker, assignor)
    held = [TopicPartition(topic=TOPIC, partitions=list(range(PARTITIONS)))]
    assert {tuple(subscription.topics) for subscription in joined} == {(TOPIC,)}
    assert assignments(broker)[-1].assigned_partitions == held
    if assignor == "cooperative-sticky":
        assert joined[-1].owned_partitions == held
    if assignor in STICKY_USER_DATA.get(client, ()):
        user_data = joined[-1].user_data
        assert user_data is not None
        sticky = decode_sticky_user_data(user_data)
        assert sticky.previous_assignment == held
        assert sticky.encode(1) == user_data


STICKY_USER_DATA = {confluent: {"cooperative-sticky"}, aiokafka_client: {"sticky"}}
"""Who sends the user data of the sticky assignor in Java's format. Kafka-python's sticky assignor
puts a version before it, which makes it unreadable for the other clients."""


@message(api_key=ApiKey.METADATA, versions=(0, 13), flexible_since=9)
class MetadataWithoutLastField(Request, kw_only=True):
    topics: list[MetadataRequestTopic] | None
    allow_auto_topic_creation: Bool


@message(api_key=ApiKey.METADATA, versions=(0, 13), flexible_since=9)
class MetadataWithWrongType(Request, kw_only=True):
    topics: list[MetadataRequestTopic] | None
    allow_auto_topic_creation: Int32
    include_topic_authorized_operations: Bool


class ForgetfulMetadata(MetadataRequest, kw_only=True):
    """It reads every field, and loses the value of one."""

    @classmethod
    def decoder(cls, version: int) -> Decoder:
        def decode(frame: Buffer, start: int, end: int) -> tuple[MetadataRequest, int]:
            body, position = MetadataRequest.decoder(version)(frame, start, end)
            return msgspec.structs.replace(body, topics=[]), position

        return decode


@pytest.mark.parametrize(
    ("mutant", "symptom"),
    [
        (MetadataWithoutLastField, "1 bytes are left over"),
        (MetadataWithWrongType, "cannot be decoded"),
        (ForgetfulMetadata, "differs from byte"),
    ],
)
def test_a_codec_that_reads_inexactly_is_noticed(
    monkeypatch: pytest.MonkeyPatch, mutant: type[Request], symptom: str
) -> None:
    with FakeBroker() as broker:
        confluent.produce(broker.address)
    request = broker.received(ApiKey.METADATA)[-1]
    assert request.api_version == 13
    assert request_problem(request.frame) is None

    monkeypatch.setitem(REQUESTS, ApiKey.METADATA, mutant)
    problem = request_problem(request.frame)
    assert problem is not None
    assert symptom in problem


def produced_batches(broker: FakeBroker) -> list[BatchHeader]:
    return [header for header, _ in iter_batches(b"".join(broker.topics.batches[TOPIC, 0]))]
