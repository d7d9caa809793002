"""What a log takes, refuses and gives back."""

import errno
from collections.abc import Callable

import pytest

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import CorruptBatchError
from kafka_wire.records import (
    BatchHeader,
    TimestampType,
    iter_batches,
    iter_records,
    parse_header,
    set_max_timestamp,
)
from kafka_wire.types import LeaderEpoch, Offset
from log.config import LogConfig
from log.filesystem.memory import MUTATIONS, Kind, MemoryFileSystem, ShortRead
from log.partition_log import PartitionLog
from log.segment import MAX_RELATIVE_OFFSET, STAGE_BYTES, Slice
from tests.log.batches import batch_of, values_of
from tests.log.logs import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    append,
    failing,
    fill,
    names,
    new_files,
    no_fault,
    open_at,
    reopen,
)

LARGE = b"x" * (STAGE_BYTES + 1)
ROOMY = LogConfig(index_interval_bytes=200)


def headers_of(part: Slice | None) -> list[BatchHeader]:
    assert part is not None
    data = part.read()
    assert len(data) == part.size_bytes
    return [header for header, _ in iter_batches(data)]


def base_offsets(part: Slice | None) -> list[int]:
    return [header.base_offset for header in headers_of(part)]


def read(log: PartitionLog, offset: int, *, max_bytes: int = 10**6, end: int = -1) -> Slice | None:
    end_offset = log.log_end_offset if end < 0 else Offset(end)
    return log.read(Offset(offset), max_bytes=max_bytes, end_offset=end_offset)


def leaders_batches(log: PartitionLog) -> memoryview:
    part = read(log, log.log_start_offset)
    assert part is not None
    return memoryview(part.read())


# ------------------------------------------------------------------------------- as a leader


def test_leader_assigns_offsets_and_its_epoch_in_place() -> None:
    log = open_at(new_files())
    batch = batch_of([b"a", b"b", b"c"])
    first = log.append_as_leader(batch, leader_epoch=LeaderEpoch(4), now_ms=NOW_MS)
    second = append(log, b"d", epoch=4)
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 2, 3)
    assert log.log_end_offset == 4
    header = parse_header(batch)
    assert (header.base_offset, header.leader_epoch) == (0, 4)
    assert values_of(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert log.epochs.entries == ((4, 0),)


def test_log_append_time_replaces_the_clients() -> None:
    log = open_at(new_files(), LogConfig(message_timestamp_type="LogAppendTime"))
    appended = append(log, b"a", timestamp_ms=5)
    assert appended.log_append_time_ms == NOW_MS
    [header] = headers_of(read(log, 0))
    assert (header.timestamp_type, header.max_timestamp_ms) == (
        TimestampType.LOG_APPEND_TIME,
        NOW_MS,
    )
    found = log.offset_at(NOW_MS, end_offset=log.log_end_offset)
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (NOW_MS, 0)


def test_largest_timestamp_that_a_client_left_out_is_filled_in() -> None:
    log = open_at(new_files())
    batch = batch_of([b"a"], timestamp_ms=777)
    set_max_timestamp(batch, TimestampType.CREATE_TIME, -1)
    log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    [header] = headers_of(read(log, 0))
    assert header.max_timestamp_ms == 777


@pytest.mark.parametrize(("timestamp_ms", "is_allowed"), [(89, 0), (90, 1), (120, 1), (121, 0)])
def test_timestamps_too_far_from_now_are_refused(timestamp_ms: int, is_allowed: int) -> None:
    config = LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=20)
    log = open_at(new_files(), config)
    batch = batch_of([b"a"], timestamp_ms=timestamp_ms)
    if is_allowed:
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), now_ms=100)
    else:
        with pytest.raises(KafkaError) as caught:
            log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), now_ms=100)
        assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert log.log_end_offset == is_allowed


def test_batch_that_is_too_large_is_refused() -> None:
    size = len(batch_of([b"a" * 100]))
    log = open_at(new_files(), LogConfig(max_message_bytes=size))
    append(log, b"a" * 100)
    with pytest.raises(KafkaError) as caught:
        append(log, b"a" * 101)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.log_end_offset == 1


