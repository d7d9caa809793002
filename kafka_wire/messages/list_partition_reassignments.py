"""ListPartitionReassignments (key 46): the moves that are under way (KIP-455)."""

from kafka_wire.schema import Int16, Int32, Request, Response, String, Struct, message


class ListPartitionReassignmentsTopics(Struct, kw_only=True):
    name: String
    partition_indexes: list[Int32]


@message(api_key=46, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsRequest(Request, kw_only=True):
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct, kw_only=True):
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


class OngoingTopicReassignment(Struct, kw_only=True):
    name: String
    partitions: list[OngoingPartitionReassignment]


@message(api_key=46, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    topics: list[OngoingTopicReassignment]
