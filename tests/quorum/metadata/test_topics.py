"""Topics are created, deleted and grown, or refused with a reason and without a change."""

import dataclasses

import pytest

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    PartitionsCreated,
    TopicReference,
    TopicsCreated,
    TopicsDeleted,
)
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.types import TopicId
from tests.quorum.metadata.cluster import CLUSTER_ID, Cluster, code_of, identity

TOPIC = NewTopic(name="t", topic_id=TopicId(identity(5)))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(
        settings=ControllerSettings(
            cluster_id=CLUSTER_ID, max_partitions_per_topic=100, max_partitions=150
        )
    )
    cluster.start(1, 2, 3, 4)
    return cluster


def test_topic_by_default_has_one_partition_and_three_replicas(cluster: Cluster) -> None:
    created = cluster.create_topic(TOPIC)
    assert (created.partitions, created.replication_factor) == (1, 3)
    partition = cluster.partition("t")
    assert partition.isr == partition.replicas
    assert partition.leader == partition.replicas[0]
    assert partition.effective_min_isr == 2


def test_defaults_come_from_the_cluster_config(cluster: Cluster) -> None:
    cluster.configure("num.partitions", "6")
    cluster.configure("default.replication.factor", "2")
    created = cluster.create_topic(TOPIC)
    assert (created.partitions, created.replication_factor) == (6, 2)
    assert cluster.partition("t").effective_min_isr == 1


def test_small_cluster_has_as_many_replicas_as_brokers() -> None:
    cluster = Cluster()
    cluster.start(1, 2)
    assert cluster.create_topic(TOPIC).replication_factor == 2


def test_fenced_brokers_take_replicas_but_are_not_in_sync(cluster: Cluster) -> None:
    cluster.lose(4)
    cluster.create_topic(dataclasses.replace(TOPIC, partitions=1, replication_factor=4))
    partition = cluster.partition("t")
    assert sorted(partition.replicas) == [1, 2, 3, 4]
    assert sorted(partition.isr) == [1, 2, 3]
    assert partition.leader in partition.isr


def test_manual_assignment_is_taken_as_it_is(cluster: Cluster) -> None:
    cluster.create("t", (3, 1), (2, 4))
    assert cluster.partition("t", 0).replicas == (3, 1)
    assert cluster.partition("t", 1).leader == 2


@pytest.mark.parametrize(
    "assignments",
    [((),), ((1, 1),), ((1, 99),), ((1, 2), (3,))],
    ids=["empty", "twice", "unknown", "uneven"],
)
def test_impossible_assignment_is_refused(
    cluster: Cluster, assignments: tuple[tuple[int, ...], ...]
) -> None:
    image = cluster.image
    created = cluster.create_topic(dataclasses.replace(TOPIC, assignments=assignments))
    assert code_of(created.error) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.image is image


