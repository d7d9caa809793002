"""Both clients against brokers that we did not write: Apache Kafka, and librdkafka's mock cluster.

Apache Kafka is the judge of what the clients' cores assume of a broker; librdkafka's cluster has
three brokers, so that requests have to be routed.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import TypeVar

import confluent_kafka
import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.client import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    MAX_TIMESTAMP_OFFSET,
    Client,
    Committed,
    Fetched,
    FetchLimits,
    IsolationLevel,
    OffsetAt,
    Produced,
    Retry,
    Subscription,
    TopicPartition,
    maybe_applied,
)
from kafka_wire.client.connection import ConnectionCore
from kafka_wire.client.producer import State
from kafka_wire.compression import Compression
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka_wire.messages.create_topics import CreatableTopic
from kafka_wire.messages.delete_topics import DeleteTopicState
from kafka_wire.records import BatchBuilder, ProducerStamp
from kafka_wire.schema import Request
from kafka_wire.types import FIRST_OFFSET, Offset, Sequence
from tests.support.apache_kafka import ApacheKafka
from tests.wire.client.both import Connect, connecting

pytestmark = pytest.mark.live

T = TypeVar("T")

RETRY = Retry(timeout_ms=20_000, backoff_ms=10, max_backoff_ms=100)
WAIT_S = 20.0
POLL_S = 0.01
LIMITS = FetchLimits(max_wait_ms=100)
COMMITTED = IsolationLevel.READ_COMMITTED


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    with connecting(request.param) as connect:
        yield connect


@pytest.fixture(params=["blocking", "asyncio"])
def connect_to_mock(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """The mock cluster lives in this process, and has sockets of its own."""
    with connecting(request.param, only_we_have_sockets=False) as connect:
        yield connect


@pytest.fixture
def client(connect: Connect, apache_kafka: ApacheKafka) -> Client:
    return connect(apache_kafka.address)


# -------------------------------------------------------------------------- produce and fetch


def test_every_codec_is_produced_and_read_back(client: Client) -> None:
    topic = _new_topic(client, partitions=1)[0]
    for number, compression in enumerate(Compression):
        builder = BatchBuilder(compression=compression)
        for part in range(3):
            value = b"%d" % part * 100
            headers = (("codec", compression.name.encode()),)
            builder.append(key=b"key", value=value, timestamp_ms=1000 + part, headers=headers)
        assert client.produce(topic, builder.build()).base_offset == 3 * number
    fetched = _fetch(client, topic)
    read = list(fetched.records())
    assert [record.offset for record in read] == list(range(3 * len(Compression)))
    assert [record.value for record in read[:3]] == [b"0" * 100, b"1" * 100, b"2" * 100]
    assert [record.headers[0][1] for record in read[::3]] == [c.name.encode() for c in Compression]
    assert fetched.high_watermark == fetched.last_stable_offset == fetched.next_offset == len(read)
    assert fetched.leader_epoch == client.cluster.leader(topic)[1] is not None


def test_batches_are_produced_and_fetched_by_topic_id(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions: dict[int, int] = {}
    choose = ConnectionCore.choose_version

    def spy(self: ConnectionCore, request: Request, first: int, last: int) -> int:
        versions[request.api_key] = version = choose(self, request, first, last)
        return version

    monkeypatch.setattr(ConnectionCore, "choose_version", spy)
    topic = _new_topic(client, partitions=1)[0]
    client.produce(topic, _batch("a"), retry=RETRY)
    assert _values(_fetch(client, topic)) == ["a"]
    assert versions[ApiKey.PRODUCE] >= 13
    assert versions[ApiKey.FETCH] >= 13


def test_offsets_are_found_by_time_and_at_both_ends(client: Client) -> None:
    topic, empty = _new_topic(client, partitions=2)
    for timestamp_ms in (1000, 3000, 2000):
        client.produce(topic, _batch("x", timestamp_ms=timestamp_ms), retry=RETRY)
    asked = {
        EARLIEST_OFFSET: (0, None),
        LATEST_OFFSET: (3, None),
        MAX_TIMESTAMP_OFFSET: (1, 3000),
        1500: (1, 3000),
        9999: (None, None),
    }
    for timestamp_ms, expected in asked.items():
        found = client.list_offsets({topic: timestamp_ms})[topic]
        assert isinstance(found, OffsetAt)
        assert (found.offset, found.timestamp_ms) == expected
    found = client.list_offsets({empty: LATEST_OFFSET})[empty]
    assert isinstance(found, OffsetAt)
    assert found.offset == 0


def test_what_does_not_exist_is_unknown(client: Client) -> None:
    (topic,) = _new_topic(client, partitions=1)
    beyond = TopicPartition(topic.topic, 7)
    missing = TopicPartition("does-not-exist", 0)
    outcomes = client.fetch({beyond: Offset(0), missing: Offset(0)}, limits=LIMITS)
    for outcome in outcomes.values():
        assert isinstance(outcome, KafkaError)
        assert outcome.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as caught:
        client.produce(beyond, _batch("x"))
    assert not maybe_applied(caught.value)


def test_an_offset_out_of_range_is_told(client: Client) -> None:
    (topic,) = _new_topic(client, partitions=1)
    outcome = _until(
        lambda: client.fetch({topic: Offset(5)}, limits=LIMITS)[topic],
        lambda outcome: _code(outcome) == ErrorCode.OFFSET_OUT_OF_RANGE,
    )
    assert isinstance(outcome, KafkaError)


def test_a_topic_made_anew_is_written_to(client: Client) -> None:
    """The client's id and epochs are those of the topic that was deleted."""
    (topic,) = _new_topic(client, partitions=1)
    client.produce(topic, _batch("old"), retry=RETRY)
    old_id = client.cluster.topic_id(topic.topic)
    gone = DeleteTopicState(name=None, topic_id=old_id)
    client.request(DeleteTopicsRequest(topics=[gone], timeout_ms=5000), DeleteTopicsResponse)
    _create(client, topic.topic, partitions=1)
    retry = Retry(timeout_ms=20_000, backoff_ms=10, repeat_unknown=True)
    assert client.produce(topic, _batch("new"), retry=retry).base_offset == 0
    assert client.cluster.topic_id(topic.topic) != old_id
    assert _values(_fetch(client, topic)) == ["new"]


