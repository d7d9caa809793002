"""AlterPartition: the ISR changes only as the rules allow."""

import dataclasses

import pytest

from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch
from quorum.metadata.commands import AlterPartition, IsrMember
from quorum.metadata.types import BrokerEpoch, ElectionType, PartitionEpoch, TopicId
from tests.quorum.metadata.cluster import SESSION_MS, Cluster, code_of, identity, registration
from tests.quorum.metadata.test_elections import elect


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2, 3))
    for broker_id in (1, 2, 3):
        cluster.beat(broker_id)
    return cluster


def test_answer_tells_the_new_state_with_its_min_isr(cluster: Cluster) -> None:
    altered = cluster.set_isr("t", 1, 2)
    partition = cluster.partition("t")
    assert altered.isr == partition.isr == (1, 2)
    assert altered.partition_epoch == partition.partition_epoch == 1
    assert altered.effective_min_isr == 2
    assert partition.leader_epoch == 0, "the leader is the same"


def test_same_isr_again_changes_nothing(cluster: Cluster) -> None:
    image = cluster.image
    assert cluster.set_isr("t", 3, 1, 2).partition_epoch == 0
    assert cluster.image is image


def test_request_of_an_old_registration_is_refused(cluster: Cluster) -> None:
    command = AlterPartition(
        broker_id=1,
        broker_epoch=BrokerEpoch(cluster.epochs[1] - 1),
        changes=(cluster.isr_change("t", (1, 2)),),
    )
    assert cluster.refused(command) is ErrorCode.STALE_BROKER_EPOCH
    unknown = dataclasses.replace(command, broker_id=44)
    assert cluster.refused(unknown) is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"leader_epoch": LeaderEpoch(-1)}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": LeaderEpoch(1)}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": PartitionEpoch(-1)}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_epoch": PartitionEpoch(1)}, ErrorCode.NOT_CONTROLLER),
        ({"partition": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic_id": TopicId(identity(88))}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"new_isr": ()}, ErrorCode.INVALID_REQUEST),
        ({"is_recovering": True}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_wrong_change_is_refused_and_nothing_changes(
    cluster: Cluster, changes: dict[str, object], code: ErrorCode
) -> None:
    change = dataclasses.replace(cluster.isr_change("t", (1, 2)), **changes)  # type: ignore[arg-type]
    image = cluster.image
    answer = cluster.submit(
        AlterPartition(broker_id=1, broker_epoch=cluster.epochs[1], changes=(change,))
    )
    error = getattr(answer, "partitions")[0].error  # noqa: B009
    assert code_of(error) is code
    assert cluster.image is image


def test_only_the_leader_may_ask(cluster: Cluster) -> None:
    altered = cluster.alter(cluster.isr_change("t", (1, 2)), by=2)
    assert code_of(altered.error) is ErrorCode.INVALID_REQUEST


def test_leader_stays_in_the_isr_and_nobody_is_twice_in_it(cluster: Cluster) -> None:
    cluster.start(4)
    for isr in ((2, 3), (1, 2, 2), (1, 4)):
        altered = cluster.alter(cluster.isr_change("t", isr))
        assert code_of(altered.error) is ErrorCode.INVALID_REQUEST


def test_fenced_follower_cannot_join(cluster: Cluster) -> None:
    cluster.lose(3)
    altered = cluster.alter(cluster.isr_change("t", (1, 2, 3)))
    assert code_of(altered.error) is ErrorCode.INELIGIBLE_REPLICA


def test_follower_that_shuts_down_cannot_join(cluster: Cluster) -> None:
    cluster.set_isr("t", 1, 2)
    cluster.shut_down_step(3)
    altered = cluster.alter(cluster.isr_change("t", (1, 2, 3)))
    assert code_of(altered.error) is ErrorCode.INELIGIBLE_REPLICA


def test_follower_that_restarted_does_not_join_by_its_old_epoch(cluster: Cluster) -> None:
    old = cluster.epochs[3]
    cluster.lose(3)
    cluster.register(registration(3, incarnation=40))
    cluster.beat(3)
    change = cluster.isr_change("t", (1, 2, 3))
    members = (*change.new_isr[:2], IsrMember(broker_id=3, broker_epoch=old))
    altered = cluster.alter(dataclasses.replace(change, new_isr=members))
    assert code_of(altered.error) is ErrorCode.INELIGIBLE_REPLICA
    assert cluster.alter(change).error is None


def moved_leader(cluster: Cluster) -> int:
    """1 leads after 2; returns what everybody knew before that."""
    cluster.lose(1)
    cluster.register(registration(1, incarnation=40))
    cluster.beat(1)
    cluster.set_isr("t", 2, 3, 1)
    known = cluster.image.offset
    assert elect(cluster, ElectionType.PREFERRED) == [None]
    return known


def test_former_leader_leaves_only_when_it_knows_the_new_epoch(cluster: Cluster) -> None:
    known = moved_leader(cluster)
    cluster.beat(2, offset=known)
    altered = cluster.alter(cluster.isr_change("t", (1, 3)))
    assert code_of(altered.error) is ErrorCode.INELIGIBLE_REPLICA
    cluster.beat(2)
    cluster.set_isr("t", 1, 3)


def test_former_leader_leaves_when_its_lease_is_over(cluster: Cluster) -> None:
    moved_leader(cluster)
    cluster.lose(2)
    assert sorted(cluster.partition("t").isr) == [1, 3]


def test_new_controller_does_not_take_for_known_what_it_was_not_told(cluster: Cluster) -> None:
    moved_leader(cluster)
    cluster.beat(2)
    cluster.fail_over()
    altered = cluster.alter(cluster.isr_change("t", (1, 3)))
    assert code_of(altered.error) is ErrorCode.INELIGIBLE_REPLICA


def test_leader_that_recovers_ends_its_recovery(cluster: Cluster) -> None:
    cluster.lose(1, 2, 3)
    cluster.advance(SESSION_MS)
    cluster.register(registration(1, incarnation=40))
    cluster.beat(1)
    elect(cluster, ElectionType.UNCLEAN, ("t", 0))
    assert cluster.partition("t").is_recovering
    altered = cluster.alter(dataclasses.replace(cluster.isr_change("t", (1,)), is_recovering=False))
    assert altered.error is None
    assert not cluster.partition("t").is_recovering
