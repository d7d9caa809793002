"""Every command through a real gRPC listener and the real client."""

from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from kafka_wire.error_codes import ErrorCode
from quorum.api import quorum_pb2 as pb
from quorum.errors import QuorumError
from quorum.metadata.types import ConfigResource, ResourceType
from quorum.service.listener import CONTROLLER_SERVICE, QUORUM_SERVICE
from tests.quorum.service.voters import Cluster, beat, join, new_topic, on_loop, registration, until


@on_loop
async def test_registered_broker_is_unfenced_once_it_has_read_its_registration() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        registered = await client.register_broker(registration(1, rack="a"))
        assert registered.session_timeout_ms == 60_000
        early = await client.heartbeat(
            pb.HeartbeatRequest(
                broker_id=1,
                broker_epoch=registered.broker_epoch,
                metadata_offset=registered.broker_epoch - 1,
            )
        )
        assert early.is_fenced
        assert not early.is_caught_up
        then = await client.heartbeat(
            pb.HeartbeatRequest(
                broker_id=1,
                broker_epoch=registered.broker_epoch,
                metadata_offset=registered.broker_epoch,
            )
        )
        assert not then.is_fenced
        assert then.is_caught_up
        assert then.session_timeout_ms == 60_000
        broker = cluster.voters[1].machine.image.brokers[1]
        assert broker.rack == "a"
        assert broker.broker_epoch == registered.broker_epoch


@on_loop
async def test_controlled_shutdown_ends_with_permission_to_stop() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        epochs = await join(client, 1, 2)
        await client.create_topics(new_topic("t", 4, 2))

        async def ask() -> pb.HeartbeatResponse:
            return await client.heartbeat(
                pb.HeartbeatRequest(
                    broker_id=1,
                    broker_epoch=epochs[1],
                    metadata_offset=cluster.voters[1].machine.image.offset,
                    want_shutdown=True,
                )
            )

        answers = [await ask() for _ in range(5)]
        assert answers[-1].should_shutdown
        image = cluster.voters[1].machine.image
        assert 1 not in image.index.leads


@on_loop
async def test_broker_is_unregistered_once_it_is_fenced() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await client.register_broker(registration(7))
        await client.unregister_broker(pb.UnregisterBrokerRequest(broker_id=7))
        assert 7 not in cluster.voters[1].machine.image.brokers


@on_loop
async def test_topics_are_created_and_deleted_with_a_result_for_each() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1, 2, 3)
        created = await client.create_topics(
            pb.CreateTopicsRequest(
                topics=[
                    pb.CreateTopicsRequest.Topic(
                        name="good",
                        num_partitions=3,
                        replication_factor=2,
                        configs=[pb.ConfigEntry(name="retention.ms", value="1000")],
                    ),
                    pb.CreateTopicsRequest.Topic(name="bad name!", num_partitions=1),
                    pb.CreateTopicsRequest.Topic(
                        name="by-hand", assignments=[pb.Assignment(broker_ids=[2, 1])]
                    ),
                ]
            )
        )
        good, bad, by_hand = created.topics
        assert not good.HasField("error")
        assert (good.num_partitions, good.replication_factor, len(good.topic_id)) == (3, 2, 16)
        assert bad.error.code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert bad.error.name == "INVALID_TOPIC_EXCEPTION"
        assert not by_hand.HasField("error")
        image = cluster.voters[1].machine.image
        assert image.topics[by_hand.topic_id].partitions[0].replicas == (2, 1)  # type: ignore[index]

        deleted = await client.delete_topics(
            pb.DeleteTopicsRequest(
                topics=[
                    pb.DeleteTopicsRequest.Topic(topic_id=good.topic_id),
                    pb.DeleteTopicsRequest.Topic(name="by-hand"),
                    pb.DeleteTopicsRequest.Topic(name="nobody"),
                ]
            )
        )
        first, second, third = deleted.topics
        assert first.name == "good"
        assert not first.HasField("error")
        assert not second.HasField("error")
        assert third.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not cluster.voters[1].machine.image.topics


