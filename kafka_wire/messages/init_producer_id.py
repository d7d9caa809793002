"""InitProducerId (key 22): a producer id and epoch (KIP-98).

3 lets a producer bump its own epoch (KIP-360), 4 tells that it was fenced (KIP-588), 5 that its
transaction must abort (KIP-890), 6 serves two-phase commit (KIP-939).
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


@message(api_key=22, versions=(0, 6), flexible_since=2)
class InitProducerIdRequest(Request, kw_only=True):
    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2pc: Annotated[Bool, since(6)] = False
    keep_prepared_txn: Annotated[Bool, since(6)] = False


@message(api_key=22, versions=(0, 6), flexible_since=2)
class InitProducerIdResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Annotated[Int64, since(6), ignorable] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, since(6), ignorable] = -1