# --------------------------------------------------------------- idempotence and transactions


def test_a_batch_that_is_sent_twice_is_written_once(client: Client) -> None:
    (topic,) = _new_topic(client, partitions=1)
    producer = client.producer(retry=RETRY)
    producer.initialize()
    assert producer.append(topic, _builder("a")).base_offset == 0
    identity = producer.core.identity
    assert identity is not None
    stamp = ProducerStamp(
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=Sequence(1),
    )
    batch = _builder("b", "c").build(producer=stamp)
    assert [client.produce(topic, batch).base_offset for _ in range(3)] == [1, 1, 1]
    producer.core._sequences[topic] = 9
    with pytest.raises(KafkaError) as caught:
        producer.append(topic, _builder("d"))
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.core.state is State.DOUBTFUL
    producer.initialize()
    assert producer.append(topic, _builder("e")).base_offset == 3
    assert _values(_fetch(client, topic)) == ["a", "b", "c", "e"]


def test_committed_transactions_are_seen_and_aborted_ones_are_not(client: Client) -> None:
    first, second = _new_topic(client, partitions=2)
    producer = client.producer(_name(), retry=RETRY)
    producer.initialize()
    epochs = []
    for number, end in enumerate((producer.commit, producer.abort, producer.commit)):
        producer.begin()
        assert producer.core.identity is not None
        epochs.append(producer.core.identity.producer_epoch)
        producer.append(first, _builder(f"{number}a"))
        producer.append(second, _builder(f"{number}b"))
        producer.append(first, _builder(f"{number}c"))
        end()
    assert epochs == [0, 1, 2], "with transaction.version 2 each transaction has its epoch"
    assert _read_committed(client, first) == ["0a", "0c", "2a", "2c"]
    assert _read_committed(client, second) == ["0b", "2b"]
    assert _read(client, second) == ["0b", "1b", "2b"]


