"""The quorum's client: finds the leader, follows it, and never guesses an outcome.

    async with QuorumClient(["127.0.0.1:9093"]) as client:
        answer = await client.create_topics(pb.CreateTopicsRequest(topics=[...]))

Each method takes and returns the messages of quorum.proto. A request without a request id is given
one, so that every attempt of the call carries the same; a caller that wants to repeat a whole call
chooses the id itself. `QuorumError`: it did not and will not happen. `OutcomeUnknownError`: it may.
"""

import uuid
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

import grpc.aio
from google.protobuf.message import Message

from floodmark.tls import TlsMaterial
from kafka_wire.error_codes import ErrorCode
from quorum.api import quorum_pb2 as pb
from quorum.api.quorum_pb2_grpc import QuorumServiceStub
from quorum.client.attempts import ATTEMPT_TIMEOUT_S, LeaderCalls
from quorum.client.channels import Channels
from quorum.client.metadata_stream import MetadataEvent, MetadataStream
from quorum.errors import QuorumError

if TYPE_CHECKING:
    from quorum.api.quorum_pb2_grpc import QuorumServiceAsyncStub
    from quorum.client.attempts import Rpc

DEFAULT_TIMEOUT_S: Final = 15.0
REQUEST_ID: Final = "request_id"

Q = TypeVar("Q", bound=Message)
R = TypeVar("R")


