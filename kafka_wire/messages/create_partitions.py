"""CreatePartitions (key 37): adds partitions to topics (KIP-195)."""

from kafka_wire.schema import Bool, Int16, Int32, Request, Response, String, Struct, message


class CreatePartitionsAssignment(Struct, kw_only=True):
    broker_ids: list[Int32]


class CreatePartitionsTopic(Struct, kw_only=True):
    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


@message(api_key=37, versions=(0, 3), flexible_since=2)
class CreatePartitionsRequest(Request, kw_only=True):
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct, kw_only=True):
    name: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=37, versions=(0, 3), flexible_since=2)
class CreatePartitionsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
