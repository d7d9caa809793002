"""Who leads: the ISR, else the ELR, else nobody, or anybody if that is asked for."""

import dataclasses

import pytest

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import ElectLeaders, LeadersElected
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.types import ElectionType
from tests.quorum.metadata.cluster import (
    CLUSTER_ID,
    SESSION_MS,
    Cluster,
    code_of,
    directory,
    registration,
)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2, 3))
    return cluster


def elect(
    cluster: Cluster, election_type: ElectionType, *partitions: tuple[str, int]
) -> list[ErrorCode | None]:
    answer = cluster.submit(
        ElectLeaders(election_type=election_type, partitions=partitions or None)
    )
    assert isinstance(answer, LeadersElected)
    return [code_of(partition.error) for partition in answer.partitions]


def come_back(cluster: Cluster, broker_id: int, *, with_data: bool = True) -> None:
    generation = 0 if with_data else 7
    incarnation = cluster.incarnations[broker_id] = cluster.incarnations[broker_id] + 1
    command = registration(broker_id, incarnation=incarnation)
    cluster.register(dataclasses.replace(command, directories=(directory(broker_id, generation),)))
    assert not cluster.beat(broker_id).is_fenced


def test_next_of_the_isr_leads_in_the_order_of_the_replicas(cluster: Cluster) -> None:
    cluster.lose(1)
    assert cluster.partition("t").leader == 2
    cluster.lose(2)
    assert cluster.partition("t").leader == 3


def test_elr_begins_when_the_isr_falls_below_min(cluster: Cluster) -> None:
    cluster.lose(1)
    assert cluster.partition("t").elr == ()
    cluster.lose(2)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((3,), (2,))
    cluster.lose(3)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (None, (), (2, 3))


def test_first_of_the_elr_to_come_back_leads_and_others_do_not(cluster: Cluster) -> None:
    cluster.lose(1)
    cluster.lose(2)
    cluster.lose(3)
    come_back(cluster, 1)
    assert cluster.partition("t").leader is None, "1 was out before the records that 2 and 3 have"
    come_back(cluster, 2)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), (3,))
    assert not partition.is_recovering


def test_isr_at_min_empties_the_elr(cluster: Cluster) -> None:
    cluster.lose(2, 3)
    assert cluster.partition("t").elr == (3,)
    come_back(cluster, 2)
    cluster.set_isr("t", 1, 2)
    assert cluster.partition("t").elr == ()


def test_lower_min_empties_the_elr_and_higher_min_keeps_it(cluster: Cluster) -> None:
    cluster.lose(2, 3)
    cluster.configure("min.insync.replicas", "3", topic="t")
    assert cluster.partition("t").elr == (3,)
    cluster.configure("min.insync.replicas", "2", topic="t")
    assert cluster.partition("t").elr == ()


def lost_all(cluster: Cluster) -> None:
    for broker_id in (1, 2, 3):
        cluster.lose(broker_id)
    for broker_id in (3, 2):
        come_back(cluster, broker_id, with_data=False)


def test_replica_without_its_data_is_not_elected_unasked(cluster: Cluster) -> None:
    lost_all(cluster)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (None, (), ())
    assert partition.last_known_elr == (2, 3)
    cluster.periodic()
    assert cluster.partition("t").leader is None


def test_unclean_election_prefers_the_last_known_elr(cluster: Cluster) -> None:
    lost_all(cluster)
    come_back(cluster, 1)
    assert elect(cluster, ElectionType.UNCLEAN, ("t", 0)) == [None]
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.is_recovering) == (2, (2,), True)
    assert (partition.elr, partition.last_known_elr) == ((), ())


def test_topic_that_allows_it_gets_an_unclean_leader_by_itself(cluster: Cluster) -> None:
    lost_all(cluster)
    cluster.configure("unclean.leader.election.enable", "true", topic="t")
    cluster.periodic()
    assert cluster.partition("t").leader == 2
    assert cluster.partition("t").is_recovering


def test_unclean_election_waits_for_a_former_leader_that_shuts_down(cluster: Cluster) -> None:
    cluster.lose(2, 3)
    cluster.configure("unclean.leader.election.enable", "true", topic="t")
    cluster.lose(2)
    come_back(cluster, 2)
    assert not cluster.shut_down_step(1).should_shut_down
    cluster.periodic()
    codes = elect(cluster, ElectionType.UNCLEAN, ("t", 0))
    assert codes == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (None, (1,))
    assert cluster.shut_down_step(1).should_shut_down
    cluster.periodic()
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))


def test_unclean_election_without_a_living_replica_is_refused(cluster: Cluster) -> None:
    cluster.lose(1, 2, 3)
    codes = elect(cluster, ElectionType.UNCLEAN, ("t", 0))
    assert codes == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_preferred_election_keeps_the_old_leader_in_the_isr(cluster: Cluster) -> None:
    cluster.lose(1)
    come_back(cluster, 1)
    codes = elect(cluster, ElectionType.PREFERRED, ("t", 0))
    assert codes == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    cluster.set_isr("t", 2, 3, 1)
    assert elect(cluster, ElectionType.PREFERRED, ("t", 0)) == [None]
    partition = cluster.partition("t")
    assert partition.leader == 1
    assert sorted(partition.isr) == [1, 2, 3]
    codes = elect(cluster, ElectionType.PREFERRED, ("t", 0), ("t", 7), ("u", 0), ("t", 0))
    assert codes == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ]


def balanced_cluster(percentage: int) -> Cluster:
    settings = ControllerSettings(
        cluster_id=CLUSTER_ID,
        leader_imbalance_check_interval_s=60,
        leader_imbalance_percentage=percentage,
    )
    cluster = Cluster(settings=settings)
    cluster.start(1, 2)
    for number in range(4):
        cluster.create(f"t{number}", (1, 2))
    cluster.lose(1)
    come_back(cluster, 1)
    for number in range(2):
        cluster.set_isr(f"t{number}", 2, 1)
    return cluster


def beat_for(cluster: Cluster, ms: int) -> None:
    for _ in range(0, ms, SESSION_MS):
        cluster.advance(SESSION_MS)
        cluster.beat(1)
        cluster.beat(2)
        cluster.periodic()


def test_preferred_leaders_are_restored_by_themselves() -> None:
    cluster = balanced_cluster(percentage=10)
    beat_for(cluster, 30_000)
    assert cluster.partition("t0").leader == 2
    beat_for(cluster, 60_000)
    leaders = [cluster.partition(f"t{number}").leader for number in range(4)]
    assert leaders == [1, 1, 2, 2], "those that are in sync"


def test_small_imbalance_is_left_alone() -> None:
    cluster = balanced_cluster(percentage=100)
    beat_for(cluster, 120_000)
    assert cluster.partition("t0").leader == 2
