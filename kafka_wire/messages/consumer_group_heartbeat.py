"""ConsumerGroupHeartbeat (key 68): a member of a KIP-848 group joins, stays, and leaves.

Member epoch 0 joins, -1 leaves, -2 leaves for a while (static members). 1 subscribes by a
pattern, and lets the client choose the member id.
"""

from typing import Annotated

from kafka_wire.schema import Int16, Int32, Request, Response, String, Struct, Uuid, message, since


class TopicPartitions(Struct, kw_only=True):
    topic_id: Uuid
    partitions: list[Int32]


@message(api_key=68, versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatRequest(Request, kw_only=True):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: Annotated[String | None, since(1)] = None
    server_assignor: String | None = None
    topic_partitions: list[TopicPartitions] | None = None


class Assignment(Struct, kw_only=True):
    topic_partitions: list[TopicPartitions]


@message(api_key=68, versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
