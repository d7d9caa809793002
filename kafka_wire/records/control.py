"""Control batches: the markers that end a transaction in each of its partitions (KIP-98).

A control batch holds one record. Its key says what kind of marker it is, its value holds the
details. Readers never hand it to a user, but it takes an offset like any record.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kafka_wire.errors import MalformedBatchError
from kafka_wire.records.builder import BatchBuilder, ProducerStamp
from kafka_wire.records.reader import Record
from kafka_wire.types import FIRST_OFFSET, LeaderEpoch, Offset, ProducerEpoch, ProducerId

_VERSION: Final = 0
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class ControlRecordType(IntEnum):
    """The kinds of control records; those above COMMIT belong to Kafka's own Raft log."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """The end of a transaction, and the epoch of the coordinator that decided it.

    The epoch lets a partition refuse a marker that a deposed coordinator sends late.
    """

    is_commit: bool
    coordinator_epoch: int


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    timestamp_ms: int,
    base_offset: Offset = FIRST_OFFSET,
    leader_epoch: LeaderEpoch | None = None,
) -> bytes:
    """The control batch that ends the producer's transaction; it takes no sequence number."""
    kind = ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT
    builder = BatchBuilder()
    builder.append(
        key=_KEY.pack(_VERSION, kind),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
        timestamp_ms=timestamp_ms,
    )
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer=ProducerStamp(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=None
        ),
        is_transactional=True,
        is_control=True,
    )


def parse_control_record(record: Record) -> EndTransactionMarker | None:
    """The marker in a record of a control batch; None is one of another kind, to be passed over.

    A version from the future is read like version 0, which it extends.
    """
    key, value = record.key, record.value
    if key is None or len(key) < _KEY.size:
        raise MalformedBatchError(f"the control record at offset {record.offset} has no valid key")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise MalformedBatchError(f"a control record cannot have version {version}")
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise MalformedBatchError(
            f"the transaction marker at offset {record.offset} lacks its coordinator epoch"
        )
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise MalformedBatchError(f"a transaction marker cannot have version {version}")
    return EndTransactionMarker(
        is_commit=kind == ControlRecordType.COMMIT, coordinator_epoch=coordinator_epoch
    )
