"""EndTxn (key 26): commits or aborts a transaction (KIP-98).

5 returns the producer id and epoch for the next transaction (KIP-890).
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
    ignorable,
    message,
    since,
)


@message(api_key=26, versions=(0, 5), flexible_since=3)
class EndTxnRequest(Request, kw_only=True):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(api_key=26, versions=(0, 5), flexible_since=3)
class EndTxnResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5), ignorable] = -1
    producer_epoch: Annotated[Int16, since(5), ignorable] = -1
