"""ElectLeaders (key 43): elects preferred leaders (KIP-183).

1 can ask for an unclean election, too (KIP-460).
"""

from typing import Annotated

from kafka_wire.schema import Int8, Int16, Int32, Request, Response, String, Struct, message, since


class TopicPartitions(Struct, kw_only=True):
    topic: String
    partitions: list[Int32]


@message(api_key=43, versions=(0, 2), flexible_since=2)
class ElectLeadersRequest(Request, kw_only=True):
    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60000


class PartitionResult(Struct, kw_only=True):
    partition_id: Int32
    error_code: Int16 = 0
    error_message: String | None = None


class ReplicaElectionResult(Struct, kw_only=True):
    topic: String
    partition_result: list[PartitionResult]


@message(api_key=43, versions=(0, 2), flexible_since=2)
class ElectLeadersResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: list[ReplicaElectionResult]