def test_assignment_to_dead_brokers_alone_is_refused(cluster: Cluster) -> None:
    cluster.lose(4)
    created = cluster.create_topic(dataclasses.replace(TOPIC, assignments=((4,),)))
    assert code_of(created.error) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a/b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "ä"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a\n"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "old_topic"}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"name": "old.topic"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"topic_id": TopicId(b"short")}, ErrorCode.INVALID_REQUEST),
        ({"topic_id": TopicId(bytes(16))}, ErrorCode.INVALID_REQUEST),
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": -1}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": 101}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 5}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"partitions": 1, "assignments": ((1,),)}, ErrorCode.INVALID_REQUEST),
        ({"configs": (("retention.msec", "1"),)}, ErrorCode.INVALID_CONFIG),
        ({"configs": (("retention.ms", "soon"),)}, ErrorCode.INVALID_CONFIG),
        ({"configs": (("min.insync.replicas", "0"),)}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_bad_topic_is_refused_and_nothing_changes(
    cluster: Cluster, changes: dict[str, object], code: ErrorCode
) -> None:
    cluster.create("old_topic", (1,))
    image = cluster.image
    created = cluster.create_topic(dataclasses.replace(TOPIC, **changes))  # type: ignore[arg-type]
    assert code_of(created.error) is code
    assert created.error is not None
    assert created.error.message
    assert cluster.image is image


def test_longest_name_with_all_characters_is_taken(cluster: Cluster) -> None:
    name = "aZ09._-".ljust(249, "x")
    assert cluster.create_topic(dataclasses.replace(TOPIC, name=name)).error is None


def test_one_bad_topic_does_not_stop_the_others(cluster: Cluster) -> None:
    names = ("good", "bad/", "good", "go.od", "go_od", "fine")
    answer = cluster.submit(
        CreateTopics(
            topics=tuple(
                NewTopic(name=name, topic_id=TopicId(identity(8, number)))
                for number, name in enumerate(names)
            ),
            seed=1,
        )
    )
    assert isinstance(answer, TopicsCreated)
    assert [code_of(topic.error) for topic in answer.topics] == [
        None,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        None,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        None,
    ]
    assert sorted(cluster.image.topic_ids) == ["fine", "go.od", "good"]


def test_validate_only_changes_nothing(cluster: Cluster) -> None:
    image = cluster.image
    answer = cluster.submit(CreateTopics(topics=(TOPIC,), seed=1, validate_only=True))
    assert isinstance(answer, TopicsCreated)
    assert answer.topics[0].error is None
    assert cluster.image is image


def test_cluster_has_a_limit_of_partitions(cluster: Cluster) -> None:
    cluster.create_topic(dataclasses.replace(TOPIC, partitions=100))
    other = NewTopic(name="u", topic_id=TopicId(identity(6)), partitions=51)
    assert code_of(cluster.create_topic(other).error) is ErrorCode.INVALID_PARTITIONS
    assert cluster.create_topic(dataclasses.replace(other, partitions=50)).error is None
    assert cluster.image.index.count == 150


def test_request_for_too_many_partitions_is_refused_as_a_whole() -> None:
    cluster = Cluster()
    cluster.start(1)
    topics = tuple(
        NewTopic(name=f"t{n}", topic_id=TopicId(identity(5, n)), partitions=101) for n in range(100)
    )
    assert cluster.refused(CreateTopics(topics=topics, seed=1)) is ErrorCode.POLICY_VIOLATION


def test_oversized_command_is_refused() -> None:
    cluster = Cluster()
    cluster.start(1)
    configs = tuple((f"flush.m{'s' if n else 'essages'}", "1" * 32_000) for n in range(2))
    topics = tuple(
        NewTopic(name=f"t{n}", topic_id=TopicId(identity(5, n)), configs=configs) for n in range(20)
    )
    assert cluster.refused(CreateTopics(topics=topics, seed=1)) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_deleted_topic_takes_its_configs_and_frees_its_name(cluster: Cluster) -> None:
    topic_id = cluster.create("a.b", (1, 2), configs=(("retention.ms", "1"),))
    answer = cluster.submit(DeleteTopics(topics=(TopicReference(topic_id=topic_id),)))
    assert isinstance(answer, TopicsDeleted)
    assert answer.topics[0].name == "a.b"
    assert not cluster.image.topics
    assert not cluster.image.configs
    assert cluster.image.index.count == 0
    cluster.create("a_b", (1, 2))


def test_unknown_topics_are_not_deleted(cluster: Cluster) -> None:
    cluster.create("t", (1,))
    references = (
        TopicReference(name="u"),
        TopicReference(topic_id=TopicId(identity(99))),
        TopicReference(),
        TopicReference(name="t"),
        TopicReference(name="t"),
    )
    answer = cluster.submit(DeleteTopics(topics=references))
    assert isinstance(answer, TopicsDeleted)
    assert [code_of(topic.error) for topic in answer.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        None,
        ErrorCode.INVALID_REQUEST,
    ]


def more(cluster: Cluster, wanted: MorePartitions) -> ErrorCode | None:
    answer = cluster.submit(CreatePartitions(topics=(wanted,), seed=3))
    assert isinstance(answer, PartitionsCreated)
    return code_of(answer.topics[0].error)


def test_topic_grows_with_the_replication_factor_that_it_has(cluster: Cluster) -> None:
    cluster.create("t", (1, 2))
    assert more(cluster, MorePartitions(name="t", count=3)) is None
    assert more(cluster, MorePartitions(name="t", count=4, assignments=((4, 3),))) is None
    topic = cluster.image.topic("t")
    assert topic is not None
    assert [len(topic.partitions[number].replicas) for number in range(4)] == [2, 2, 2, 2]
    assert topic.partitions[3].replicas == (4, 3)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (MorePartitions(name="u", count=3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MorePartitions(name="t", count=2), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions(name="t", count=1), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions(name="t", count=101), ErrorCode.INVALID_PARTITIONS),
        (
            MorePartitions(name="t", count=3, assignments=((1, 2), (1, 2))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            MorePartitions(name="t", count=3, assignments=((1,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_impossible_growth_is_refused(
    cluster: Cluster, wanted: MorePartitions, code: ErrorCode
) -> None:
    cluster.create("t", (1, 2), (2, 1))
    image = cluster.image
    assert more(cluster, wanted) is code
    assert cluster.image is image
