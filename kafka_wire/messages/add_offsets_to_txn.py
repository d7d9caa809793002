"""AddOffsetsToTxn (key 25): adds a group's offsets to a transaction (KIP-98)."""

from kafka_wire.schema import Int16, Int32, Int64, Request, Response, String, message


@message(api_key=25, versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnRequest(Request, kw_only=True):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(api_key=25, versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
