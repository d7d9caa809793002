"""Both clients over real sockets: requests find their brokers, in versions that both know."""

from collections.abc import Callable

import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.client import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Committed,
    ConnectError,
    Fetched,
    FetchLimits,
    NoCommonVersionError,
    OffsetAt,
    Produced,
    Retry,
    Subscription,
)
from kafka_wire.client.producer import State
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import (
    EndTxnRequest,
    FindCoordinatorResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka_wire.messages.find_coordinator import Coordinator
from kafka_wire.messages.produce import PartitionProduceResponse, TopicProduceResponse
from kafka_wire.schema import Response
from kafka_wire.types import Offset
from tests.support.fake_broker import (
    Answer,
    FakeBroker,
    Received,
    VersionRanges,
)
from tests.wire.client.both import Connect
from tests.wire.client.brokers import (
    TOPIC,
    TwoBrokers,
    two_brokers,
)
from tests.wire.client.script import EVENTS_0, EVENTS_1, records

BATCH = records(b"value").build()
NOW = FetchLimits(max_wait_ms=1)
RETRY = Retry(timeout_ms=5000, backoff_ms=1)


def test_what_is_produced_is_fetched(connect: Connect) -> None:
    with FakeBroker(topics={TOPIC: 2}) as broker:
        client = connect(broker.address)
        assert client.produce(EVENTS_0, BATCH).base_offset == 0
        outcomes = client.produce_all({EVENTS_0: BATCH, EVENTS_1: BATCH})
        assert {target: _produced(outcome).base_offset for target, outcome in outcomes.items()} == {
            EVENTS_0: 1,
            EVENTS_1: 0,
        }
        fetched = client.fetch({EVENTS_0: Offset(1)}, limits=NOW)[EVENTS_0]
        assert isinstance(fetched, Fetched)
        assert [(record.offset, record.value) for record in fetched.records()] == [(1, b"value")]
        assert (fetched.high_watermark, fetched.next_offset) == (2, 2)
        found = client.list_offsets({EVENTS_0: EARLIEST_OFFSET, EVENTS_1: LATEST_OFFSET})
        assert [_offset_at(outcome).offset for outcome in found.values()] == [0, 1]
        assert client.committed_offsets("group", [EVENTS_0]) == {EVENTS_0: None}
        client.commit_offsets("group", {EVENTS_0: Committed(offset=Offset(1))})


def test_a_batch_without_acks_is_written_and_not_waited_for(connect: Connect) -> None:
    with FakeBroker(topics={TOPIC: 2}) as broker:
        client = connect(broker.address)
        assert client.produce(EVENTS_0, BATCH, acks=0).base_offset is None
        assert client.produce(EVENTS_0, BATCH).base_offset == 1


def test_each_leader_gets_its_share(connect: Connect) -> None:
    with two_brokers({0: 0, 1: 1}) as cluster:
        client = connect(cluster.servers)
        client.produce_all({EVENTS_0: BATCH, EVENTS_1: BATCH})
        for node, partition in zip(cluster.nodes, (0, 1), strict=True):
            assert list(node.topics.batches) == [(TOPIC, partition)]


def test_a_batch_goes_to_the_new_leader(connect: Connect) -> None:
    with two_brokers({0: 0, 1: 0}) as cluster:
        client = connect(cluster.servers)
        producer = client.producer(retry=RETRY)
        producer.initialize()
        producer.append(EVENTS_0, records())
        cluster.elect({0: 1})
        cluster.nodes[0].handle(ApiKey.PRODUCE, _refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        producer.append(EVENTS_0, records())
        assert len(cluster.nodes[1].topics.batches[TOPIC, 0]) == 1
        assert client.cluster.leader(EVENTS_0) == (1, 2)


def test_the_next_call_after_a_refusal_goes_to_the_new_leader(connect: Connect) -> None:
    with two_brokers({0: 0, 1: 0}) as cluster:
        client = connect(cluster.servers)
        client.produce(EVENTS_0, BATCH)
        cluster.elect({0: 1})
        refusal = _refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        cluster.nodes[0].handle(ApiKey.PRODUCE, refusal)
        assert isinstance(client.produce_all({EVENTS_0: BATCH})[EVENTS_0], Exception)
        assert _produced(client.produce_all({EVENTS_0: BATCH})[EVENTS_0]).base_offset == 0


def test_a_leader_that_dies_is_replaced(connect: Connect) -> None:
    with two_brokers({0: 0, 1: 0}) as cluster:
        client = connect(cluster.servers)
        producer = client.producer(retry=RETRY)
        producer.initialize()
        producer.append(EVENTS_0, records())
        cluster.nodes[0].stop()
        cluster.elect({0: 1, 1: 1})
        producer.append(EVENTS_0, records())
        assert len(cluster.nodes[1].topics.batches[TOPIC, 0]) == 1


def test_offsets_follow_the_coordinator(connect: Connect) -> None:
    with two_brokers({0: 0, 1: 1}) as cluster:
        _coordinate(cluster, 0)
        client = connect(cluster.servers)
        offsets = {EVENTS_0: Committed(offset=Offset(1))}
        client.commit_offsets("group", offsets)
        _coordinate(cluster, 1)
        cluster.nodes[0].stop()
        client.commit_offsets("group", offsets, retry=RETRY)
        assert [len(node.received(ApiKey.OFFSET_COMMIT)) for node in cluster.nodes] == [1, 1]


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_a_transaction_speaks_the_versions_of_its_cluster(
    connect: Connect, transaction_version: int
) -> None:
    features = {"transaction.version": transaction_version}
    with FakeBroker(topics={TOPIC: 1}, features=features) as broker:
        client = connect(broker.address)
        producer = client.producer("tx", retry=RETRY)
        producer.initialize()
        for end in (producer.commit, producer.abort):
            producer.begin()
            producer.append(EVENTS_0, records())
            producer.commit_offsets("group", {EVENTS_0: Committed(offset=Offset(1))})
            end()
        assert producer.core.state is State.READY
        ends = broker.received(ApiKey.END_TXN)
        assert [end.expect(EndTxnRequest).committed for end in ends] == [True, False]
        assert {end.api_version for end in ends} == ({5} if transaction_version == 2 else {4})
        added = len(broker.received(ApiKey.ADD_PARTITIONS_TO_TXN))
        assert added == (0 if transaction_version == 2 else 2)
        written = {request.api_version for request in broker.received(ApiKey.PRODUCE)}
        assert written == ({13} if transaction_version == 2 else {11})


def test_a_member_joins_and_leaves(connect: Connect) -> None:
    with FakeBroker(topics={TOPIC: 2}) as broker:
        member = connect(broker.address).group_member("group", Subscription(topics=(TOPIC,)))
        change = member.heartbeat()
        assert change is not None
        assert change.assigned == {EVENTS_0, EVENTS_1}
        member.leave()


# ------------------------------------------------------------------------------------ versions


def test_an_old_broker_is_spoken_to_in_its_own_versions(connect: Connect) -> None:
    old: VersionRanges = {
        ApiKey.API_VERSIONS: (0, 2),
        ApiKey.METADATA: (0, 8),
        ApiKey.PRODUCE: (0, 8),
    }
    with FakeBroker(topics={TOPIC: 1}, api_versions=old) as broker:
        client = connect(broker.address)
        assert client.produce(EVENTS_0, BATCH).base_offset == 0
        assert [r.api_version for r in broker.received(ApiKey.API_VERSIONS)] == [4, 2]
        assert [r.api_version for r in broker.received(ApiKey.PRODUCE)] == [8]


def test_an_api_that_the_broker_lacks_is_named_and_the_others_work(connect: Connect) -> None:
    with FakeBroker(api_versions={ApiKey.LIST_GROUPS: None}) as broker:
        client = connect(broker.address)
        with pytest.raises(NoCommonVersionError, match="does not know ListGroupsRequest"):
            client.request(ListGroupsRequest(), ListGroupsResponse, retry=RETRY)
        client.refresh_metadata(())
        assert {request.connection for request in broker.requests} == {0}


def test_a_broker_that_refuses_to_negotiate_is_no_broker(connect: Connect) -> None:
    def refuse(_: Received) -> Answer:
        code = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED).to_bytes(2, "big")
        return bytes(4) + code + b"\1" + bytes(5)

    with FakeBroker(handlers={ApiKey.API_VERSIONS: refuse}) as bad, FakeBroker() as good:
        with pytest.raises(ConnectError, match="CLUSTER_AUTHORIZATION_FAILED"):
            connect(bad.address).refresh_metadata(())
        connect([bad.address, good.address]).refresh_metadata(())


def _produced(outcome: object) -> Produced:
    assert isinstance(outcome, Produced), outcome
    return outcome


def _offset_at(outcome: object) -> OffsetAt:
    assert isinstance(outcome, OffsetAt), outcome
    return outcome


def _refuse(code: ErrorCode) -> Callable[[Received], Response]:
    def answer(request: Received) -> Response:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(index=item.index, error_code=code, base_offset=-1)
                        for item in topic.partition_data
                    ],
                )
                for topic in request.expect(ProduceRequest).topic_data
            ]
        )

    return answer


def _coordinate(cluster: TwoBrokers, node_id: int) -> None:
    """Both brokers name this one as the coordinator of everything."""
    node = cluster.nodes[node_id]
    found = Coordinator(key="", node_id=node_id, host=node.host, port=node.port)
    for broker in cluster.nodes:
        broker.handle(
            ApiKey.FIND_COORDINATOR, lambda _: FindCoordinatorResponse(coordinators=[found])
        )
