"""Registration, fencing, unfencing, controlled shutdown."""

import dataclasses

import pytest

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    AssignReplicasToDirectories,
    BrokerRegistered,
    BrokerUnregistered,
    DirectoryAssignment,
    Endpoint,
    Refused,
    RegisterBroker,
    ReplicasAssigned,
    SupportedFeature,
    UnregisterBroker,
)
from quorum.metadata.types import BrokerEpoch, DirectoryId, MetadataOffset
from tests.quorum.metadata.cluster import (
    SESSION_MS,
    Cluster,
    code_of,
    directory,
    identity,
    registration,
)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    return cluster


def test_broker_epoch_is_the_offset_of_the_registration() -> None:
    cluster = Cluster()
    epoch = cluster.register(registration(1))
    assert int(epoch) == cluster.image.offset
    assert cluster.image.brokers[1].broker_epoch == epoch


def test_registration_tells_the_session_that_leases_count_from() -> None:
    answer = Cluster().submit(registration(1))
    assert isinstance(answer, BrokerRegistered)
    assert answer.session_timeout_ms == SESSION_MS


def test_retried_registration_has_the_same_epoch() -> None:
    cluster = Cluster()
    epoch = cluster.register(registration(1))
    image = cluster.image
    assert cluster.register(registration(1)) == epoch
    assert cluster.image is image


def test_second_process_is_refused_while_the_first_has_a_session(cluster: Cluster) -> None:
    second = registration(1, incarnation=77)
    assert cluster.refused(second) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.advance(SESSION_MS)
    assert cluster.refused(second) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.advance(1)
    assert int(cluster.register(second)) == cluster.image.offset


def test_broker_of_another_cluster_is_refused(cluster: Cluster) -> None:
    stranger = registration(9, cluster_id="other")
    assert cluster.refused(stranger) is ErrorCode.INCONSISTENT_CLUSTER_ID


GOOD = registration(9)


@pytest.mark.parametrize(
    "command",
    [
        dataclasses.replace(GOOD, broker_id=-1),
        dataclasses.replace(GOOD, broker_id=2**31),
        dataclasses.replace(GOOD, incarnation_id=b"short"),
        dataclasses.replace(GOOD, incarnation_id=bytes(16)),
        dataclasses.replace(GOOD, endpoints=()),
        dataclasses.replace(GOOD, endpoints=GOOD.endpoints * 2),
        dataclasses.replace(GOOD, endpoints=(Endpoint(name="P", host="h", port=0),)),
        dataclasses.replace(GOOD, endpoints=(Endpoint(name="P", host="", port=1),)),
        dataclasses.replace(GOOD, endpoints=(Endpoint(name="P" * 999, host="h", port=1),)),
        dataclasses.replace(GOOD, directories=()),
        dataclasses.replace(GOOD, directories=(directory(1),) * 2),
        dataclasses.replace(GOOD, directories=(DirectoryId(b"short"),)),
        dataclasses.replace(GOOD, rack="r" * 999),
        dataclasses.replace(GOOD, features=(SupportedFeature(name="f", min_level=2, max_level=1),)),
    ],
)
def test_malformed_registration_is_refused(cluster: Cluster, command: RegisterBroker) -> None:
    assert cluster.refused(command) is ErrorCode.INVALID_REGISTRATION


def test_broker_that_cannot_have_what_is_finalized_is_refused(cluster: Cluster) -> None:
    features = (SupportedFeature(name="metadata.version", min_level=5, max_level=6),)
    command = dataclasses.replace(GOOD, features=features)
    assert cluster.refused(command) is ErrorCode.UNSUPPORTED_VERSION


def test_broker_is_unfenced_only_when_it_has_read_its_registration() -> None:
    cluster = Cluster()
    epoch = cluster.register(registration(1))
    behind = cluster.beat(1, offset=epoch - 1)
    assert behind.is_fenced
    assert not behind.is_caught_up
    caught_up = cluster.beat(1, offset=epoch)
    assert not caught_up.is_fenced
    assert caught_up.is_caught_up
    assert not cluster.image.brokers[1].fenced


def test_silent_broker_is_fenced_after_its_session_and_not_before(cluster: Cluster) -> None:
    cluster.advance(SESSION_MS)
    cluster.periodic()
    assert not cluster.image.brokers[1].fenced
    cluster.advance(1)
    cluster.periodic()
    assert all(broker.fenced for broker in cluster.image.brokers.values())


