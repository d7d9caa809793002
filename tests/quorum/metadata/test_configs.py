"""Configs are checked by type and range, and reach the partitions that they concern."""

import pytest

from floodmark.config import settings_of
from kafka_wire.error_codes import ErrorCode
from log.config import LogConfig
from quorum.metadata.commands import (
    ConfigChange,
    ConfigsAltered,
    IncrementalAlterConfigs,
    Refused,
    ResourceChange,
)
from quorum.metadata.config_keys import known_keys
from quorum.metadata.types import CLUSTER_DEFAULT, ConfigOperation, ConfigResource, ResourceType
from tests.quorum.metadata.cluster import Cluster, code_of

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER_1 = ConfigResource(ResourceType.BROKER, "1")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2, 3), (1, 2, 3))
    cluster.create("u", (1, 2, 3))
    return cluster


def alter(
    cluster: Cluster,
    resource: ConfigResource,
    *changes: tuple[str, ConfigOperation, str | None],
    validate_only: bool = False,
) -> Refused | None:
    answer = cluster.submit(
        IncrementalAlterConfigs(
            resources=(
                ResourceChange(
                    resource=resource,
                    changes=tuple(
                        ConfigChange(key=key, operation=operation, value=value)
                        for key, operation, value in changes
                    ),
                ),
            ),
            validate_only=validate_only,
        )
    )
    assert isinstance(answer, ConfigsAltered)
    return answer.resources[0].error


def test_set_append_subtract_and_delete(cluster: Cluster) -> None:
    key = "cleanup.policy"
    steps: list[tuple[ConfigOperation, str | None, str | None]] = [
        (ConfigOperation.SET, "compact", "compact"),
        (ConfigOperation.APPEND, "delete", "compact,delete"),
        (ConfigOperation.APPEND, "delete", "compact,delete"),
        (ConfigOperation.SUBTRACT, "compact", "delete"),
        (ConfigOperation.DELETE, None, None),
        (ConfigOperation.DELETE, None, None),
    ]
    for operation, value, expected in steps:
        assert alter(cluster, TOPIC, (key, operation, value)) is None
        assert cluster.image.config(TOPIC).get(key) == expected
    assert TOPIC not in cluster.image.configs


def test_every_setting_of_a_log_can_be_set_for_topics_or_for_the_cluster() -> None:
    names = {described.name for described in settings_of(LogConfig).values()}
    cluster_wide = {"log.flush.mode", "producer.id.expiration.ms"}
    assert names - cluster_wide <= set(known_keys(of_topic=True))
    assert not cluster_wide & set(known_keys(of_topic=True))
    assert cluster_wide <= set(known_keys(of_topic=False))


SET = ConfigOperation.SET


