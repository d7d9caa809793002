"""DescribeTransactions (key 65): state and partitions of transactions (KIP-664)."""

from kafka_wire.schema import Int16, Int32, Int64, Request, Response, String, Struct, message


@message(api_key=65, versions=(0, 0), flexible_since=0)
class DescribeTransactionsRequest(Request, kw_only=True):
    transactional_ids: list[String]


class TopicData(Struct, kw_only=True):
    topic: String
    partitions: list[Int32]


class TransactionState(Struct, kw_only=True):
    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


@message(api_key=65, versions=(0, 0), flexible_since=0)
class DescribeTransactionsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState]