def test_new_controller_waits_a_full_session_before_it_fences(cluster: Cluster) -> None:
    cluster.advance(SESSION_MS * 10)
    cluster.fail_over()
    cluster.advance(SESSION_MS)
    cluster.periodic()
    assert not cluster.image.brokers[1].fenced
    cluster.advance(1)
    cluster.periodic()
    assert cluster.image.brokers[1].fenced


def test_fenced_broker_leaves_isr_and_leadership(cluster: Cluster) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.lose(1)
    partition = cluster.partition("t")
    assert partition.isr == (2, 3)
    assert partition.leader == 2
    assert partition.leader_epoch == 1


def test_broker_is_unfenced_only_when_it_has_read_its_fencing(cluster: Cluster) -> None:
    cluster.create("t", (1, 2, 3))
    known = cluster.image.offset
    cluster.lose(1)
    assert cluster.beat(1, offset=known).is_fenced
    fencing_offset = cluster.image.brokers[1].fencing_offset
    assert fencing_offset is not None
    assert cluster.beat(1, offset=fencing_offset - 1).is_fenced
    assert not cluster.beat(1, offset=fencing_offset).is_fenced


def test_restart_ends_the_leaderships_of_a_broker(cluster: Cluster) -> None:
    cluster.create("alone", (1,))
    cluster.create("t", (1, 2, 3))
    cluster.advance(SESSION_MS + 1)
    for broker_id in (2, 3):
        cluster.beat(broker_id)
    cluster.register(registration(1, incarnation=50))
    assert cluster.partition("t").leader == 2
    alone = cluster.partition("alone")
    assert (alone.leader, alone.leader_epoch, alone.isr, alone.elr) == (None, 1, (), (1,))
    assert not cluster.beat(1).is_fenced
    alone = cluster.partition("alone")
    assert (alone.leader, alone.leader_epoch, alone.isr, alone.elr) == (1, 2, (1,), ())


def test_broker_with_a_new_directory_leaves_isr_and_elr(cluster: Cluster) -> None:
    cluster.create("alone", (1,))
    cluster.advance(SESSION_MS + 1)
    cluster.register(registration(1, incarnation=50, directories=(directory(1, 9),)))
    cluster.beat(1)
    alone = cluster.partition("alone")
    assert (alone.leader, alone.isr, alone.elr, alone.last_known_elr) == (None, (), (), (1,))


def test_only_replicas_of_the_missing_directory_are_lost() -> None:
    cluster = Cluster()
    both = (directory(1, 1), directory(1, 2))
    cluster.register(registration(1, directories=both))
    cluster.beat(1)
    for name in ("first", "second", "unassigned"):
        cluster.create(name, (1,))
    answer = cluster.submit(
        AssignReplicasToDirectories(
            broker_id=1,
            broker_epoch=cluster.epochs[1],
            assignments=tuple(
                DirectoryAssignment(
                    topic_id=cluster.partition(name).topic_id, partition=0, directory=where
                )
                for name, where in zip(("first", "second"), both, strict=True)
            ),
        )
    )
    assert isinstance(answer, ReplicasAssigned)
    assert [replica.error for replica in answer.replicas] == [None, None]
    cluster.advance(SESSION_MS + 1)
    cluster.register(registration(1, incarnation=2, directories=both[:1]))
    cluster.beat(1)
    leaders = [cluster.partition(name).leader for name in ("first", "second", "unassigned")]
    assert leaders == [1, None, None]


