"""WriteTxnMarkers (key 27): the coordinator ends a transaction in the partitions' logs (KIP-98).

2 adds the transaction's version (KIP-1228).
"""

from typing import Annotated

from kafka_wire.schema import (
    Bool,
    Int8,
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
)


class WritableTxnMarkerTopic(Struct, kw_only=True):
    name: String
    partition_indexes: list[Int32]


class WritableTxnMarker(Struct, kw_only=True):
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, since(2), ignorable] = 0


@message(api_key=27, versions=(0, 2), flexible_since=1)
class WriteTxnMarkersRequest(Request, kw_only=True):
    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct, kw_only=True):
    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct, kw_only=True):
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@message(api_key=27, versions=(0, 2), flexible_since=1)
class WriteTxnMarkersResponse(Response, kw_only=True):
    markers: list[WritableTxnMarkerResult]
