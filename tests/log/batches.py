"""Batches for the tests of the log: small, distinct, and easy to recognise."""

from collections.abc import Sequence

from kafka_wire.compression import Compression
from kafka_wire.records import ProducerStamp, Record, build_batch, iter_records
from kafka_wire.types import Offset
from log.partition_log import PartitionLog


def batch_of(
    values: Sequence[bytes],
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


def values_of(log: PartitionLog, start: Offset | None = None) -> list[tuple[int, bytes | None]]:
    """Everything in the log from its start on, as (offset, value)."""
    offset = log.log_start_offset if start is None else start
    found: list[tuple[int, bytes | None]] = []
    while True:
        part = log.read(offset, max_bytes=1000, end_offset=log.log_end_offset)
        if part is None:
            return found
        data = memoryview(part.read())
        assert len(data) == part.size_bytes
        for header, batch in whole_batches(data):
            found += [(r.offset, r.value) for r in iter_records(batch) if r.offset >= offset]
            offset = header.next_offset


def whole_batches(data: memoryview):  # type: ignore[no-untyped-def]
    from kafka_wire.records import iter_batches

    return iter_batches(data)
