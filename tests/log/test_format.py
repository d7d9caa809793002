"""The files are Kafka's: names, layouts, and batches that other clients read."""

import struct

import pytest

from kafka_wire.compression import Compression
from kafka_wire.crc import crc32c
from kafka_wire.records import iter_batches
from kafka_wire.types import LeaderEpoch, Offset, TopicPartition
from log.checkpoints import OffsetCheckpoint
from log.config import LogConfig
from log.partition_metadata import read_topic_id, write_topic_id
from tests.log.batches import batch_of
from tests.log.logs import (
    DIRECTORY,
    FIRST,
    NOW_MS,
    SMALL,
    end_transaction,
    fill,
    names,
    new_files,
    open_at,
    produce,
    read_bytes,
)
from tests.wire.other_clients import aiokafka_records, kafka_python_records

OTHERS = [
    aiokafka_records.DefaultRecordBatch,
    aiokafka_records._DefaultRecordBatchPy,
    kafka_python_records.DefaultRecordBatch,
]


def test_files_have_kafkas_names() -> None:
    files = new_files()
    log = open_at(files)
    produce(log, 1, 0, is_transactional=True)
    end_transaction(log, 1, commit=False)
    fill(log, 10)
    log.close()
    bases = [f"{segment.base_offset:020}" for segment in log.segments]
    assert len(bases) > 1
    expected = {
        "leader-epoch-checkpoint",
        f"{FIRST}.txnindex",
        f"{log.log_end_offset:020}.snapshot",
    }
    for base in bases:
        expected |= {f"{base}.log", f"{base}.index", f"{base}.timeindex"}
        expected |= {f"{base}.snapshot"} if base != FIRST else set()
    assert set(names(files)) == expected


def test_offset_index_has_relative_last_offsets_and_positions() -> None:
    files = new_files()
    log = open_at(files, log_start_offset=5_000_000_000)
    fill(log, 30)
    log.close()
    for segment in list(log.segments):
        base = f"{segment.base_offset:020}"
        starts, position, since = [], 0, 0
        for header, _ in iter_batches(read_bytes(files, f"{base}.log")):
            if since > SMALL.index_interval_bytes:
                starts.append((header.last_offset - segment.base_offset, position))
                since = 0
            since += header.size_bytes
            position += header.size_bytes
        data = read_bytes(files, f"{base}.index")
        assert len(data) == 8 * len(starts)
        assert list(struct.iter_unpack(">ii", data)) == starts
    assert sum(len(read_bytes(files, name)) for name in names(files) if name.endswith(".index"))


def test_time_index_has_ascending_timestamps_with_relative_offsets() -> None:
    files = new_files()
    log = open_at(files, log_start_offset=5_000_000_000)
    fill(log, 30)
    log.close()
    ends = [*[segment.base_offset for segment in log.segments][1:], log.log_end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        data = read_bytes(files, f"{segment.base_offset:020}.timeindex")
        entries = list(struct.iter_unpack(">qi", data))
        assert entries == sorted(entries)
        assert len({timestamp for timestamp, _ in entries}) == len(entries)
        for timestamp, relative in entries:
            assert timestamp == 1_000 + (segment.base_offset + relative) % 5_000
        assert entries[-1][1] == end - 1 - segment.base_offset, "the last entry is the largest"


def test_transaction_index_has_kafkas_entries() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 1)
    produce(log, 77, 0, is_transactional=True)
    produce(log, 78, 0, is_transactional=True)
    end_transaction(log, 77, commit=False)
    log.close()
    assert read_bytes(files, f"{FIRST}.txnindex") == struct.pack(">hqqqq", 0, 77, 1, 3, 2)


def test_snapshot_has_kafkas_layout_and_checksum() -> None:
    files = new_files()
    log = open_at(files)
    produce(log, 77, 0, 2)
    produce(log, 77, 2, 3, is_transactional=True)
    log.close()
    data = read_bytes(files, f"{5:020}.snapshot")
    version, crc, count = struct.unpack_from(">hIi", data)
    assert (version, count) == (1, 1)
    assert crc == crc32c(data[6:])
    assert struct.unpack(">qhiqiqiq", data[10:]) == (77, 0, 4, 4, 2, 1_000, -1, 2)


def test_epoch_checkpoint_is_kafkas_text() -> None:
    files = new_files()
    log = open_at(files)
    fill(log, 2)
    fill(log, 1, epoch=7)
    log.flush()
    assert read_bytes(files, "leader-epoch-checkpoint") == b"0\n2\n0 0\n7 2\n"


def test_offset_checkpoint_is_kafkas_text() -> None:
    files = new_files()
    checkpoint = OffsetCheckpoint(files, DIRECTORY, "recovery-point-offset-checkpoint")
    offsets = {TopicPartition("b-c", 10): Offset(5), TopicPartition("a", 0): Offset(2**40)}
    checkpoint.write(offsets)
    text = read_bytes(files, "recovery-point-offset-checkpoint")
    assert text == b"0\n2\na 0 1099511627776\nb-c 10 5\n"
    again = OffsetCheckpoint(files, DIRECTORY, "recovery-point-offset-checkpoint")
    assert again.read() == offsets


def test_partition_metadata_is_kafkas_text() -> None:
    files = new_files()
    topic_id = bytes(range(240, 256))
    write_topic_id(files, DIRECTORY, topic_id)
    text = read_bytes(files, "partition.metadata")
    assert text == b"version: 0\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w\n"
    assert read_topic_id(files, DIRECTORY) == topic_id


@pytest.mark.parametrize("reader", OTHERS)
@pytest.mark.parametrize("compression", list(Compression))
def test_log_file_is_read_by_other_clients(reader: type, compression: Compression) -> None:
    files = new_files()
    log = open_at(files, LogConfig())
    for start in range(0, 30, 3):
        values = [b"value %d" % offset * 10 for offset in range(start, start + 3)]
        log.append_as_leader(
            batch_of(values, timestamp_ms=5_000 + start, key=b"key", compression=compression),
            leader_epoch=LeaderEpoch(3),
            now_ms=NOW_MS,
        )
    log.flush()
    data = read_bytes(files, f"{FIRST}.log")
    found = []
    for header, view in iter_batches(data):
        batch = reader(bytes(view))
        assert batch.validate_crc()
        assert (batch.base_offset, header.leader_epoch) == (header.base_offset, 3)
        found += [(r.offset, r.timestamp, r.key, r.value) for r in batch]
    assert found == [
        (offset, 5_000 + offset // 3 * 3, b"key", b"value %d" % offset * 10) for offset in range(30)
    ]


def test_log_file_is_the_batches_and_nothing_else() -> None:
    files = new_files()
    log = open_at(files, LogConfig())
    batches = [batch_of([b"a", b"b"]), batch_of([b"c"])]
    for batch in batches:
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    log.close()
    assert read_bytes(files, f"{FIRST}.log") == b"".join(batches)
