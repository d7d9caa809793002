"""DeleteTopics (key 20): deletes topics.

5 adds an error message, 6 names topics by id (KIP-516).
"""

from typing import Annotated

from kafka_wire.schema import (
    ZERO_UUID,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    ignorable,
    message,
    nullable_since,
    since,
    until,
)


class DeleteTopicState(Struct, kw_only=True):
    name: String | None = None
    topic_id: Uuid


@message(api_key=20, versions=(1, 6), flexible_since=4)
class DeleteTopicsRequest(Request, kw_only=True):
    topics: Annotated[list[DeleteTopicState], since(6)] = []
    topic_names: Annotated[list[String], until(5), ignorable] = []
    timeout_ms: Int32


class DeletableTopicResult(Struct, kw_only=True):
    name: Annotated[String | None, nullable_since(6)]
    topic_id: Annotated[Uuid, since(6), ignorable] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(5), ignorable] = None


@message(api_key=20, versions=(1, 6), flexible_since=4)
class DeleteTopicsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult]