def test_directories_are_assigned_only_where_broker_and_replica_are_known(
    cluster: Cluster,
) -> None:
    topic_id = cluster.create("t", (1,))
    unknown = DirectoryId(identity(66))

    def assign(broker_id: int, partition: int, where: DirectoryId) -> ErrorCode | None:
        answer = cluster.submit(
            AssignReplicasToDirectories(
                broker_id=broker_id,
                broker_epoch=cluster.epochs[broker_id],
                assignments=(
                    DirectoryAssignment(topic_id=topic_id, partition=partition, directory=where),
                ),
            )
        )
        assert isinstance(answer, ReplicasAssigned)
        return code_of(answer.replicas[0].error)

    assert assign(1, 0, unknown) is ErrorCode.LOG_DIR_NOT_FOUND
    assert assign(1, 5, directory(1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assign(2, 0, directory(2)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.partition("t").partition_epoch == 0
    assert assign(1, 0, directory(1)) is None
    assert cluster.partition("t").directories == (directory(1),)


@pytest.mark.parametrize(
    ("mode", "clean", "keeps"),
    [
        ("group", False, True),
        ("os", False, False),
        ("os", True, True),
    ],
)
def test_unclean_restart_without_flush_leaves_isr_and_elr(
    cluster: Cluster, mode: str, clean: bool, keeps: bool
) -> None:
    cluster.configure("log.flush.mode", mode)
    cluster.create("alone", (1,))
    cluster.advance(SESSION_MS + 1)
    previous = cluster.epochs[1] if clean else None
    cluster.register(registration(1, incarnation=50, previous_broker_epoch=previous))
    assert cluster.partition("alone").elr == ((1,) if keeps else ())


def test_controlled_shutdown_moves_leaders_before_isr(cluster: Cluster) -> None:
    cluster.create("t", (1, 2, 3))
    first = cluster.shut_down_step(1)
    assert not first.should_shut_down
    partition = cluster.partition("t")
    assert partition.leader == 2
    assert partition.isr == (1, 2, 3)
    last = cluster.shut_down_step(1)
    assert last.should_shut_down
    assert cluster.image.brokers[1].fenced
    assert cluster.partition("t").isr == (2, 3)


def test_broker_is_told_to_stop_only_when_it_knows_that_it_leads_nothing(
    cluster: Cluster,
) -> None:
    cluster.create("t", (1, 2, 3))
    stale = cluster.image.offset
    cluster.shut_down_step(1)
    answer = cluster.submit(cluster.heartbeat(1, offset=stale, want_shut_down=True))
    assert not getattr(answer, "should_shut_down", True)
    assert cluster.partition("t").isr == (1, 2, 3)


def test_broker_that_shut_down_may_come_back_at_once(cluster: Cluster) -> None:
    cluster.create("alone", (1,))
    while not cluster.shut_down_step(1).should_shut_down:
        pass
    assert cluster.partition("alone").leader is None
    cluster.start(1)
    assert cluster.partition("alone").leader == 1


def test_broker_that_shuts_down_gets_no_leaderships_and_no_replicas(cluster: Cluster) -> None:
    cluster.create("t", (1, 2))
    cluster.shut_down_step(2)
    cluster.lose(1)
    assert cluster.partition("t").leader is None


def test_live_broker_cannot_be_unregistered(cluster: Cluster) -> None:
    assert cluster.refused(UnregisterBroker(broker_id=1)) is ErrorCode.INVALID_REQUEST
    cluster.lose(1)
    assert cluster.submit(UnregisterBroker(broker_id=1)) == BrokerUnregistered(broker_id=1)
    assert 1 not in cluster.image.brokers
    code = cluster.refused(UnregisterBroker(broker_id=1))
    assert code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_stale_and_unknown_brokers_are_refused(cluster: Cluster) -> None:
    stale = dataclasses.replace(cluster.heartbeat(1), broker_epoch=BrokerEpoch(1))
    assert cluster.refused(stale) is ErrorCode.STALE_BROKER_EPOCH
    unknown = dataclasses.replace(cluster.heartbeat(1), broker_id=99)
    assert cluster.refused(unknown) is ErrorCode.BROKER_ID_NOT_REGISTERED
    ahead = dataclasses.replace(cluster.heartbeat(1), metadata_offset=MetadataOffset(10**9))
    assert cluster.refused(ahead) is ErrorCode.NOT_CONTROLLER
    negative = dataclasses.replace(cluster.heartbeat(1), metadata_offset=MetadataOffset(-1))
    assert cluster.refused(negative) is ErrorCode.INVALID_REQUEST


def test_stale_heartbeat_does_not_keep_a_session_alive(cluster: Cluster) -> None:
    cluster.advance(SESSION_MS)
    stale = dataclasses.replace(cluster.heartbeat(1), broker_epoch=BrokerEpoch(1))
    assert isinstance(cluster.submit(stale), Refused)
    cluster.advance(1)
    cluster.periodic()
    assert cluster.image.brokers[1].fenced


def test_fencing_that_needs_several_batches_is_finished_by_the_next_controller() -> None:
    cluster = Cluster()
    cluster.start(1, 2)
    for number in range(4):
        cluster.create(f"t{number}", *[(1, 2)] * 2000)
    cluster.advance(SESSION_MS)
    cluster.beat(2)
    cluster.advance(1)
    first, *others = cluster.controller.periodic(cluster.now_ms)
    assert others
    cluster.controller.apply(first.data, offset=first.offset, epoch=cluster.term)
    cluster.fail_over()
    assert cluster.image.brokers[1].fenced
    assert cluster.image.index.is_involved(1)
    assert cluster.beat(1).is_fenced, "it leads something yet"
    cluster.periodic()
    assert not cluster.image.index.is_involved(1)
    assert not cluster.beat(1).is_fenced