@on_loop
async def test_validate_only_changes_nothing() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        before = cluster.voters[1].machine.image.offset
        request = new_topic("t")
        request.validate_only = True
        answer = await client.create_topics(request)
        assert not answer.topics[0].HasField("error")
        assert cluster.voters[1].machine.image.offset == before


@on_loop
async def test_partitions_are_added() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        await client.create_topics(new_topic("t"))
        answer = await client.create_partitions(
            pb.CreatePartitionsRequest(
                topics=[
                    pb.CreatePartitionsRequest.Topic(name="t", total_count=4),
                    pb.CreatePartitionsRequest.Topic(name="nobody", total_count=4),
                ]
            )
        )
        assert not answer.topics[0].HasField("error")
        assert answer.topics[1].error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = cluster.voters[1].machine.image.topic("t")
        assert topic is not None
        assert len(topic.partitions) == 4


@on_loop
async def test_configs_change_step_by_step_and_as_a_whole() -> None:
    resource = pb.ConfigResource(type=pb.CONFIG_RESOURCE_TYPE_TOPIC, name="t")
    ops = pb.IncrementalAlterConfigsRequest
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        await client.create_topics(new_topic("t"))
        changed = await client.incremental_alter_configs(
            ops(
                resources=[
                    ops.Resource(
                        resource=resource,
                        ops=[
                            ops.Op(type=ops.OP_TYPE_SET, name="retention.ms", value="5"),
                            ops.Op(type=ops.OP_TYPE_SET, name="cleanup.policy", value="delete"),
                            ops.Op(type=ops.OP_TYPE_APPEND, name="cleanup.policy", value="compact"),
                        ],
                    ),
                    ops.Resource(
                        resource=pb.ConfigResource(
                            type=pb.CONFIG_RESOURCE_TYPE_TOPIC, name="nobody"
                        ),
                        ops=[ops.Op(type=ops.OP_TYPE_SET, name="retention.ms", value="5")],
                    ),
                ]
            )
        )
        assert changed.resources[1].error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert changed.resources[0].resource == resource

        replaced = await client.replace_configs(
            pb.ReplaceConfigsRequest(
                resources=[
                    pb.ReplaceConfigsRequest.Resource(
                        resource=resource,
                        configs=[pb.ConfigEntry(name="segment.bytes", value="1048576")],
                    )
                ]
            )
        )
        assert not replaced.resources[0].HasField("error")
        found = cluster.voters[1].machine.image.config(ConfigResource(ResourceType.TOPIC, "t"))
        assert dict(found) == {"segment.bytes": "1048576"}


@on_loop
async def test_producer_id_blocks_do_not_overlap() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        epochs = await join(client, 1)
        request = pb.AllocateProducerIdsRequest(broker_id=1, broker_epoch=epochs[1])
        first = await client.allocate_producer_ids(request)
        second = await client.allocate_producer_ids(request)
        assert first.count > 0
        assert second.first_producer_id >= first.first_producer_id + first.count


@on_loop
async def test_isr_is_altered_by_its_leader_alone() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        epochs = await join(client, 1, 2)
        created = await client.create_topics(
            pb.CreateTopicsRequest(
                topics=[
                    pb.CreateTopicsRequest.Topic(
                        name="t", assignments=[pb.Assignment(broker_ids=[1, 2])]
                    )
                ]
            )
        )
        topic_id = created.topics[0].topic_id
        change = pb.AlterPartitionRequest.Partition(
            topic_id=topic_id,
            partition=0,
            leader_epoch=0,
            partition_epoch=0,
            isr=[pb.AlterPartitionRequest.IsrMember(broker_id=1, broker_epoch=epochs[1])],
        )
        other = await client.alter_partition(
            pb.AlterPartitionRequest(broker_id=2, broker_epoch=epochs[2], partitions=[change])
        )
        assert other.partitions[0].HasField("error")
        await beat(client, epochs, cluster.voters[1].machine.image.offset)
        answer = await client.alter_partition(
            pb.AlterPartitionRequest(broker_id=1, broker_epoch=epochs[1], partitions=[change])
        )
        (partition,) = answer.partitions
        assert not partition.HasField("error")
        assert (list(partition.isr), partition.partition_epoch) == ([1], 1)
        assert partition.leader_id == 1
        assert partition.min_insync_replicas == 1
        stale = await client.alter_partition(
            pb.AlterPartitionRequest(broker_id=1, broker_epoch=epochs[1], partitions=[change])
        )
        assert stale.partitions[0].error.code == ErrorCode.INVALID_UPDATE_VERSION