@pytest.mark.parametrize("position", [21, 40, 65, -1])
def test_batch_with_a_flipped_bit_is_refused(position: int) -> None:
    log = open_at(new_files())
    batch = batch_of([b"abc"])
    batch[position] ^= 1
    with pytest.raises(CorruptBatchError):
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    with pytest.raises(CorruptBatchError):
        log.append_as_leader(batch[:40], leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    assert log.log_end_offset == 0
    assert values_of(log) == []


# ------------------------------------------------------------------------------------ rolling


def segment_bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_segment_is_rolled_before_it_grows_too_large() -> None:
    log = open_at(new_files(), LogConfig(segment_bytes=1000))
    fill(log, 40)
    assert len(log.segments) > 3
    assert all(segment.size_bytes <= 1000 for segment in log.segments)
    assert [offset for offset, _ in values_of(log)] == list(range(40))


def test_segment_is_rolled_when_its_first_batch_is_too_old() -> None:
    log = open_at(new_files(), LogConfig(segment_ms=100))
    for timestamp_ms in (0, 100, 50, 101, 201, 202):
        append(log, b"a", timestamp_ms=timestamp_ms)
    assert segment_bases(log) == [0, 3, 5]
    log = reopen(new_files_with(log), log)
    append(log, b"a", timestamp_ms=303)
    assert segment_bases(log) == [0, 3, 5, 6]


def new_files_with(log: PartitionLog) -> MemoryFileSystem:
    files = log._filesystem
    assert isinstance(files, MemoryFileSystem)
    return files


def test_segment_is_rolled_when_its_index_is_full() -> None:
    log = open_at(new_files(), LogConfig(segment_index_bytes=8 * 3, index_interval_bytes=0))
    fill(log, 20)
    assert segment_bases(log) == [0, 4, 8, 12, 16]
    assert all(len(segment.indexes.offsets) <= 3 for segment in log.segments)


def test_segment_is_rolled_when_relative_offsets_would_overflow() -> None:
    source = open_at(new_files())
    append(source)
    batch = bytearray(leaders_batches(source))
    log = open_at(new_files(), LogConfig(index_interval_bytes=0))
    log.append_as_follower(memoryview(batch), now_ms=NOW_MS)
    for offset in (MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET + 1, MAX_RELATIVE_OFFSET + 2):
        batch[:8] = offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(batch), now_ms=NOW_MS)
    assert segment_bases(log) == [0, MAX_RELATIVE_OFFSET + 1]
    assert [offset for offset, _ in values_of(log)] == [
        0,
        MAX_RELATIVE_OFFSET,
        MAX_RELATIVE_OFFSET + 1,
        MAX_RELATIVE_OFFSET + 2,
    ]
    batch[:8] = (2**40).to_bytes(8, "big")
    with pytest.raises(KafkaError):
        log.append_as_follower(memoryview(batch), now_ms=NOW_MS)
    assert log.failure is None


# ------------------------------------------------------------------------------------ reading


def test_read_returns_whole_batches_within_the_limit_and_the_first_in_any_case() -> None:
    log = open_at(new_files(), ROOMY)
    fill(log, 50)
    size = headers_of(read(log, 0, max_bytes=0))[0].size_bytes
    for offset in range(50):
        assert base_offsets(read(log, offset, max_bytes=0)) == [offset]
        for max_bytes in (size, 5 * size, 10**6):
            found = base_offsets(read(log, offset, max_bytes=max_bytes))
            assert found == list(range(offset, offset + len(found)))
            assert len(found) * size <= max_bytes
    assert base_offsets(read(log, 0)) == list(range(50))


def test_read_in_the_middle_of_a_batch_returns_that_batch() -> None:
    log = open_at(new_files())
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    part = read(log, 2)
    assert part is not None
    assert part.base_offset == 0
    assert base_offsets(part) == [0, 3]


def test_read_stops_before_the_batch_that_holds_the_end_offset() -> None:
    log = open_at(new_files(), ROOMY)
    for _ in range(20):
        append(log, b"a" * 30, b"b" * 30)
    for end in range(41):
        part = read(log, 0, end=end)
        found = [] if part is None else base_offsets(part)
        assert found == [base for base in range(0, 40, 2) if base + 1 < end]
        again = read(log, 0, end=end)
        assert (None if again is None else base_offsets(again)) == (found or None)


def test_read_goes_on_with_the_next_segment() -> None:
    log = open_at(new_files())
    fill(log, 30)
    assert len(log.segments) > 3
    for segment in log.segments:
        assert base_offsets(read(log, segment.base_offset))[0] == segment.base_offset
    assert [offset for offset, _ in values_of(log)] == list(range(30))


def test_read_passes_over_gaps_that_compaction_left() -> None:
    source = open_at(new_files())
    fill(source, 1)
    batch = bytearray(leaders_batches(source))
    log = open_at(new_files(), SMALL)
    for offset in range(0, 200, 10):
        batch[:8] = offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(batch), now_ms=NOW_MS)
    assert len(log.segments) > 2
    for offset in range(191):
        assert base_offsets(read(log, offset))[0] == (offset + 9) // 10 * 10
        limited = read(log, offset, end=offset + 1)
        found = [] if limited is None else base_offsets(limited)
        assert found == ([offset] if offset % 10 == 0 else [])


