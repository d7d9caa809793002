"""What a batch must be like to be appended, beyond being whole."""

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.records import (
    BatchHeader,
    TimestampType,
    iter_records,
    parse_control_record,
    parse_header,
    set_max_timestamp,
)
from kafka_wire.types import LeaderEpoch, Offset
from log.config import LogConfig
from log.producer_state import ProducerState
from log.segment import MAX_RELATIVE_OFFSET


def stamp_time(
    config: LogConfig, batch: bytearray | memoryview, header: BatchHeader, now_ms: int
) -> tuple[BatchHeader, int | None]:
    """Sets or checks the time of a batch; returns its header, and the time that was set."""
    if config.uses_log_append_time:
        set_max_timestamp(batch, TimestampType.LOG_APPEND_TIME, now_ms)
        return parse_header(batch), now_ms
    newest_ms = header.max_timestamp_ms
    if newest_ms is None:
        # Some clients leave it out. Without it nothing could be found by time.
        times = [r.timestamp_ms for r in iter_records(batch) if r.timestamp_ms is not None]
        if not times:
            return header, None
        newest_ms = max(times)
        set_max_timestamp(batch, TimestampType.CREATE_TIME, newest_ms)
        header = parse_header(batch)
    oldest_ms = newest_ms if header.base_timestamp_ms is None else header.base_timestamp_ms
    if (
        newest_ms > now_ms + config.message_timestamp_after_max_ms
        or oldest_ms < now_ms - config.message_timestamp_before_max_ms
    ):
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamps from {oldest_ms} to {newest_ms} are too far from {now_ms}: see "
            "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
        )
    return header, None


def check_marker(
    producers: ProducerState, header: BatchHeader, batch: bytearray | memoryview
) -> None:
    """Refuses the marker of a fenced producer or of a deposed coordinator."""
    for record in iter_records(batch):
        marker = parse_control_record(record)
        if marker is not None:
            producers.check_marker(header, marker)


def check_order(header: BatchHeader, expected: Offset, latest: LeaderEpoch | None) -> None:
    """Refuses what a leader cannot have sent: offsets or epochs that go back."""
    too_far = header.last_offset - expected > MAX_RELATIVE_OFFSET
    if header.base_offset < expected or too_far or header.leader_epoch is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the leader sent offset {header.base_offset}, expected {expected}",
        )
    if latest is not None and header.leader_epoch < latest:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"the leader sent a batch of epoch {header.leader_epoch} after one of {latest}",
        )