class QuorumClient:
    """For one event loop. `timeout_s` is how long a call may take, with all its attempts."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        tls: TlsMaterial | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        attempt_timeout_s: float = ATTEMPT_TIMEOUT_S,
    ) -> None:
        self._channels = Channels(addresses, tls)
        self._leader = LeaderCalls(self._channels, attempt_timeout_s=attempt_timeout_s)
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channels.close()

    @property
    def attempts(self) -> int:
        """How many attempts all calls together took."""
        return self._leader.attempts

    # --------------------------------------------------------------------------- brokers

    async def register_broker(
        self, request: pb.RegisterBrokerRequest, *, timeout_s: float | None = None
    ) -> pb.RegisterBrokerResponse:
        return await self._call(lambda stub: stub.RegisterBroker, request, timeout_s)

    async def heartbeat(
        self, request: pb.HeartbeatRequest, *, timeout_s: float | None = None
    ) -> pb.HeartbeatResponse:
        """A lease counts from before this call: its attempts may be later, the answer's may not."""
        return await self._call(lambda stub: stub.Heartbeat, request, timeout_s)

    async def unregister_broker(
        self, request: pb.UnregisterBrokerRequest, *, timeout_s: float | None = None
    ) -> pb.UnregisterBrokerResponse:
        return await self._call(lambda stub: stub.UnregisterBroker, request, timeout_s)

    async def alter_partition(
        self, request: pb.AlterPartitionRequest, *, timeout_s: float | None = None
    ) -> pb.AlterPartitionResponse:
        return await self._call(lambda stub: stub.AlterPartition, request, timeout_s)

    async def assign_replicas_to_directories(
        self,
        request: pb.AssignReplicasToDirectoriesRequest,
        *,
        timeout_s: float | None = None,
    ) -> pb.AssignReplicasToDirectoriesResponse:
        return await self._call(lambda stub: stub.AssignReplicasToDirectories, request, timeout_s)

    async def allocate_producer_ids(
        self, request: pb.AllocateProducerIdsRequest, *, timeout_s: float | None = None
    ) -> pb.AllocateProducerIdsResponse:
        return await self._call(lambda stub: stub.AllocateProducerIds, request, timeout_s)

    # -------------------------------------------------------------------- administration

    async def create_topics(
        self, request: pb.CreateTopicsRequest, *, timeout_s: float | None = None
    ) -> pb.CreateTopicsResponse:
        return await self._call(lambda stub: stub.CreateTopics, request, timeout_s)

    async def delete_topics(
        self, request: pb.DeleteTopicsRequest, *, timeout_s: float | None = None
    ) -> pb.DeleteTopicsResponse:
        return await self._call(lambda stub: stub.DeleteTopics, request, timeout_s)

    async def create_partitions(
        self, request: pb.CreatePartitionsRequest, *, timeout_s: float | None = None
    ) -> pb.CreatePartitionsResponse:
        return await self._call(lambda stub: stub.CreatePartitions, request, timeout_s)

    async def incremental_alter_configs(
        self, request: pb.IncrementalAlterConfigsRequest, *, timeout_s: float | None = None
    ) -> pb.IncrementalAlterConfigsResponse:
        return await self._call(lambda stub: stub.IncrementalAlterConfigs, request, timeout_s)

    async def replace_configs(
        self, request: pb.ReplaceConfigsRequest, *, timeout_s: float | None = None
    ) -> pb.ReplaceConfigsResponse:
        return await self._call(lambda stub: stub.ReplaceConfigs, request, timeout_s)

    async def elect_leaders(
        self, request: pb.ElectLeadersRequest, *, timeout_s: float | None = None
    ) -> pb.ElectLeadersResponse:
        return await self._call(lambda stub: stub.ElectLeaders, request, timeout_s)

    async def alter_partition_reassignments(
        self,
        request: pb.AlterPartitionReassignmentsRequest,
        *,
        timeout_s: float | None = None,
    ) -> pb.AlterPartitionReassignmentsResponse:
        return await self._call(lambda stub: stub.AlterPartitionReassignments, request, timeout_s)

    async def list_partition_reassignments(
        self,
        request: pb.ListPartitionReassignmentsRequest,
        *,
        timeout_s: float | None = None,
    ) -> pb.ListPartitionReassignmentsResponse:
        return await self._call(lambda stub: stub.ListPartitionReassignments, request, timeout_s)

    async def update_features(
        self, request: pb.UpdateFeaturesRequest, *, timeout_s: float | None = None
    ) -> pb.UpdateFeaturesResponse:
        return await self._call(lambda stub: stub.UpdateFeatures, request, timeout_s)

    # ------------------------------------------------------------------------- any voter

    async def describe_quorum(self, *, timeout_s: float | None = None) -> pb.DescribeQuorumResponse:
        """As the leader sees it; without a leader, as the last voter that answered does."""
        found: pb.DescribeQuorumResponse | None = None
        limit_s = (timeout_s or self._timeout_s) / (len(self._channels.addresses) + 1)
        for address in (self._leader.address, *self._channels.addresses):
            try:
                answer = await self._describe(address, limit_s)
            except grpc.aio.AioRpcError:
                continue
            if answer.HasField("leader_id") and answer.leader_id == answer.voter_id:
                return answer
            found = answer
        if found is None:
            raise QuorumError(ErrorCode.BROKER_NOT_AVAILABLE, "no voter answers")
        return found

    async def _describe(self, address: str, timeout_s: float) -> pb.DescribeQuorumResponse:
        stub: QuorumServiceAsyncStub = QuorumServiceStub(self._channels[address])
        return await stub.DescribeQuorum(pb.DescribeQuorumRequest(), timeout=timeout_s)

    def metadata_stream(
        self, from_offset: int = 0, *, broker_id: int | None = None
    ) -> AsyncGenerator[MetadataEvent, None]:
        """Committed metadata from an offset on, without a gap or a repetition, for ever."""
        stream = MetadataStream(self._channels, from_offset=from_offset, broker_id=broker_id)
        return stream.events()

    # ------------------------------------------------------------------------- internals

    async def _call(self, rpc: "Rpc[Q, R]", request: Q, timeout_s: float | None) -> R:
        return await self._leader.call(rpc, _with_request_id(request), timeout_s or self._timeout_s)


def _with_request_id(request: Q) -> Q:
    if REQUEST_ID not in request.DESCRIPTOR.fields_by_name or getattr(request, REQUEST_ID):
        return request
    copy = type(request)()
    copy.CopyFrom(request)
    setattr(copy, REQUEST_ID, uuid.uuid4().bytes)
    return copy
