"""`floodmark.quorum.v1.ControllerService`: commands for the active controller."""

# ruff: noqa: N802 - the methods have the names that they have in the interface

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import grpc.aio

from quorum.active_controller import ActiveController, Decide
from quorum.api import quorum_pb2 as pb
from quorum.api import quorum_pb2_grpc
from quorum.metadata import commands as core
from quorum.service import answers, commands
from quorum.service.handling import answered, unexpected

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Q = TypeVar("Q")
A = TypeVar("A", bound=core.Answer)
R = TypeVar("R")


class ControllerService(quorum_pb2_grpc.ControllerServiceServicer):
    """Each method names the command, the answer that belongs to it, and the two translations."""

    def __init__(self, controller: ActiveController) -> None:
        self._controller = controller

    async def RegisterBroker(
        self, request: pb.RegisterBrokerRequest, context: Context
    ) -> pb.RegisterBrokerResponse:
        return await self._run(
            request,
            context,
            commands.register_broker,
            core.BrokerRegistered,
            answers.broker_registered,
        )

    async def Heartbeat(
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatResponse:
        return await self._run(
            request, context, commands.heartbeat, core.HeartbeatAnswer, answers.heartbeat
        )

    async def UnregisterBroker(
        self, request: pb.UnregisterBrokerRequest, context: Context
    ) -> pb.UnregisterBrokerResponse:
        return await self._run(
            request,
            context,
            commands.unregister_broker,
            core.BrokerUnregistered,
            answers.broker_unregistered,
        )

    async def AlterPartition(
        self, request: pb.AlterPartitionRequest, context: Context
    ) -> pb.AlterPartitionResponse:
        return await self._run(
            request,
            context,
            commands.alter_partition,
            core.PartitionsAltered,
            answers.partitions_altered,
        )

    async def AssignReplicasToDirectories(
        self, request: pb.AssignReplicasToDirectoriesRequest, context: Context
    ) -> pb.AssignReplicasToDirectoriesResponse:
        return await self._run(
            request,
            context,
            commands.assign_replicas,
            core.ReplicasAssigned,
            answers.replicas_assigned,
        )

    async def AllocateProducerIds(
        self, request: pb.AllocateProducerIdsRequest, context: Context
    ) -> pb.AllocateProducerIdsResponse:
        return await self._run(
            request,
            context,
            commands.allocate_producer_ids,
            core.ProducerIdsAllocated,
            answers.producer_ids_allocated,
        )

    async def CreateTopics(
        self, request: pb.CreateTopicsRequest, context: Context
    ) -> pb.CreateTopicsResponse:
        return await self._run(
            request, context, commands.create_topics, core.TopicsCreated, answers.topics_created
        )

    async def DeleteTopics(
        self, request: pb.DeleteTopicsRequest, context: Context
    ) -> pb.DeleteTopicsResponse:
        return await self._run(
            request, context, commands.delete_topics, core.TopicsDeleted, answers.topics_deleted
        )

    async def CreatePartitions(
        self, request: pb.CreatePartitionsRequest, context: Context
    ) -> pb.CreatePartitionsResponse:
        return await self._run(
            request,
            context,
            commands.create_partitions,
            core.PartitionsCreated,
            answers.partitions_created,
        )

    async def IncrementalAlterConfigs(
        self, request: pb.IncrementalAlterConfigsRequest, context: Context
    ) -> pb.IncrementalAlterConfigsResponse:
        return await self._run(
            request,
            context,
            commands.incremental_alter_configs,
            core.ConfigsAltered,
            answers.configs_altered,
        )

    async def ReplaceConfigs(
        self, request: pb.ReplaceConfigsRequest, context: Context
    ) -> pb.ReplaceConfigsResponse:
        return await self._run(
            request,
            context,
            commands.replace_configs,
            core.ConfigsAltered,
            answers.configs_replaced,
        )

    async def ElectLeaders(
        self, request: pb.ElectLeadersRequest, context: Context
    ) -> pb.ElectLeadersResponse:
        return await self._run(
            request, context, commands.elect_leaders, core.LeadersElected, answers.leaders_elected
        )

    async def AlterPartitionReassignments(
        self, request: pb.AlterPartitionReassignmentsRequest, context: Context
    ) -> pb.AlterPartitionReassignmentsResponse:
        return await self._run(
            request,
            context,
            commands.alter_partition_reassignments,
            core.PartitionReassignmentsAltered,
            answers.reassignments_altered,
        )

    async def ListPartitionReassignments(
        self, request: pb.ListPartitionReassignmentsRequest, context: Context
    ) -> pb.ListPartitionReassignmentsResponse:
        async def call(timeout_s: float) -> pb.ListPartitionReassignmentsResponse:
            wanted = commands.listed_partitions(request)
            image = await self._controller.read(timeout_s=timeout_s)
            return answers.reassignments_listed(image, wanted)

        return await answered(context, call)

    async def UpdateFeatures(
        self, request: pb.UpdateFeaturesRequest, context: Context
    ) -> pb.UpdateFeaturesResponse:
        return await self._run(
            request,
            context,
            commands.update_features,
            core.FeaturesUpdated,
            answers.features_updated,
        )

    async def _run(
        self,
        request: Q,
        context: Context,
        to_command: Callable[[Q], core.Command | Decide],
        answer_type: type[A],
        to_response: Callable[[A], R],
    ) -> R:
        async def call(timeout_s: float) -> R:
            answer = await self._controller.submit(to_command(request), timeout_s=timeout_s)
            if not isinstance(answer, answer_type):
                raise unexpected(answer)
            return to_response(answer)

        return await answered(context, call)
