"""ListTransactions (key 66): the transactions that a broker coordinates (KIP-664).

1 filters by duration (KIP-994), 2 by a pattern (KIP-1152).
"""

from typing import Annotated

from kafka_wire.schema import Int16, Int32, Int64, Request, Response, String, Struct, message, since


@message(api_key=66, versions=(0, 2), flexible_since=0)
class ListTransactionsRequest(Request, kw_only=True):
    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[String | None, since(2)] = None


class TransactionState(Struct, kw_only=True):
    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(api_key=66, versions=(0, 2), flexible_since=0)
class ListTransactionsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]