@pytest.mark.parametrize(
    ("resource", "key", "value", "code"),
    [
        (TOPIC, "retention.msec", "1", ErrorCode.INVALID_CONFIG),
        (TOPIC, "retention.ms", "-2", ErrorCode.INVALID_CONFIG),
        (TOPIC, "retention.ms", "1.5", ErrorCode.INVALID_CONFIG),
        (TOPIC, "retention.ms", "", ErrorCode.INVALID_CONFIG),
        (TOPIC, "retention.ms", "9" * 30, ErrorCode.INVALID_CONFIG),
        (TOPIC, "retention.ms", "\u0661", ErrorCode.INVALID_CONFIG),
        (TOPIC, "retention.ms", None, ErrorCode.INVALID_CONFIG),
        (TOPIC, "segment.bytes", "13", ErrorCode.INVALID_CONFIG),
        (TOPIC, "segment.bytes", str(2**31), ErrorCode.INVALID_CONFIG),
        (TOPIC, "min.cleanable.dirty.ratio", "nan", ErrorCode.INVALID_CONFIG),
        (TOPIC, "min.cleanable.dirty.ratio", "1.1", ErrorCode.INVALID_CONFIG),
        (TOPIC, "cleanup.policy", "shred", ErrorCode.INVALID_CONFIG),
        (TOPIC, "message.timestamp.type", "Now", ErrorCode.INVALID_CONFIG),
        (TOPIC, "unclean.leader.election.enable", "yes", ErrorCode.INVALID_CONFIG),
        (TOPIC, "compression.type", "x" * 40_000, ErrorCode.INVALID_CONFIG),
        (TOPIC, "log.flush.mode", "os", ErrorCode.INVALID_CONFIG),
        (BROKER_1, "log.flush.mode", "os", ErrorCode.INVALID_CONFIG),
        (BROKER_1, "min.insync.replicas", "1", ErrorCode.INVALID_CONFIG),
        (CLUSTER_DEFAULT, "log.flush.mode", "never", ErrorCode.INVALID_CONFIG),
        (CLUSTER_DEFAULT, "num.partitions", "0", ErrorCode.INVALID_CONFIG),
        (ConfigResource(ResourceType.TOPIC, "x"), "a", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResource(ResourceType.BROKER, "x"), "a", "1", ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.BROKER, "9"), "a", "1", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (ConfigResource(ResourceType.BROKER, "01"), "a", "1", ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_bad_config_is_refused_and_nothing_changes(
    cluster: Cluster, resource: ConfigResource, key: str, value: str | None, code: ErrorCode
) -> None:
    image = cluster.image
    error = alter(cluster, resource, (key, SET, value))
    assert code_of(error) is code
    assert cluster.image is image


def test_unknown_key_is_told_the_nearest(cluster: Cluster) -> None:
    error = alter(cluster, TOPIC, ("retenton.ms", SET, "1"))
    assert error is not None
    assert "'retention.ms'" in error.message


def test_no_limit_is_minus_one(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, ("retention.ms", SET, "-1")) is None


def test_keys_that_contradict_each_other_are_refused(cluster: Cluster) -> None:
    error = alter(
        cluster, TOPIC, ("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")
    )
    assert code_of(error) is ErrorCode.INVALID_CONFIG


def test_list_operations_need_a_list_and_keys_come_once(cluster: Cluster) -> None:
    for changes in (
        [("retention.ms", ConfigOperation.APPEND, "1")],
        [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
    ):
        assert code_of(alter(cluster, TOPIC, *changes)) is ErrorCode.INVALID_CONFIG


def test_kafka_key_without_use_is_taken(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, ("compression.type", SET, "zstd")) is None
    assert alter(cluster, BROKER_1, ("num.io.threads", SET, "8")) is None


def test_validate_only_changes_nothing(cluster: Cluster) -> None:
    image = cluster.image
    assert alter(cluster, TOPIC, ("retention.ms", SET, "1"), validate_only=True) is None
    assert cluster.image is image


def test_min_isr_of_a_topic_reaches_its_partitions(cluster: Cluster) -> None:
    cluster.configure("min.insync.replicas", "3", topic="t")
    for number in (0, 1):
        partition = cluster.partition("t", number)
        assert (partition.effective_min_isr, partition.partition_epoch) == (3, 1)
    assert cluster.partition("u").partition_epoch == 0


def test_min_isr_of_the_cluster_reaches_topics_without_their_own(cluster: Cluster) -> None:
    cluster.configure("min.insync.replicas", "2", topic="t")
    cluster.configure("min.insync.replicas", "1")
    assert cluster.partition("t").effective_min_isr == 2
    assert cluster.partition("u").effective_min_isr == 1
    cluster.configure("min.insync.replicas", None, topic="t")
    assert cluster.partition("t").effective_min_isr == 1
    cluster.configure("min.insync.replicas", None)
    assert cluster.partition("t").effective_min_isr == 2


def test_min_isr_is_no_more_than_there_are_replicas(cluster: Cluster) -> None:
    cluster.configure("min.insync.replicas", "9", topic="t")
    assert cluster.partition("t").effective_min_isr == 3


def test_cluster_wide_change_in_several_batches_sets_the_config_last() -> None:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    for number in range(3):
        cluster.create(f"t{number}", *[(1, 2, 3)] * 2000)
    change = ConfigChange(key="min.insync.replicas", operation=SET, value="1")
    command = IncrementalAlterConfigs(
        resources=(ResourceChange(resource=CLUSTER_DEFAULT, changes=(change,)),), request_id="r"
    )
    first, *others = cluster.controller.submit(command, cluster.now_ms).proposals
    assert others
    cluster.controller.apply(first.data, offset=first.offset, epoch=cluster.term)
    cluster.fail_over()
    assert not cluster.image.configs
    assert isinstance(cluster.submit(command), ConfigsAltered)
    assert cluster.partition("t2", 1999).effective_min_isr == 1
    assert cluster.image.config(CLUSTER_DEFAULT)["min.insync.replicas"] == "1"