@on_loop
async def test_replicas_are_assigned_to_directories() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        epochs = await join(client, 1)
        directory = cluster.voters[1].machine.image.brokers[1].directories[0]
        created = await client.create_topics(new_topic("t"))
        answer = await client.assign_replicas_to_directories(
            pb.AssignReplicasToDirectoriesRequest(
                broker_id=1,
                broker_epoch=epochs[1],
                replicas=[
                    pb.AssignReplicasToDirectoriesRequest.Replica(
                        topic_id=created.topics[0].topic_id, partition=0, directory_id=directory
                    )
                ],
            )
        )
        assert not answer.replicas[0].HasField("error")


@on_loop
async def test_leaders_are_elected_on_demand() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        await client.create_topics(new_topic("t"))
        answer = await client.elect_leaders(
            pb.ElectLeadersRequest(
                election_type=pb.ELECTION_TYPE_PREFERRED,
                partitions=[
                    pb.TopicPartition(topic="t", partition=0),
                    pb.TopicPartition(topic="t", partition=9),
                ],
            )
        )
        assert [item.error.name for item in answer.partitions] == [
            "ELECTION_NOT_NEEDED",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]


@on_loop
async def test_reassignment_is_listed_until_it_is_cancelled() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        epochs = await join(client, 1, 2)
        await client.create_topics(
            pb.CreateTopicsRequest(
                topics=[
                    pb.CreateTopicsRequest.Topic(
                        name="t", assignments=[pb.Assignment(broker_ids=[1])]
                    )
                ]
            )
        )
        partition = pb.TopicPartition(topic="t", partition=0)
        alter = pb.AlterPartitionReassignmentsRequest
        moved = await client.alter_partition_reassignments(
            alter(
                partitions=[
                    alter.Partition(partition=partition, target=pb.Assignment(broker_ids=[2]))
                ]
            )
        )
        assert not moved.partitions[0].HasField("error")
        for wanted in (
            pb.ListPartitionReassignmentsRequest(all_partitions=True),
            pb.ListPartitionReassignmentsRequest(partitions=[partition]),
        ):
            listed = await client.list_partition_reassignments(wanted)
            (found,) = listed.partitions
            assert found.partition == partition
            assert list(found.adding_replicas) == [2]
            assert list(found.removing_replicas) == [1]
        cancelled = await client.alter_partition_reassignments(
            alter(partitions=[alter.Partition(partition=partition)])
        )
        assert not cancelled.partitions[0].HasField("error")
        machine = cluster.voters[1].machine
        await beat(client, epochs, machine.image.offset)
        await until(lambda: not machine.image.index.reassigning)
        after = await client.list_partition_reassignments(
            pb.ListPartitionReassignmentsRequest(all_partitions=True)
        )
        assert not after.partitions


@on_loop
async def test_features_are_updated_all_or_none() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        update = pb.UpdateFeaturesRequest
        answer = await client.update_features(
            update(
                updates=[
                    update.Update(
                        name="metadata.version", level=1, upgrade_type=update.UPGRADE_TYPE_UPGRADE
                    )
                ]
            )
        )
        assert [(item.name, item.level) for item in answer.features] == [("metadata.version", 1)]
        with pytest.raises(QuorumError) as refused:
            await client.update_features(
                update(
                    updates=[
                        update.Update(
                            name="metadata.version",
                            level=99,
                            upgrade_type=update.UPGRADE_TYPE_UPGRADE,
                        )
                    ]
                )
            )
        assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


