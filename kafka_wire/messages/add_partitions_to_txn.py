"""AddPartitionsToTxn (key 24): adds partitions to a transaction (KIP-98).

From 4 on a broker asks for several transactions at once, or only verifies (KIP-890); clients
stay below.
"""

from typing import Annotated

from kafka_wire.schema import (
    Bool,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Struct,
    ignorable,
    message,
    since,
    until,
)


class AddPartitionsToTxnTopic(Struct, kw_only=True):
    name: String
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Struct, kw_only=True):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic]


@message(api_key=24, versions=(0, 5), flexible_since=3)
class AddPartitionsToTxnRequest(Request, kw_only=True):
    transactions: Annotated[list[AddPartitionsToTxnTransaction], since(4)] = []
    v3_and_below_transactional_id: Annotated[String, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], until(3)] = []


class AddPartitionsToTxnPartitionResult(Struct, kw_only=True):
    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct, kw_only=True):
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct, kw_only=True):
    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(api_key=24, versions=(0, 5), flexible_since=3)
class AddPartitionsToTxnResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = []
