"""Fetch (key 1): reads record batches, for consumers and for followers.

7 brings fetch sessions (KIP-227), 9 the leader epoch (KIP-320), 11 the rack (KIP-392), 12 the
diverging epoch (KIP-595), 13 topic ids (KIP-516), 15 the replica's broker epoch (KIP-903), 16
endpoints of new leaders (KIP-951), 17 the replica's directory (KIP-853), 18 its high watermark
(KIP-1166).
"""

from typing import Annotated

from kafka_wire.schema import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    ignorable,
    message,
    since,
    tag,
    until,
)


class ReplicaState(Struct, kw_only=True):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct, kw_only=True):
    partition: Int32
    current_leader_epoch: Annotated[Int32, since(9), ignorable] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, since(17), tag(0), ignorable] = ZERO_UUID
    high_watermark: Annotated[Int64, since(18), tag(1), ignorable] = 2**63 - 1


class FetchTopic(Struct, kw_only=True):
    topic: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partitions: list[FetchPartition]


class ForgottenTopic(Struct, kw_only=True):
    topic: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partitions: list[Int32]


@message(api_key=1, versions=(4, 18), flexible_since=12)
class FetchRequest(Request, kw_only=True):
    cluster_id: Annotated[String | None, since(12), tag(0), ignorable] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tag(1)] = ReplicaState()
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2**31 - 1
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, since(7), ignorable] = 0
    session_epoch: Annotated[Int32, since(7), ignorable] = -1
    topics: list[FetchTopic]
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = []
    rack_id: Annotated[String, since(11), ignorable] = ""


class EpochEndOffset(Struct, kw_only=True):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct, kw_only=True):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct, kw_only=True):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tag(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, since(12), tag(2)] = SnapshotId()
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Records | None


class FetchableTopicResponse(Struct, kw_only=True):
    topic: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partitions: list[PartitionData]


class NodeEndpoint(Struct, kw_only=True):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=1, versions=(4, 18), flexible_since=12)
class FetchResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(7), ignorable] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: list[FetchableTopicResponse]
    node_endpoints: Annotated[list[NodeEndpoint], since(16), tag(0)] = []
