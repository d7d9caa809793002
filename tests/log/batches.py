"""Batches for the tests of the log: small, distinct, and easy to recognise."""

from collections.abc import Sequence

from kafka_wire.compression import Compression
from kafka_wire.records import ProducerStamp, Record, build_batch, iter_batches, iter_records
from kafka_wire.types import Offset
from log.partition_log import PartitionLog


def batch_of(
    values: Sequence[bytes | None],
    *,
    timestamp_ms: int = 1_000,
    key: bytes | None = None,
    producer: ProducerStamp | None = None,
    is_transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> bytearray:
    """A batch as a client sends it, writable."""
    records = [Record(Offset(i), timestamp_ms, key, value) for i, value in enumerate(values)]
    return bytearray(
        build_batch(
            records,
            compression=compression,
            producer=producer,
            is_transactional=is_transactional,
        )
    )


def records_of(log: PartitionLog, start: Offset | None = None) -> list[Record]:
    """Everything in the log from an offset on, or from its start; read in small pieces."""
    offset = log.log_start_offset if start is None else start
    found: list[Record] = []
    while True:
        part = log.read(offset, max_bytes=1000, end_offset=log.log_end_offset)
        if part is None:
            return found
        data = part.read()
        assert len(data) == part.size_bytes
        for header, batch in iter_batches(data):
            found += [r for r in iter_records(batch) if r.offset >= offset]
            offset = header.next_offset


def values_of(log: PartitionLog, start: Offset | None = None) -> list[tuple[int, bytes | None]]:
    """The same as (offset, value)."""
    return [(record.offset, record.value) for record in records_of(log, start)]