def test_an_open_transaction_holds_the_last_stable_offset(client: Client) -> None:
    (topic,) = _new_topic(client, partitions=1)
    client.produce(topic, _batch("before"), retry=RETRY)
    producer = client.producer(_name(), retry=RETRY)
    producer.initialize()
    producer.begin()
    producer.append(topic, _builder("open"))
    client.produce(topic, _batch("after"))
    fetched = _fetch(client, topic, isolation_level=COMMITTED)
    assert _values(fetched) == ["before"]
    assert (fetched.last_stable_offset, fetched.high_watermark) == (1, 3)
    producer.abort()
    assert _read_committed(client, topic) == ["before", "after"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(client: Client) -> None:
    (topic,) = _new_topic(client, partitions=1)
    group = _name()
    producer = client.producer(_name(), retry=RETRY)
    producer.initialize()
    for offset, end in ((5, producer.commit), (9, producer.abort)):
        producer.begin()
        producer.commit_offsets(group, {topic: Committed(offset=Offset(offset), metadata="m")})
        end()
        found = client.committed_offsets(group, [topic], retry=RETRY)
        assert found == {topic: Committed(offset=Offset(5), metadata="m")}


def test_a_new_owner_of_the_transactional_id_fences_the_old_one(client: Client) -> None:
    (topic,) = _new_topic(client, partitions=1)
    transactional_id = _name()
    old, new = (client.producer(transactional_id, retry=RETRY) for _ in range(2))
    old.initialize()
    old.begin()
    old.append(topic, _builder("old"))
    new.initialize()
    with pytest.raises(KafkaError):
        old.commit()
    assert old.core.state is State.FENCED
    new.begin()
    new.append(topic, _builder("new"))
    new.commit()
    assert _read_committed(client, topic) == ["new"]


def test_a_transaction_whose_write_was_refused_is_aborted(client: Client) -> None:
    """The coordinator has not heard of the transaction yet, and aborts it all the same."""
    (topic,) = _new_topic(client, partitions=1)
    producer = client.producer(_name(), retry=Retry(timeout_ms=500, backoff_ms=100))
    producer.initialize()
    producer.begin()
    with pytest.raises(KafkaError):
        producer.append(TopicPartition(topic.topic, 7), _builder("x"))
    producer.abort()
    producer.begin()
    producer.append(topic, _builder("y"))
    producer.commit()
    assert _read_committed(client, topic) == ["y"]


# -------------------------------------------------------------------------------------- groups


def test_committed_offsets_are_found_again(client: Client) -> None:
    first, second = _new_topic(client, partitions=2)
    group = _name()
    assert client.committed_offsets(group, [first], retry=RETRY) == {first: None}
    committed = Committed(offset=Offset(3), metadata="note")
    client.commit_offsets(group, {first: committed}, retry=RETRY)
    found = client.committed_offsets(group, [first, second])
    assert found == {first: committed, second: None}


def test_members_hand_partitions_over(client: Client) -> None:
    partitions = set(_new_topic(client, partitions=4))
    subscription = Subscription(topics=(next(iter(partitions)).topic,))
    group = _name()
    first = client.group_member(group, subscription, retry=RETRY)
    second = client.group_member(group, subscription, retry=RETRY)

    _until(lambda: first.heartbeat(force=True), lambda _: first.core.owned == partitions)
    client.commit_offsets(
        group,
        {target: Committed(offset=Offset(1)) for target in partitions},
        member=first.core.membership,
        retry=RETRY,
    )
    assert second.heartbeat() is None, "nothing is free yet"
    change = _until(lambda: first.heartbeat(force=True), lambda change: change is not None)
    assert change is not None
    assert len(change.revoked) == 2
    second.heartbeat(force=True)
    assert not second.core.owned & first.core.owned
    assert not second.core.owned, "the first member has not confirmed what it let go"

    def beat() -> None:
        first.heartbeat(force=True)
        second.heartbeat(force=True)
        assert not first.core.owned & second.core.owned

    _until(beat, lambda _: first.core.owned | second.core.owned == partitions)
    assert second.core.owned == change.revoked

    first.leave()
    _until(lambda: second.heartbeat(force=True), lambda _: second.core.owned == partitions)
    with pytest.raises(KafkaError) as caught:
        client.commit_offsets(
            group, {min(partitions): Committed(offset=Offset(2))}, member=first.core.membership
        )
    assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    second.leave()


def test_a_static_member_comes_back_to_its_partitions(client: Client) -> None:
    partitions = set(_new_topic(client, partitions=2))
    subscription = Subscription(topics=(next(iter(partitions)).topic,), instance_id="static")
    group = _name()
    for _ in range(2):
        member = client.group_member(group, subscription, retry=RETRY)
        _until(
            lambda member=member: member.heartbeat(force=True),  # type: ignore[misc]
            lambda _, member=member: member.core.owned == partitions,  # type: ignore[misc]
        )
        member.leave()


def test_a_pattern_is_matched_by_the_broker(client: Client) -> None:
    (topic,) = _new_topic(client, partitions=1)
    pattern = Subscription(topic_pattern=topic.topic[:-1] + ".")
    member = client.group_member(_name(), pattern, retry=RETRY)
    _until(lambda: member.heartbeat(force=True), lambda _: member.core.owned == {topic})
    member.leave()


# -------------------------------------------------------------------- librdkafka's mock cluster


def test_requests_are_routed_over_three_brokers(connect_to_mock: Connect) -> None:
    mock = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3})
    brokers = mock.list_topics(timeout=WAIT_S).brokers.values()
    client = connect_to_mock([f"{broker.host}:{broker.port}" for broker in brokers])
    topic = _name()
    client.produce(TopicPartition(topic, 0), _batch("0"), retry=RETRY)
    partitions = [TopicPartition(topic, p) for p in client.cluster.topic(topic).partitions]
    assert len({client.cluster.leader(target)[0] for target in partitions}) > 1
    outcomes = client.produce_all({target: _batch(str(target)) for target in partitions[1:]})
    assert all(isinstance(outcome, Produced) for outcome in outcomes.values())
    fetched = client.fetch(dict.fromkeys(partitions, Offset(0)), limits=LIMITS)
    values = {}
    for target, outcome in fetched.items():
        assert isinstance(outcome, Fetched)
        values[target] = _values(outcome)
    assert values == {target: [str(target)] for target in partitions[1:]} | {partitions[0]: ["0"]}

    producer = client.producer(_name(), retry=RETRY)
    producer.initialize()
    producer.begin()
    for target in partitions:
        producer.append(target, _builder("transaction"))
    producer.commit_offsets("group", {partitions[0]: Committed(offset=Offset(1))})
    producer.commit()
    assert producer.core.state is State.READY


