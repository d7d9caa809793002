"""A valid request of every API that producers and consumers use, in every version.

They are for a real broker, and `prepare` makes a world in which the answers have something to
tell. Administration is in `kafka_admin_requests`.
"""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from kafka_wire.api_keys import ApiKey
from kafka_wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_versioned,
)
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    consumer_group_heartbeat,
    create_topics,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from kafka_wire.protocol import decode_response
from kafka_wire.records import ProducerStamp, Record, build_batch
from kafka_wire.schema import Request, Response
from kafka_wire.types import FIRST_OFFSET, ProducerEpoch, ProducerId, Sequence
from tests.support.raw_client import RawClient

TOPIC = "events"
MISSING_TOPIC = "missing"
GROUP = "readers"
NEW_GROUP = "new-readers"
TRANSACTIONAL_ID = "payments"
PROTOCOL = "range"
TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 30_000
LATEST_TIMESTAMP = -1
MAX_BYTES = 1_000_000
GROUP_KEY, TRANSACTION_KEY = 0, 1
_POLL_S = 0.02

Answer = TypeVar("Answer", bound=Response)


@dataclass(frozen=True, kw_only=True)
class World:
    """A connection to the broker, and what is there."""

    client: RawClient
    topic_id: bytes
    producer: ProducerStamp
    """Of the transaction that `TRANSACTIONAL_ID` has begun."""

    def join(self, group_id: str) -> tuple[str, int]:
        """Enter a group as its only member; returns the member id and the generation."""
        joined = ask(self.client, _joining(group_id), 5, join_group.JoinGroupResponse)
        assert joined.error_code == ErrorCode.NONE
        return joined.member_id, joined.generation_id


MakeRequest: TypeAlias = Callable[[World, int], Request]


