"""Writing record batches (KIP-98), as the Java producer writes them."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafka_wire.compression import Compression, compress
from kafka_wire.crc import crc32c
from kafka_wire.errors import EncodeError
from kafka_wire.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE_BYTES,
    LENGTH_END,
    MAGIC,
    MAX_INT32,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
)
from kafka_wire.records.reader import Headers, Record
from kafka_wire.types import (
    FIRST_OFFSET,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    Sequence,
)

MAX_RECORD_OVERHEAD_BYTES: Final = 21
"""Length (5), attributes (1), timestamp delta (10) and offset delta (5) at their longest."""

_MAX_VARINT_BYTES: Final = 5
_NONE: Final = -1
_BEFORE_CRC: Final = struct.Struct(">qiib")
_CRC: Final = struct.Struct(">I")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStamp:
    """Who wrote a batch and where in its sequence; a transaction marker has no sequence."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: Sequence | None


class BatchBuilder:
    """Collects records, and makes a batch of them once everything else is known.

    A producer learns its id, epoch and sequence only when it sends, and may have to send the same
    records under another epoch, so these are arguments of `build`, which may be called again.
    """

    def __init__(
        self,
        *,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        max_size_bytes: int = MAX_INT32,
        base_timestamp_ms: int | None = None,
    ) -> None:
        """`max_size_bytes` limits the batch before compression.

        `base_timestamp_ms` is the first record's timestamp unless given here.
        """
        self._compression = compression
        self._compression_level = compression_level
        self._max_size_bytes = max_size_bytes
        self._base_timestamp_ms = base_timestamp_ms
        self._max_timestamp_ms = NO_TIMESTAMP
        self._last_offset_delta = -1
        self._records_count = 0
        self._records = bytearray()

    @property
    def size_bytes(self) -> int:
        """The size of the batch so far, before compression."""
        return HEADER_SIZE_BYTES + len(self._records)

    @property
    def records_count(self) -> int:
        """How many records were accepted."""
        return self._records_count

    def append(
        self,
        *,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers = (),
        offset_delta: int | None = None,
    ) -> bool:
        """Add a record, or return False if it does not fit any more.

        The first record always fits, as in Java: a limit smaller than a record must not stop a
        producer for good. Offsets count up by one unless `offset_delta` leaves a gap.
        """
        timestamp = NO_TIMESTAMP if timestamp_ms is None else timestamp_ms
        base = self._base_timestamp_ms
        if base is None:
            base = timestamp
        if offset_delta is None:
            offset_delta = self._last_offset_delta + 1
        elif offset_delta <= self._last_offset_delta:
            raise EncodeError(
                f"offset delta {offset_delta} follows {self._last_offset_delta}: "
                "append records in the order of their offsets"
            )
        if offset_delta > MAX_INT32:
            raise EncodeError(f"offset delta {offset_delta} does not fit 32 bits: start a batch")
        record = _encode_record(offset_delta, timestamp - base, key, value, headers)
        size_bytes = self.size_bytes + len(record)
        if size_bytes > self._max_size_bytes and self._records_count:
            return False
        self._records += record
        self._records_count += 1
        self._last_offset_delta = offset_delta
        self._base_timestamp_ms = base
        if timestamp > self._max_timestamp_ms:
            self._max_timestamp_ms = timestamp
        return True

    def build(
        self,
        *,
        base_offset: Offset = FIRST_OFFSET,
        leader_epoch: LeaderEpoch | None = None,
        producer: ProducerStamp | None = None,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> bytes:
        """The batch of all records appended so far."""
        if not self._records_count:
            raise EncodeError("a record batch needs a record: append one first")
        if is_transactional and producer is None:
            raise EncodeError("a transactional batch needs a producer id: initialise the producer")
        return self._assemble(
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer=producer,
            flags=TRANSACTIONAL_FLAG * is_transactional | CONTROL_FLAG * is_control,
            last_offset_delta=self._last_offset_delta,
            max_timestamp_ms=self._max_timestamp_ms,
        )

    def _assemble(
        self,
        *,
        base_offset: Offset,
        leader_epoch: LeaderEpoch | None,
        producer: ProducerStamp | None,
        flags: int,
        last_offset_delta: int,
        max_timestamp_ms: int,
    ) -> bytes:
        payload: bytes | bytearray = self._records
        compression = self._compression
        if compression and payload:
            payload = compress(compression, payload, self._compression_level)
        elif compression:
            compression = Compression.NONE  # as in Java, nothing is not compressed
        length = HEADER_SIZE_BYTES - LENGTH_END + len(payload)
        producer_id, producer_epoch, base_sequence = _NONE, _NONE, _NONE
        if producer is not None:
            producer_id, producer_epoch = producer.producer_id, producer.producer_epoch
            if producer.base_sequence is not None:
                base_sequence = producer.base_sequence
        try:
            before_crc = _BEFORE_CRC.pack(
                base_offset, length, _NONE if leader_epoch is None else leader_epoch, MAGIC
            )
            after_crc = _AFTER_CRC.pack(
                flags | compression,
                last_offset_delta,
                NO_TIMESTAMP if self._base_timestamp_ms is None else self._base_timestamp_ms,
                max_timestamp_ms,
                producer_id,
                producer_epoch,
                base_sequence,
                self._records_count,
            )
        except struct.error as error:
            raise EncodeError(f"a number does not fit the header of a batch: {error}") from None
        crc = crc32c(payload, crc32c(after_crc))
        return b"".join((before_crc, _CRC.pack(crc), after_crc, payload))


def build_batch(
    records: Iterable[Record],
    *,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    base_offset: Offset = FIRST_OFFSET,
    leader_epoch: LeaderEpoch | None = None,
    producer: ProducerStamp | None = None,
    is_transactional: bool = False,
) -> bytes:
    """A batch of `records`, whose offsets count from `base_offset` up, gaps included."""
    builder = BatchBuilder(compression=compression, compression_level=compression_level)
    _append_all(builder, records, base_offset)
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer=producer,
        is_transactional=is_transactional,
    )