def test_read_outside_of_the_log_is_out_of_range_and_at_its_end_is_empty() -> None:
    log = open_at(new_files())
    fill(log, 3)
    log.set_high_watermark(Offset(3))
    log.advance_log_start(Offset(1))
    assert read(log, 3) is None
    assert read(log, 2, end=2) is None
    assert read(log, 2, end=100) is not None
    for offset in (0, 4, -1):
        with pytest.raises(KafkaError) as caught:
            read(log, offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_staged_batches_are_visible_to_every_kind_of_reader() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 2)
    assert files.open(f"{DIRECTORY}/{names(files)[0]}").size_bytes == 0
    assert len(values_of(log)) == 2
    fill(log, 1)
    found = log.offset_at(1002, end_offset=log.log_end_offset)
    assert found is not None
    assert found.offset == 2
    fill(log, 1)
    newest = log.newest_record(end_offset=log.log_end_offset)
    assert newest is not None
    assert newest.offset == 3


def test_short_reads_of_the_file_system_change_nothing() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 20)
    files.on_operation = lambda o: ShortRead(size_bytes=7) if o.kind is Kind.READ else None
    assert [offset for offset, _ in values_of(log)] == list(range(20))


def test_slice_can_be_read_after_its_segment_was_deleted() -> None:
    log = open_at(new_files())
    fill(log, 30)
    part = read(log, 0)
    log.set_high_watermark(log.log_end_offset)
    assert log.advance_log_start(Offset(25)) > 1
    assert base_offsets(part)[0] == 0


# ------------------------------------------------------------------------------ as a follower


def test_follower_takes_batches_verbatim() -> None:
    leader = open_at(new_files())
    for epoch in (0, 0, 3):
        append(leader, b"a", b"b", epoch=epoch)
    data = leaders_batches(leader)
    follower = open_at(new_files())
    assert follower.append_as_follower(data, now_ms=NOW_MS) == 6
    assert bytes(leaders_batches(follower)) == bytes(data)
    assert follower.epochs.entries == leader.epochs.entries == ((0, 0), (3, 4))


def test_follower_writes_the_same_with_small_segments() -> None:
    leader = open_at(new_files(), LogConfig())
    fill(leader, 60)
    follower = open_at(new_files())
    follower.append_as_follower(leaders_batches(leader), now_ms=NOW_MS)
    assert values_of(follower) == values_of(leader)
    assert len(follower.segments) > 3
    assert all(segment.size_bytes <= SMALL.segment_bytes for segment in follower.segments)


def test_follower_refuses_offsets_and_epochs_that_go_back() -> None:
    leader = open_at(new_files())
    append(leader, b"a", epoch=1)
    data = bytearray(leaders_batches(leader))
    follower = open_at(new_files())
    follower.append_as_follower(memoryview(data), now_ms=NOW_MS)
    with pytest.raises(KafkaError):
        follower.append_as_follower(memoryview(data), now_ms=NOW_MS)
    data[7] = 1
    data[15] = 0
    with pytest.raises(KafkaError) as caught:
        follower.append_as_follower(memoryview(data), now_ms=NOW_MS)
    assert caught.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert follower.log_end_offset == 1


def test_follower_keeps_the_good_batches_before_a_bad_one() -> None:
    leader = open_at(new_files())
    fill(leader, 3)
    data = bytearray(leaders_batches(leader))
    data[-1] ^= 1
    follower = open_at(new_files())
    with pytest.raises(CorruptBatchError):
        follower.append_as_follower(memoryview(data), now_ms=NOW_MS)
    assert values_of(follower) == values_of(leader)[:2]


# --------------------------------------------------------------------------- disks that fail


