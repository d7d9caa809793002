"""CreateTopics (key 19): creates topics.

4 lets the broker choose partitions and replication factor (-1, KIP-464), 5 returns the
configuration (KIP-525), 7 the topic id (KIP-516).
"""

from typing import Annotated

from kafka_wire.schema import (
    ZERO_UUID,
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
    tag,
)


class CreatableReplicaAssignment(Struct, kw_only=True):
    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Struct, kw_only=True):
    name: String
    value: String | None


class CreatableTopic(Struct, kw_only=True):
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(api_key=19, versions=(2, 7), flexible_since=5)
class CreateTopicsRequest(Request, kw_only=True):
    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopicConfigs(Struct, kw_only=True):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


class CreatableTopicResult(Struct, kw_only=True):
    name: String
    topic_id: Annotated[Uuid, since(7), ignorable] = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = None
    topic_config_error_code: Annotated[Int16, since(5), tag(0), ignorable] = 0
    num_partitions: Annotated[Int32, since(5), ignorable] = -1
    replication_factor: Annotated[Int16, since(5), ignorable] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5), ignorable] = []


@message(api_key=19, versions=(2, 7), flexible_since=5)
class CreateTopicsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult]
