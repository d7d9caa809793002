"""Replicas move without a record or a reader being lost on the way."""

import pytest

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    AlterPartitionReassignments,
    PartitionReassignmentsAltered,
    Reassignment,
)
from quorum.metadata.reassignment import ongoing
from tests.quorum.metadata.cluster import Cluster, code_of


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.start(1, 2, 3, 4, 5)
    cluster.create("t", (1, 2, 3))
    return cluster


def reassign(
    cluster: Cluster, replicas: tuple[int, ...] | None, name: str = "t"
) -> ErrorCode | None:
    answer = cluster.submit(
        AlterPartitionReassignments(
            reassignments=(Reassignment(topic=name, partition=0, replicas=replicas),)
        )
    )
    assert isinstance(answer, PartitionReassignmentsAltered)
    return code_of(answer.partitions[0].error)


def everybody_reads(cluster: Cluster) -> None:
    for broker_id in (1, 2, 3, 4, 5):
        cluster.beat(broker_id)


def test_new_replicas_are_added_and_old_ones_stay_until_they_are_in_sync(
    cluster: Cluster,
) -> None:
    assert reassign(cluster, (4, 5, 3)) is None
    everybody_reads(cluster)
    cluster.periodic()
    partition = cluster.partition("t")
    assert partition.replicas == (4, 5, 3, 1, 2)
    assert (partition.adding, partition.removing) == ((4, 5), (1, 2))
    assert (partition.isr, partition.leader) == ((1, 2, 3), 1)
    (found,) = ongoing(cluster.image)
    assert (found.topic, found.adding, found.removing) == ("t", (4, 5), (1, 2))
    assert ongoing(cluster.image, [("t", 1), ("u", 0)]) == ()


def test_leader_that_goes_is_replaced_first_and_leaves_when_it_knows(cluster: Cluster) -> None:
    reassign(cluster, (4, 5, 3))
    cluster.set_isr("t", 1, 2, 3, 4)
    cluster.periodic()
    assert cluster.partition("t").leader == 1, "5 is not in sync yet"
    cluster.set_isr("t", 1, 2, 3, 4, 5)
    cluster.periodic()
    moved = cluster.partition("t")
    assert (moved.leader, moved.leader_epoch) == (4, 1)
    assert set(moved.isr) == {1, 2, 3, 4, 5}
    cluster.periodic()
    assert cluster.partition("t") == moved, "1 has not shown that it knows"
    everybody_reads(cluster)
    cluster.periodic()
    done = cluster.partition("t")
    assert (done.replicas, done.adding, done.removing) == ((4, 5, 3), (), ())
    assert sorted(done.isr) == [3, 4, 5]
    assert done.leader == 4
    assert not ongoing(cluster.image)


def test_dead_replica_need_not_be_waited_for(cluster: Cluster) -> None:
    reassign(cluster, (1, 2, 4))
    cluster.lose(3)
    cluster.set_isr("t", 1, 2, 4)
    cluster.periodic()
    assert cluster.partition("t").replicas == (1, 2, 4)


def test_reassignment_does_not_complete_below_min_isr(cluster: Cluster) -> None:
    reassign(cluster, (1, 4, 5))
    cluster.set_isr("t", 1, 2, 3, 4, 5)
    everybody_reads(cluster)
    cluster.lose(4)
    cluster.lose(5)
    cluster.periodic()
    assert cluster.partition("t").is_reassigning


def test_cancelled_reassignment_goes_back(cluster: Cluster) -> None:
    reassign(cluster, (4, 5, 3))
    cluster.set_isr("t", 1, 2, 3, 4)
    assert reassign(cluster, None) is None
    everybody_reads(cluster)
    cluster.periodic()
    partition = cluster.partition("t")
    assert sorted(partition.replicas) == [1, 2, 3]
    assert sorted(partition.isr) == [1, 2, 3]
    assert not partition.is_reassigning
    assert reassign(cluster, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_reassignment_can_be_replaced_while_it_is_under_way(cluster: Cluster) -> None:
    reassign(cluster, (4, 2, 3))
    reassign(cluster, (5, 2, 3))
    partition = cluster.partition("t")
    assert partition.target_replicas == (5, 2, 3)
    assert partition.adding == (5,)
    assert set(partition.removing) == {1, 4}


def test_fewer_replicas_have_the_min_isr_of_fewer(cluster: Cluster) -> None:
    reassign(cluster, (1,))
    everybody_reads(cluster)
    cluster.periodic()
    partition = cluster.partition("t")
    assert (partition.replicas, partition.isr, partition.effective_min_isr) == ((1,), (1,), 1)


@pytest.mark.parametrize("replicas", [(), (1, 1), (1, 99)])
def test_impossible_target_is_refused(cluster: Cluster, replicas: tuple[int, ...]) -> None:
    image = cluster.image
    assert reassign(cluster, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, (1,), "u") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.image is image
