"""What a client believes of the cluster: newer beats older, whoever says it (KIP-320)."""

import pytest

from kafka_wire.client import Address, TopicPartition, UnroutableError
from kafka_wire.client.cluster import Cluster, parse_bootstrap
from kafka_wire.error_codes import ErrorCode
from tests.wire.client.script import BROKERS, EVENTS_0, TOPIC, TOPIC_ID, metadata

OTHER_ID = b"another topic id"
NO_ID = bytes(16)


def test_a_stale_epoch_does_not_replace_a_newer_one() -> None:
    cluster = _cluster(epoch=5, leader=0)
    cluster.update(metadata({0: 1}, epoch=4))
    assert cluster.leader(EVENTS_0) == (0, 5)
    cluster.update(metadata({0: 1}, epoch=6))
    assert cluster.leader(EVENTS_0) == (1, 6)


def test_a_stale_epoch_does_not_come_in_after_an_error() -> None:
    cluster = _cluster(epoch=5, leader=0)
    cluster.update(metadata({}, error_code=ErrorCode.LEADER_NOT_AVAILABLE))
    with pytest.raises(UnroutableError):
        cluster.leader(EVENTS_0)
    cluster.update(metadata({0: 1}, epoch=4))
    assert cluster.leader(EVENTS_0) == (0, 5)


def test_a_topic_made_anew_begins_with_a_low_epoch() -> None:
    cluster = _cluster(epoch=5, leader=0)
    cluster.update(metadata({0: 1}, epoch=0, topic_id=OTHER_ID))
    assert cluster.leader(EVENTS_0) == (1, 0)
    assert cluster.topic_id(TOPIC) == OTHER_ID
    assert cluster.topic_name(OTHER_ID) == TOPIC
    assert cluster.topic_name(TOPIC_ID) is None


def test_a_topic_made_anew_after_an_error_begins_with_a_low_epoch() -> None:
    cluster = _cluster(epoch=5, leader=0)
    cluster.update(metadata({}, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    cluster.update(metadata({0: 1}, epoch=0, topic_id=OTHER_ID))
    assert cluster.leader(EVENTS_0) == (1, 0)


def test_an_old_broker_without_topic_ids_does_not_bring_back_a_stale_epoch() -> None:
    cluster = _cluster(epoch=5, leader=0)
    cluster.update(metadata({0: 1}, epoch=4, topic_id=NO_ID))
    assert cluster.leader(EVENTS_0) == (0, 5)
    assert cluster.topic_id(TOPIC) == TOPIC_ID
    assert cluster.topic_name(TOPIC_ID) == TOPIC


def test_without_topic_ids_a_deleted_topic_begins_anew() -> None:
    cluster = Cluster([])
    cluster.update(metadata({0: 0}, epoch=5, topic_id=NO_ID))
    cluster.update(metadata({}, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic_id=NO_ID))
    cluster.update(metadata({0: 1}, epoch=0, topic_id=NO_ID))
    assert cluster.leader(EVENTS_0) == (1, 0)


def test_an_answer_from_before_partitions_were_added_does_not_take_them_away() -> None:
    cluster = Cluster([])
    cluster.update(metadata({0: 0, 1: 1}))
    cluster.update(metadata({0: 0}))
    assert cluster.leader(TopicPartition(TOPIC, 1)) == (1, 5)


def test_the_same_epoch_may_lose_its_leader() -> None:
    cluster = _cluster(epoch=5, leader=0)
    cluster.update(metadata({0: -1}, epoch=5))
    with pytest.raises(UnroutableError) as caught:
        cluster.leader(EVENTS_0)
    assert caught.value.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_leader_that_is_no_broker_is_none() -> None:
    cluster = _cluster(epoch=5, leader=0)
    cluster.update(metadata({0: 0}, brokers={1: BROKERS[1]}))
    with pytest.raises(UnroutableError) as caught:
        cluster.leader(EVENTS_0)
    assert caught.value.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_partition_that_does_not_exist_is_unknown() -> None:
    with pytest.raises(UnroutableError, match="has 1 partitions, not events-7") as caught:
        _cluster(epoch=5, leader=0).leader(TopicPartition(TOPIC, 7))
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_did_not_answer_is_asked_last() -> None:
    first, second, third = Address("a", 1), Address("b", 1), Address("c", 1)
    cluster = Cluster([first, second, third])
    cluster.mark_unreachable(first)
    cluster.mark_unreachable(second)
    assert cluster.addresses() == [third, first, second]
    cluster.mark_unreachable(third)
    assert cluster.addresses() == [first, second, third]
    cluster.mark_reachable(second)
    assert cluster.addresses() == [second, first, third]


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost", [Address("localhost", 9092)]),
        ("a:1,b:2", [Address("a", 1), Address("b", 2)]),
        (" a:1 , b:2 ,", [Address("a", 1), Address("b", 2)]),
        (["a:1", "b"], [Address("a", 1), Address("b", 9092)]),
        ("127.0.0.1:9093", [Address("127.0.0.1", 9093)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[::1]", [Address("::1", 9092)]),
        ("::1", [Address("::1", 9092)]),
        ("fe80::1%eth0", [Address("fe80::1%eth0", 9092)]),
    ],
)
def test_bootstrap_servers_are_hosts_and_ports(
    text: str | list[str], addresses: list[Address]
) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize(
    "text",
    ["", " , ", "a:", ":9092", "a:0", "a:65536", "a:b", "a:-1", "PLAINTEXT://a:9092", "a:1:2"],
)
def test_what_is_no_address_is_refused_with_an_explanation(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(text)


def test_addresses_read_as_they_are_written() -> None:
    assert [str(Address("::1", 1)), str(Address("a", 2))] == ["[::1]:1", "a:2"]


def test_mutant_a_stale_epoch_that_is_accepted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_wire.client.cluster._newer", lambda _, new: new)
    with pytest.raises(AssertionError):
        test_a_stale_epoch_does_not_replace_a_newer_one()
    with pytest.raises(AssertionError):
        test_a_stale_epoch_does_not_come_in_after_an_error()


def _cluster(*, epoch: int, leader: int) -> Cluster:
    cluster = Cluster([])
    cluster.update(metadata({0: leader}, epoch=epoch))
    return cluster
