"""Record batches of message format 2: parse, check, patch, build and read them."""

from kafka_wire.records.batch import (
    BatchHeader,
    TimestampType,
    assign_offsets,
    iter_batches,
    iter_fetched_batches,
    parse_header,
    set_log_append_time,
    set_max_timestamp,
    validate_batch,
    validate_produced_batch,
)
from kafka_wire.records.builder import (
    BatchBuilder,
    ProducerStamp,
    build_batch,
    max_record_size_bytes,
    rewrite_batch,
)
from kafka_wire.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_marker,
    parse_control_record,
)
from kafka_wire.records.reader import Headers, Record, iter_records

__all__ = [
    "BatchBuilder",
    "BatchHeader",
    "ControlRecordType",
    "EndTransactionMarker",
    "Headers",
    "ProducerStamp",
    "Record",
    "TimestampType",
    "assign_offsets",
    "build_batch",
    "build_end_transaction_marker",
    "iter_batches",
    "iter_fetched_batches",
    "iter_records",
    "max_record_size_bytes",
    "parse_control_record",
    "parse_header",
    "rewrite_batch",
    "set_log_append_time",
    "set_max_timestamp",
    "validate_batch",
    "validate_produced_batch",
]