# ------------------------------------------------------------------------------------- helpers


def _name() -> str:
    return f"live-{uuid.uuid4().hex}"


def _new_topic(client: Client, *, partitions: int) -> list[TopicPartition]:
    """The partitions of a new topic, once they have leaders."""
    return _create(client, _name(), partitions=partitions)


def _create(client: Client, name: str, *, partitions: int) -> list[TopicPartition]:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    (result,) = client.request(request, CreateTopicsResponse).topics
    assert result.error_code == ErrorCode.NONE, result
    targets = [TopicPartition(name, partition) for partition in range(partitions)]
    _until(
        lambda: client.list_offsets(dict.fromkeys(targets, LATEST_OFFSET)),
        lambda found: all(isinstance(outcome, OffsetAt) for outcome in found.values()),
    )
    return targets


def _builder(*values: str, timestamp_ms: int = 1000) -> BatchBuilder:
    builder = BatchBuilder()
    for value in values:
        builder.append(key=None, value=value.encode(), timestamp_ms=timestamp_ms)
    return builder


def _batch(*values: str, timestamp_ms: int = 1000) -> bytes:
    return _builder(*values, timestamp_ms=timestamp_ms).build()


def _fetch(
    client: Client,
    target: TopicPartition,
    *,
    offset: Offset = FIRST_OFFSET,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Fetched:
    outcome = _until(
        lambda: client.fetch({target: offset}, limits=LIMITS, isolation_level=isolation_level),
        lambda outcomes: isinstance(outcomes[target], Fetched),
    )[target]
    assert isinstance(outcome, Fetched)
    return outcome


def _read_committed(client: Client, target: TopicPartition) -> list[str]:
    """All that is committed, once the markers of all transactions are written."""
    _until(
        lambda: _fetch(client, target, isolation_level=COMMITTED),
        lambda fetched: fetched.last_stable_offset == fetched.high_watermark,
    )
    return _read(client, target, isolation_level=COMMITTED)


def _read(
    client: Client,
    target: TopicPartition,
    *,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> list[str]:
    """A whole partition: a fetch ends where a segment does, if not before."""
    values: list[str] = []
    offset = Offset(0)
    while True:
        fetched = _fetch(client, target, offset=offset, isolation_level=isolation_level)
        values += _values(fetched)
        offset = fetched.next_offset
        if offset == fetched.high_watermark:
            return values


def _values(fetched: Fetched) -> list[str]:
    return [(record.value or b"").decode() for record in fetched.records()]


def _code(outcome: object) -> ErrorCode | None:
    return outcome.code if isinstance(outcome, KafkaError) else None


def _until(attempt: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """The first result for which the condition holds."""
    deadline = time.monotonic() + WAIT_S
    while True:
        result = attempt()
        if holds(result):
            return result
        assert time.monotonic() < deadline, f"it does not hold for {result!r}"
        time.sleep(POLL_S)