def rewrite_batch(
    header: BatchHeader, records: Iterable[Record], *, delete_horizon_ms: int | None = None
) -> bytes:
    """The batch of `header` with only `records` left of it, as compaction writes it.

    Offset range, producer and sequence stay those of the original even if no record is left,
    because they are what the producer's state is rebuilt from. The delete horizon (KIP-534), once
    set, stays.
    """
    if delete_horizon_ms is None:
        delete_horizon_ms = header.delete_horizon_ms
    builder = BatchBuilder(compression=header.compression, base_timestamp_ms=delete_horizon_ms)
    _append_all(builder, records, header.base_offset)
    max_timestamp_ms = builder._max_timestamp_ms
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME or not builder.records_count:
        kept = header.max_timestamp_ms
        max_timestamp_ms = NO_TIMESTAMP if kept is None else kept
    flags = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    if delete_horizon_ms is not None:
        flags |= DELETE_HORIZON_FLAG
    producer = None
    if header.producer_id is not None and header.producer_epoch is not None:
        producer = ProducerStamp(
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
    return builder._assemble(
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer=producer,
        flags=flags,
        last_offset_delta=header.last_offset_delta,
        max_timestamp_ms=max_timestamp_ms,
    )


def max_record_size_bytes(key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
    """An upper bound on the bytes that such a record adds to a batch before compression."""
    size = MAX_RECORD_OVERHEAD_BYTES + 3 * _MAX_VARINT_BYTES
    size += len(key or b"") + len(value or b"")
    for header_key, header_value in headers:
        size += 2 * _MAX_VARINT_BYTES + len(header_key.encode()) + len(header_value or b"")
    return size


def _append_all(builder: BatchBuilder, records: Iterable[Record], base_offset: Offset) -> None:
    for record in records:
        if not builder.append(
            key=record.key,
            value=record.value,
            timestamp_ms=record.timestamp_ms,
            headers=record.headers,
            offset_delta=record.offset - base_offset,
        ):
            raise EncodeError("the records do not fit one batch: split them")


def _encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> bytes:
    parts = [b"\x00", _varint(timestamp_delta), _varint(offset_delta)]
    if key is None:
        parts.append(_NULL)
    else:
        parts += (_varint(len(key)), key)
    if value is None:
        parts.append(_NULL)
    else:
        parts += (_varint(len(value)), value)
    parts.append(_varint(len(headers)))
    for header_key, header_value in headers:
        try:
            encoded = header_key.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(f"a header key has no UTF-8 form: {error}") from None
        parts += (_varint(len(encoded)), encoded)
        if header_value is None:
            parts.append(_NULL)
        else:
            parts += (_varint(len(header_value)), header_value)
    body = b"".join(parts)
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """`number` as a zigzag varint; timestamps are 64 bits wide, everything else is checked."""
    if 0 <= number < len(_SMALL_VARINTS):
        return _SMALL_VARINTS[number]
    return _encode_varint(number)


def _encode_varint(number: int) -> bytes:
    if not -(2**63) <= number < 2**63:
        raise EncodeError(f"{number} does not fit 64 bits: the timestamps are too far apart")
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_SMALL_VARINTS: Final = tuple(map(_encode_varint, range(1024)))
_NULL: Final = _encode_varint(-1)