@on_loop
async def test_quorum_is_described_with_voters_and_observers() -> None:
    async with Cluster(3) as cluster, cluster.client() as client:
        epochs = await join(client, 5)
        found = await client.describe_quorum()
        assert (found.leader_id, found.voter_id, found.leader_epoch) == (1, 1, 1)
        assert found.leader_address == cluster.addresses[1]
        assert found.is_controller_active
        assert [voter.replica_id for voter in found.voters] == [1, 2, 3]
        assert all(voter.lag == 0 for voter in found.voters)
        assert all(voter.last_caught_up_timestamp_ms > 1_600_000_000_000 for voter in found.voters)
        (observer,) = found.observers
        assert (observer.replica_id, observer.log_end_offset) == (5, epochs[5] + 1)
        assert found.high_watermark == cluster.voters[1].machine.image.offset + 1

        follower = await cluster.quorum_stub(2).DescribeQuorum(pb.DescribeQuorumRequest())
        assert (follower.voter_id, follower.leader_id) == (2, 1)
        assert not follower.is_controller_active
        assert not follower.voters[0].HasField("lag")


@on_loop
async def test_health_tells_the_active_controller_from_voters_that_only_feed() -> None:
    serving = health_pb2.HealthCheckResponse.SERVING
    not_serving = health_pb2.HealthCheckResponse.NOT_SERVING
    async with Cluster(2, leader=None) as cluster:

        async def health(voter_id: int) -> list[int]:
            stub: Any = health_pb2_grpc.HealthStub(cluster.channel(voter_id))
            return [
                (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status
                for name in ("", QUORUM_SERVICE, CONTROLLER_SERVICE)
            ]

        assert await health(1) == [not_serving] * 3
        assert cluster.voters[1].not_ready() == "no leader is known"
        await cluster.elect(1)
        for voter_id, expected in ((1, [serving] * 3), (2, [serving, serving, not_serving])):
            for _ in range(1000):
                if await health(voter_id) == expected:
                    break
            assert await health(voter_id) == expected


@on_loop
async def test_reflection_lists_the_services() -> None:
    async with Cluster(1) as cluster:
        channel: Any = cluster.channel(1)
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([request]))
        answers = [answer async for answer in call]
        names = {service.name for service in answers[0].list_services_response.service}
        assert {CONTROLLER_SERVICE, QUORUM_SERVICE, "grpc.health.v1.Health"} <= names


@on_loop
async def test_new_cluster_finalizes_its_metadata_version_once() -> None:
    async with Cluster(3) as cluster:
        image = cluster.voters[1].machine.image
        assert dict(image.features) == {"metadata.version": 1}
        await cluster.elect(2)
        await until(lambda: cluster.voters[2].machine.image.epoch == 2)
        assert dict(cluster.voters[2].machine.image.features) == {"metadata.version": 1}


@on_loop
async def test_silent_broker_is_fenced_after_its_session() -> None:
    now = [1_000_000]
    async with (
        Cluster(1, session_timeout_ms=3000, now_ms=lambda: now[0]) as cluster,
        cluster.client() as client,
    ):
        await join(client, 1)
        now[0] += 2_999
        machine = cluster.voters[1].machine
        await client.list_partition_reassignments(
            pb.ListPartitionReassignmentsRequest(all_partitions=True)
        )
        assert not machine.image.brokers[1].fenced
        now[0] += 2
        await until(lambda: machine.image.brokers[1].fenced)


def test_every_status_of_an_error_is_a_failure() -> None:
    from quorum.errors import grpc_status

    for code in ErrorCode:
        if code is not ErrorCode.NONE:
            assert grpc_status(code) is not grpc.StatusCode.OK