def append_and_flush(log: PartitionLog, value: bytes) -> None:
    append(log, value)
    log.flush()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("done", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("value", [b"small", LARGE])
def test_failed_write_takes_the_log_offline_and_what_was_there_is_read(
    number: int, done: float, value: bytes
) -> None:
    files = new_files()
    log = open_at(files, LogConfig())
    fill(log, 5)
    log.flush()
    fill(log, 2)
    files.on_operation = failing(Kind.APPEND, suffix=".log", number=number, done=done)
    with pytest.raises(KafkaError) as caught:
        append_and_flush(log, value)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(log.failure, OSError)
    assert log.failure.errno == number
    assert log.durable_end_offset == 5
    files.on_operation = no_fault
    assert [offset for offset, _ in values_of(log)] == list(range(log.log_end_offset))
    assert log.log_end_offset == 5
    refused: list[Callable[[], object]] = [
        lambda: append(log),
        log.prepare_flush,
        lambda: log.truncate_to(Offset(1)),
        lambda: log.truncate_fully_and_start_at(Offset(1)),
        lambda: log.delete_expired(NOW_MS),
        lambda: log.append_as_follower(memoryview(b""), now_ms=NOW_MS),
    ]
    for call in refused:
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    log.close()
    files.crash()
    assert [offset for offset, _ in values_of(open_at(files, recovery_point=5))][:5] == [*range(5)]


def test_readers_need_nothing_of_a_disk_that_only_reads() -> None:
    files = new_files()
    log = open_at(files, SMALL)
    fill(log, 18)
    log.flush()
    fill(log, 3)
    files.on_operation = failing(*MUTATIONS, number=errno.EROFS)
    assert [offset for offset, _ in values_of(log)] == list(range(18))
    assert log.failure is not None
    for offset in range(18):
        found = log.offset_at(1_000 + offset, end_offset=log.log_end_offset)
        assert found is not None
        assert found.offset == offset
    for offset in range(18, 22):
        assert log.offset_at(1_000 + offset, end_offset=log.log_end_offset) is None
    newest = log.newest_record(end_offset=Offset(99))
    assert newest is not None
    assert newest.offset == 17


def test_write_that_fails_under_a_reader_is_not_repeated() -> None:
    files = new_files()
    log = open_at(files, LogConfig())
    fill(log, 3)
    log.flush()
    fill(log, 3)
    files.on_operation = failing(Kind.APPEND, done=0.5)
    assert [offset for offset, _ in values_of(log)] == [0, 1, 2]
    assert log.failure is not None
    files.on_operation = no_fault
    assert [offset for offset, _ in values_of(log)] == [0, 1, 2]
    with pytest.raises(KafkaError):
        append(log)


@pytest.mark.parametrize("kind", [Kind.SYNC, Kind.SYNC_DIRECTORY, Kind.RENAME])
def test_failed_flush_acknowledges_nothing_and_is_never_repeated(kind: Kind) -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 3)
    ticket = log.prepare_flush()
    assert ticket is not None
    files.on_operation = failing(kind)
    with pytest.raises(OSError, match=r"."):
        ticket.run()
    files.on_operation = no_fault
    log.fail_flush(ticket, OSError(errno.EIO, "it failed"))
    assert log.durable_end_offset == log.recovery_point == 0
    with pytest.raises(KafkaError):
        log.prepare_flush()
    assert len(values_of(log)) == 3


def test_ticket_that_returns_to_a_failed_log_acknowledges_nothing() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 3)
    ticket = log.prepare_flush()
    assert ticket is not None
    files.on_operation = failing(Kind.APPEND)
    with pytest.raises(KafkaError):
        append(log, LARGE)
    files.on_operation = no_fault
    ticket.run()
    assert log.complete_flush(ticket) == 0


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.APPEND])
def test_failed_roll_takes_the_log_offline_with_everything_in_it(kind: Kind) -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 4)
    log.flush()
    files.on_operation = failing(kind, number=errno.ENOSPC)
    with pytest.raises(KafkaError):
        fill(log, 20)
    files.on_operation = no_fault
    found = [offset for offset, _ in values_of(log)]
    assert found == list(range(log.log_end_offset))
    assert len(found) >= 4


def test_mode_os_counts_what_was_written_and_group_what_was_synced() -> None:
    log = open_at(new_files(), LogConfig(flush_mode="os"))
    fill(log, 2)
    assert log.durable_end_offset == 0
    log.write_staged()
    assert (log.durable_end_offset, log.recovery_point) == (2, 0)
    fill(log, 1)
    assert log.durable_end_offset == 2
    append(log, LARGE)
    assert log.durable_end_offset == 4
    log = open_at(new_files(), LogConfig())
    fill(log, 2)
    log.write_staged()
    assert log.durable_end_offset == 0
    log.flush()
    assert log.durable_end_offset == 2


def test_appends_and_rolls_under_a_ticket_are_left_to_the_next_one() -> None:
    log = open_at(new_files())
    fill(log, 3)
    ticket = log.prepare_flush()
    assert ticket is not None
    fill(log, 20)
    ticket.run()
    assert log.complete_flush(ticket) == 3
    assert log.flush() == 23
    assert log.prepare_flush() is None


def test_one_flush_brings_everything_to_disk() -> None:
    for seed in range(20):
        files = new_files(seed)
        log = open_at(files)
        fill(log, 30)
        log.flush()
        fill(log, 10)
        files.crash()
        log = open_at(files, recovery_point=30)
        assert log.log_end_offset >= 30
        assert [offset for offset, _ in values_of(log)] == list(range(log.log_end_offset))


def test_records_of_every_batch_are_those_that_were_sent() -> None:
    log = open_at(new_files())
    append(log, b"a", None, b"")
    part = read(log, 0)
    assert part is not None
    assert [record.value for record in iter_records(part.read())] == [b"a", None, b""]
