"""Bad input: a typed error, nothing changed, and the voter goes on."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from kafka_wire.error_codes import ErrorCode
from quorum.api import quorum_pb2 as pb
from quorum.errors import STATUS_DETAILS_KEY, QuorumError
from quorum.service.commands import MAX_ITEMS
from quorum.service.listener import MAX_REQUEST_BYTES
from tests.quorum.service.voters import (
    Cluster,
    failing,
    join,
    new_topic,
    on_loop,
    registration,
    request_id,
)

Stub = Any


def error_info(error: grpc.aio.AioRpcError) -> Any:
    """The one ErrorInfo that a refusal must have."""
    for key, value in error.trailing_metadata() or ():
        if key == STATUS_DETAILS_KEY:
            assert isinstance(value, bytes)
            (detail,) = status_pb2.Status.FromString(value).details
            info = error_details_pb2.ErrorInfo()
            assert isinstance(detail, any_pb2.Any)
            assert detail.Unpack(info)
            assert info.domain == "floodmark"
            return info
    raise AssertionError(f"no details: {error}")


def _create_without_id(stub: Stub) -> Awaitable[Any]:
    return stub.CreateTopics(new_topic("t"))  # type: ignore[no-any-return]


def _create_with_short_id(stub: Stub) -> Awaitable[Any]:
    request = new_topic("t")
    request.request_id = b"short"
    return stub.CreateTopics(request)  # type: ignore[no-any-return]


def _too_many_items(stub: Stub) -> Awaitable[Any]:
    topics = [pb.DeleteTopicsRequest.Topic(name="t")] * (MAX_ITEMS + 1)
    return stub.DeleteTopics(  # type: ignore[no-any-return]
        pb.DeleteTopicsRequest(request_id=request_id(), topics=topics)
    )


def _no_election_type(stub: Stub) -> Awaitable[Any]:
    return stub.ElectLeaders(  # type: ignore[no-any-return]
        pb.ElectLeadersRequest(request_id=request_id(), all_partitions=True)
    )


def _topic_without_name_or_id(stub: Stub) -> Awaitable[Any]:
    return stub.DeleteTopics(  # type: ignore[no-any-return]
        pb.DeleteTopicsRequest(request_id=request_id(), topics=[pb.DeleteTopicsRequest.Topic()])
    )


def _bad_resource_type(stub: Stub) -> Awaitable[Any]:
    resource = pb.ReplaceConfigsRequest.Resource(resource=pb.ConfigResource(name="t"))
    return stub.ReplaceConfigs(  # type: ignore[no-any-return]
        pb.ReplaceConfigsRequest(request_id=request_id(), resources=[resource])
    )


def _bad_topic_id(stub: Stub) -> Awaitable[Any]:
    return stub.AlterPartition(  # type: ignore[no-any-return]
        pb.AlterPartitionRequest(
            broker_id=1, partitions=[pb.AlterPartitionRequest.Partition(topic_id=b"x")]
        )
    )


def _unknown_broker(stub: Stub) -> Awaitable[Any]:
    return stub.Heartbeat(pb.HeartbeatRequest(broker_id=99, broker_epoch=1))  # type: ignore[no-any-return]


def _stale_heartbeat(stub: Stub) -> Awaitable[Any]:
    return stub.Heartbeat(pb.HeartbeatRequest(broker_id=1, broker_epoch=1))  # type: ignore[no-any-return]


def _stale_alter_partition(stub: Stub) -> Awaitable[Any]:
    return stub.AlterPartition(pb.AlterPartitionRequest(broker_id=1, broker_epoch=1))  # type: ignore[no-any-return]


def _stale_producer_ids(stub: Stub) -> Awaitable[Any]:
    return stub.AllocateProducerIds(  # type: ignore[no-any-return]
        pb.AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
    )


def _other_cluster(stub: Stub) -> Awaitable[Any]:
    return stub.RegisterBroker(registration(5, cluster_id="other"))  # type: ignore[no-any-return]


def _short_incarnation(stub: Stub) -> Awaitable[Any]:
    return stub.RegisterBroker(registration(5, incarnation_id=b"x"))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("call", "status", "reason"),
    [
        (_create_without_id, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (_create_with_short_id, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (_too_many_items, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (_no_election_type, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (_topic_without_name_or_id, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (_bad_resource_type, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (_bad_topic_id, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (_short_incarnation, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (_unknown_broker, "NOT_FOUND", "BROKER_ID_NOT_REGISTERED"),
        (_stale_heartbeat, "FAILED_PRECONDITION", "STALE_BROKER_EPOCH"),
        (_stale_alter_partition, "FAILED_PRECONDITION", "STALE_BROKER_EPOCH"),
        (_stale_producer_ids, "FAILED_PRECONDITION", "STALE_BROKER_EPOCH"),
        (_other_cluster, "FAILED_PRECONDITION", "INCONSISTENT_CLUSTER_ID"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_bad_request_has_a_typed_error_and_changes_nothing(
    call: Callable[[Stub], Awaitable[Any]], status: str, reason: str
) -> None:
    @on_loop
    async def run() -> None:
        async with Cluster(1) as cluster, cluster.client() as client:
            await join(client, 1)
            before = cluster.voters[1].machine.image
            error = await failing(call(cluster.controller_stub(1)))
            assert error.code() is grpc.StatusCode[status]
            assert error_info(error).reason == reason
            assert error.details()
            assert cluster.voters[1].machine.image is before
            await client.create_topics(new_topic("after"))

    run()


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (pb.CreateTopicsRequest.Topic(name=""), "INVALID_TOPIC_EXCEPTION"),
        (pb.CreateTopicsRequest.Topic(name=".."), "INVALID_TOPIC_EXCEPTION"),
        (pb.CreateTopicsRequest.Topic(name="a/b"), "INVALID_TOPIC_EXCEPTION"),
        (pb.CreateTopicsRequest.Topic(name="x" * 250), "INVALID_TOPIC_EXCEPTION"),
        (pb.CreateTopicsRequest.Topic(name="t", num_partitions=0), "INVALID_PARTITIONS"),
        (pb.CreateTopicsRequest.Topic(name="t", num_partitions=-5), "INVALID_PARTITIONS"),
        (
            pb.CreateTopicsRequest.Topic(name="t", replication_factor=0),
            "INVALID_REPLICATION_FACTOR",
        ),
        (
            pb.CreateTopicsRequest.Topic(name="t", replication_factor=2**31 - 1),
            "INVALID_REPLICATION_FACTOR",
        ),
        (
            pb.CreateTopicsRequest.Topic(name="t", assignments=[pb.Assignment(broker_ids=[1, 1])]),
            "INVALID_REPLICA_ASSIGNMENT",
        ),
        (
            pb.CreateTopicsRequest.Topic(
                name="t", configs=[pb.ConfigEntry(name="no.such.key", value="1")]
            ),
            "INVALID_CONFIG",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_topic_is_refused_alone(topic: pb.CreateTopicsRequest.Topic, error: str) -> None:
    @on_loop
    async def run() -> None:
        async with Cluster(1) as cluster, cluster.client() as client:
            await join(client, 1)
            good = pb.CreateTopicsRequest.Topic(name="good", num_partitions=1, replication_factor=1)
            answer = await client.create_topics(pb.CreateTopicsRequest(topics=[topic, good]))
            assert answer.topics[0].error.name == error
            assert answer.topics[0].error.message
            assert not answer.topics[1].HasField("error")
            assert list(cluster.voters[1].machine.image.topic_ids) == ["good"]

    run()


@on_loop
async def test_too_many_partitions_are_refused() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        before = cluster.voters[1].machine.image
        with pytest.raises(QuorumError) as refused:
            await client.create_topics(new_topic("t", partitions=2**31 - 1))
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        assert cluster.voters[1].machine.image is before


@on_loop
async def test_oversized_message_is_refused_before_it_is_taken() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        before = cluster.voters[1].machine.image
        request = pb.DeleteTopicsRequest(
            request_id=request_id(),
            topics=[pb.DeleteTopicsRequest.Topic(name="x" * (MAX_REQUEST_BYTES + 1))],
        )
        commands = cluster.voters[1].controller.counters.commands
        error = await failing(cluster.controller_stub(1).DeleteTopics(request))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert cluster.voters[1].machine.image is before
        assert cluster.voters[1].controller.counters.commands == commands
        await client.create_topics(new_topic("after"))


@on_loop
async def test_follower_answers_with_the_leaders_address() -> None:
    async with Cluster(3) as cluster:
        request = new_topic("t")
        request.request_id = request_id()
        error = await failing(cluster.controller_stub(2).CreateTopics(request))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        info = error_info(error)
        assert info.reason == "NOT_CONTROLLER"
        assert dict(info.metadata) == {
            "leader_id": "1",
            "leader_address": cluster.addresses[1],
            "leader_epoch": "1",
        }


@on_loop
async def test_unknown_outcome_says_so_before_the_callers_deadline() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        cluster.raft.is_automatic = False
        request = new_topic("t")
        request.request_id = request_id()
        error = await failing(cluster.controller_stub(1).CreateTopics(request, timeout=1.0))
        assert error.code() is grpc.StatusCode.UNKNOWN
        assert error_info(error).reason == "OUTCOME_UNKNOWN"


@on_loop
async def test_negative_offset_is_refused() -> None:
    async with Cluster(1) as cluster:
        call = cluster.quorum_stub(1).FetchMetadata(pb.FetchMetadataRequest(from_offset=-1))
        error = await failing(call.read())
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error_info(error).reason == "OFFSET_OUT_OF_RANGE"


@on_loop
async def test_stream_beyond_the_limit_is_refused_with_a_typed_error() -> None:
    async with Cluster(1) as cluster:
        cluster.voters[1].feed._max_streams = 0
        call = cluster.quorum_stub(1).FetchMetadata(pb.FetchMetadataRequest())
        error = await failing(call.read())
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert error_info(error).reason == "OVERLOADED"


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x00" * 1000,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 5000,
        bytes(range(256)) * 100,
    ],
    ids=["nothing", "zeros", "http1", "broken http2", "bytes"],
)
def test_garbage_on_the_port_harms_nobody(garbage: bytes) -> None:
    @on_loop
    async def run() -> None:
        async with Cluster(1) as cluster, cluster.client() as client:
            host, _, port = cluster.addresses[1].rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(garbage + os.urandom(100))
                await writer.drain()
                writer.write_eof()
                while await reader.read(4096):
                    pass
                writer.close()
                await writer.wait_closed()
            except OSError:
                writer.transport.abort()  # it hung up, as it may
            await join(client, 1)

    run()


@on_loop
async def test_garbage_in_place_of_a_message_is_an_error_of_the_call_alone() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        call = cluster.channel(1).unary_unary(
            "/floodmark.quorum.v1.ControllerService/CreateTopics",
            request_serializer=lambda data: data,
            response_deserializer=lambda data: data,
        )
        error = await failing(call(b"\xff\xff\xff\xff\xff"))
        assert error.code() is not grpc.StatusCode.OK
        await join(client, 1)
