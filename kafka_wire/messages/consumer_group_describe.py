"""ConsumerGroupDescribe (key 69): state, members and assignments of KIP-848 groups.

1 tells classic members from others (KIP-1099).
"""

from typing import Annotated

from kafka_wire.schema import (
    OPERATIONS_OMITTED,
    Bool,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    ignorable,
    message,
    since,
)


@message(api_key=69, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeRequest(Request, kw_only=True):
    group_ids: list[String]
    include_authorized_operations: Bool


class TopicPartitions(Struct, kw_only=True):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class Assignment(Struct, kw_only=True):
    topic_partitions: list[TopicPartitions]


class Member(Struct, kw_only=True):
    member_id: String
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Annotated[Int8, since(1), ignorable] = -1


class DescribedGroup(Struct, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    authorized_operations: Int32 = OPERATIONS_OMITTED


@message(api_key=69, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
