"""A compaction that the log has overtaken: it must not bring anything back."""

import pytest

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import LeaderEpoch, Offset
from log.compaction import Compaction, finish, plan
from log.config import LogConfig
from log.filesystem.memory import Kind, MemoryFileSystem
from log.partition_log import PartitionLog
from tests.log.batches import batch_of, values_of
from tests.log.logs import NOW_MS, failing, names, new_files, no_fault, open_at

CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=80,
    retention_ms=None,
    cleanup_policy=frozenset({"compact", "delete"}),
)


def append_keyed(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        key = b"key %d" % (log.log_end_offset % 3)
        log.append_as_leader(
            batch_of([b"." * 30], key=key), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS
        )


@pytest.fixture
def planned() -> tuple[MemoryFileSystem, PartitionLog, Compaction]:
    files = new_files()
    log = open_at(files, CONFIG)
    append_keyed(log, 40)
    log.flush()
    log.set_high_watermark(log.log_end_offset)
    compaction = plan(files, log, first_dirty_offset=Offset(0), now_ms=NOW_MS)
    assert compaction is not None
    return files, log, compaction


Planned = tuple[MemoryFileSystem, PartitionLog, Compaction]


def offsets(log: PartitionLog) -> list[int]:
    return [offset for offset, _ in values_of(log)]


def test_segments_that_were_deleted_meanwhile_stay_deleted(planned: Planned) -> None:
    files, log, compaction = planned
    compaction.run()
    log.advance_log_start(Offset(30))
    finish(files, log, compaction)
    log.flush()
    assert min(int(name[:20]) for name in names(files) if name[0].isdigit()) >= 28
    assert not [name for name in names(files) if name.endswith((".cleaned", ".swap"))]
    log = open_at(files, CONFIG, recovery_point=40, log_start_offset=30)
    assert (log.log_start_offset, log.log_end_offset) == (30, 40)


def test_records_that_were_cut_meanwhile_stay_cut(planned: Planned) -> None:
    files, log, compaction = planned
    compaction.run()
    log.truncate_to(Offset(10))
    finish(files, log, compaction)
    assert max(offsets(log)) == 9
    append_keyed(log, 5)
    log.flush()
    log = open_at(files, CONFIG, recovery_point=15)
    assert log.log_end_offset == 15
    assert offsets(log)[-5:] == list(range(10, 15))


def test_log_that_began_anew_meanwhile_holds_only_the_new(planned: Planned) -> None:
    files, log, compaction = planned
    compaction.run()
    log.truncate_fully_and_start_at(Offset(100))
    append_keyed(log, 3)
    finish(files, log, compaction)
    log.flush()
    assert offsets(open_at(files, CONFIG, recovery_point=103)) == [100, 101, 102]


def test_reading_for_a_compaction_makes_no_deleted_segment_again(planned: Planned) -> None:
    files, log, compaction = planned
    log.advance_log_start(Offset(30))
    with pytest.raises(FileNotFoundError):
        compaction.run()
    assert min(int(name[:20]) for name in names(files) if name.endswith(".log")) >= 28


@pytest.mark.parametrize("kind", [Kind.RENAME, Kind.REMOVE, Kind.SYNC_DIRECTORY])
def test_swap_that_fails_takes_the_log_offline_and_is_completed_on_start(
    planned: Planned, kind: Kind
) -> None:
    files, log, compaction = planned
    kept = values_of(log)[-3:]
    compaction.run()
    files.on_operation = failing(kind)
    with pytest.raises(KafkaError) as caught:
        finish(files, log, compaction)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
    files.on_operation = no_fault
    with pytest.raises(KafkaError):
        finish(files, log, compaction)
    files.crash()
    log = open_at(files, CONFIG, recovery_point=40)
    assert log.log_end_offset == 40
    assert values_of(log)[-3:] == kept