def prepare(client: RawClient) -> World:
    """A topic with records, a group with offsets, coordinators, and an ongoing transaction."""
    topic = create_topics.CreatableTopic(
        name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    creation = create_topics.CreateTopicsRequest(topics=[topic])
    created = ask(client, creation, 7, create_topics.CreateTopicsResponse)
    for key, key_type in ((GROUP, GROUP_KEY), (TRANSACTIONAL_ID, TRANSACTION_KEY)):
        search = find_coordinator.FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        ask_until(
            client,
            search,
            4,
            find_coordinator.FindCoordinatorResponse,
            lambda found: found.coordinators[0].error_code == ErrorCode.NONE,
        )
    begun = ask_until(
        client,
        init_producer_id.InitProducerIdRequest(
            transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=SESSION_TIMEOUT_MS
        ),
        5,
        init_producer_id.InitProducerIdResponse,
        lambda answer: answer.error_code == ErrorCode.NONE,
    )
    producer = ProducerStamp(
        producer_id=ProducerId(begun.producer_id),
        producer_epoch=ProducerEpoch(begun.producer_epoch),
        base_sequence=Sequence(0),
    )
    world = World(client=client, topic_id=created.topics[0].topic_id, producer=producer)
    records = build_batch([_record()], producer=producer, is_transactional=True)
    ask_until(
        client,
        _producing(world, 12, records, transactional_id=TRANSACTIONAL_ID),
        12,
        produce.ProduceResponse,
        lambda answer: answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE,
    )
    ask(client, _offset_commit(world, 9), 9, offset_commit.OffsetCommitResponse)
    return world


def ask(client: RawClient, request: Request, version: int, kind: type[Answer]) -> Answer:
    answer = client.exchange(request, version)
    _, response = decode_response(answer, api_key=request.api_key, api_version=version)
    assert isinstance(response, kind)
    return response


def ask_until(
    client: RawClient,
    request: Request,
    version: int,
    kind: type[Answer],
    is_good: Callable[[Answer], bool],
) -> Answer:
    """Ask again until the answer is good: coordinators and leaders take a moment to be there."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while not is_good(answer := ask(client, request, version, kind)):
        assert time.monotonic() < deadline, f"still {answer!r}"
        time.sleep(_POLL_S)
    return answer


# Records


def _api_versions(_: World, version: int) -> Request:
    return api_versions.ApiVersionsRequest(client_software_name="test", client_software_version="1")


def _metadata(_: World, version: int) -> Request:
    names = (TOPIC, MISSING_TOPIC)
    return metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=version < 4,
        include_topic_authorized_operations=version >= 8,
        include_cluster_authorized_operations=8 <= version <= 10,
    )


def _produce(world: World, version: int) -> Request:
    return _producing(world, version, build_batch([_record()]), transactional_id=None)


def _producing(
    world: World, version: int, records: bytes, *, transactional_id: str | None
) -> Request:
    data = produce.PartitionProduceData(index=0, records=records)
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            produce.TopicProduceData(name=TOPIC, topic_id=world.topic_id, partition_data=[data])
        ],
    )


def _record() -> Record:
    return Record(FIRST_OFFSET, timestamp_ms=1_000, key=b"key", value=b"value")


def _fetch(world: World, version: int) -> Request:
    """The first partition is answered with records, the second with an error."""
    return fetch.FetchRequest(
        max_wait_ms=TIMEOUT_MS,
        min_bytes=1,
        topics=[
            fetch.FetchTopic(
                topic=TOPIC,
                topic_id=world.topic_id,
                partitions=[
                    fetch.FetchPartition(
                        partition=partition, fetch_offset=0, partition_max_bytes=MAX_BYTES
                    )
                    for partition in (0, 1)
                ],
            )
        ],
    )


def _list_offsets(_: World, version: int) -> Request:
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
    return list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[partition])],
        timeout_ms=TIMEOUT_MS,
    )


def _offset_for_leader_epoch(_: World, version: int) -> Request:
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])]
    )


# Groups


def _find_coordinator(_: World, version: int) -> Request:
    if version < 4:
        return find_coordinator.FindCoordinatorRequest(key=GROUP)
    return find_coordinator.FindCoordinatorRequest(coordinator_keys=[GROUP, NEW_GROUP])


def _join_group(_: World, version: int) -> Request:
    """From 5 on as a static member, which need not come back with the id it was given."""
    return _joining(f"join-{version}", instance_id=f"instance-{version}" if version >= 5 else None)


def _joining(group_id: str, *, instance_id: str | None = "instance") -> Request:
    subscription = encode_versioned(ConsumerProtocolSubscription(topics=[TOPIC]), 3)
    return join_group.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
    )


def _sync_group(world: World, version: int) -> Request:
    group_id = f"sync-{version}"
    member_id, generation_id = world.join(group_id)
    held = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=TOPIC, partitions=[0])]
    )
    return sync_group.SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name=PROTOCOL,
        assignments=[
            sync_group.SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_versioned(held, 3)
            )
        ],
    )


def _heartbeat(world: World, version: int) -> Request:
    group_id = f"heartbeat-{version}"
    member_id, generation_id = world.join(group_id)
    return heartbeat.HeartbeatRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id
    )


def _leave_group(world: World, version: int) -> Request:
    group_id = f"leave-{version}"
    member_id, _ = world.join(group_id)
    if version < 3:
        return leave_group.LeaveGroupRequest(group_id=group_id, member_id=member_id)
    return leave_group.LeaveGroupRequest(
        group_id=group_id, members=[leave_group.MemberIdentity(member_id=member_id)]
    )


def _consumer_group_heartbeat(_: World, version: int) -> Request:
    """From 1 on the member chooses its id."""
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=f"{NEW_GROUP}-{version}",
        member_id=str(uuid.uuid4()) if version >= 1 else "",
        member_epoch=0,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )


def _offset_commit(world: World, version: int) -> Request:
    partition = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="here"
    )
    return offset_commit.OffsetCommitRequest(
        group_id=GROUP,
        member_id="",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=TOPIC, topic_id=world.topic_id, partitions=[partition]
            )
        ],
    )


def _offset_fetch(world: World, version: int) -> Request:
    if version < 8:
        topic = offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        return offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=[topic])
    topics = [
        offset_fetch.OffsetFetchRequestTopics(
            name=TOPIC, topic_id=world.topic_id, partition_indexes=[0]
        )
    ]
    return offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
    )


# Transactions


def _init_producer_id(_: World, version: int) -> Request:
    return init_producer_id.InitProducerIdRequest(
        transactional_id=f"{TRANSACTIONAL_ID}-{version}", transaction_timeout_ms=SESSION_TIMEOUT_MS
    )


def _add_partitions_to_txn(world: World, version: int) -> Request:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
    producer_id, epoch = world.producer.producer_id, world.producer.producer_epoch
    if version < 4:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        transactions=[
            add_partitions_to_txn.AddPartitionsToTxnTransaction(
                transactional_id=TRANSACTIONAL_ID,
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=topics,
            )
        ]
    )


def _add_offsets_to_txn(world: World, version: int) -> Request:
    return add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=TRANSACTIONAL_ID,
        producer_id=world.producer.producer_id,
        producer_epoch=world.producer.producer_epoch,
        group_id=GROUP,
    )


def _txn_offset_commit(world: World, version: int) -> Request:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=TRANSACTIONAL_ID,
        group_id=f"{GROUP}-of-transaction",
        producer_id=world.producer.producer_id,
        producer_epoch=world.producer.producer_epoch,
        topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )


def _end_txn(world: World, version: int) -> Request:
    """Of a producer that has begun nothing, so that the ongoing transaction goes on."""
    other = f"ended-{version}"
    producer = ask_until(
        world.client,
        init_producer_id.InitProducerIdRequest(
            transactional_id=other, transaction_timeout_ms=SESSION_TIMEOUT_MS
        ),
        5,
        init_producer_id.InitProducerIdResponse,
        lambda answer: answer.error_code == ErrorCode.NONE,
    )
    return end_txn.EndTxnRequest(
        transactional_id=other,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=False,
    )


def _write_txn_markers(_: World, version: int) -> Request:
    """Of a producer that never wrote, and to a topic that is not there."""
    return write_txn_markers.WriteTxnMarkersRequest(
        markers=[
            write_txn_markers.WritableTxnMarker(
                producer_id=12345,
                producer_epoch=0,
                transaction_result=False,
                topics=[
                    write_txn_markers.WritableTxnMarkerTopic(
                        name=MISSING_TOPIC, partition_indexes=[0]
                    )
                ],
                coordinator_epoch=0,
            )
        ]
    )


# SASL, on a listener that has none


def _sasl_handshake(_: World, version: int) -> Request:
    return sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN")


def _sasl_authenticate(_: World, version: int) -> Request:
    return sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\x00user\x00password")


CLIENT_REQUESTS: dict[ApiKey, MakeRequest] = {
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.METADATA: _metadata,
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets_to_txn,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.END_TXN: _end_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.SASL_HANDSHAKE: _sasl_handshake,
    ApiKey.SASL_AUTHENTICATE: _sasl_authenticate,
}
