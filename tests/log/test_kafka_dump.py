"""Kafka's own tool reads what we write: batches, indexes, aborted transactions, snapshots."""

import re
import subprocess
from pathlib import Path

import pytest

from kafka_wire.compression import Compression
from kafka_wire.records import (
    EndTransactionMarker,
    ProducerStamp,
    build_end_transaction_marker,
)
from kafka_wire.types import LeaderEpoch, ProducerEpoch, ProducerId, Sequence, TopicPartition
from log.config import LogConfig
from log.data_directory import DataDirectory
from log.filesystem import OsFileSystem
from log.inspect import dump_file
from log.names import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from log.partition_log import Origin
from tests.log.batches import batch_of
from tests.support.external import require_program
from tests.support.maven import KAFKA, SLF4J, classpath, join

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

BATCHES = 60
MARKER_AFTER = 31
PRODUCER = ProducerId(7)
CONFIG = LogConfig(segment_bytes=3_000, index_interval_bytes=200)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed log: every codec, a producer, an aborted transaction, an open one, three epochs."""
    root = tmp_path_factory.mktemp("data")
    data = DataDirectory.open(OsFileSystem(), str(root), lambda _: CONFIG)
    log = data.create(TopicPartition("events", 0), CONFIG, topic_id=bytes(range(16)))
    for i in range(BATCHES):
        producer = ProducerStamp(
            producer_id=PRODUCER,
            producer_epoch=ProducerEpoch(0),
            base_sequence=Sequence(i // 3),
        )
        is_transactional = i % 3 == 0
        batch = batch_of(
            [b"value %d " % i * 3],
            key=b"key",
            timestamp_ms=1_000 + i,
            producer=producer if is_transactional else None,
            is_transactional=is_transactional,
            compression=list(Compression)[i % len(Compression)],
        )
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(i // 20), now_ms=1_000)
        if i == MARKER_AFTER:
            marker = build_end_transaction_marker(
                EndTransactionMarker(is_commit=False, coordinator_epoch=2),
                producer_id=PRODUCER,
                producer_epoch=ProducerEpoch(0),
                timestamp_ms=1_000,
            )
            log.append_as_leader(
                bytearray(marker),
                leader_epoch=LeaderEpoch(i // 20),
                now_ms=1_000,
                origin=Origin.COORDINATOR,
            )
    data.close()
    return root / "events-0"


def kafka_dump(files: list[Path], *options: str) -> str:
    jars = classpath(
        f"org.apache.kafka:kafka-tools:{KAFKA}",
        f"org.apache.kafka:kafka_2.13:{KAFKA}",
        f"org.slf4j:slf4j-simple:{SLF4J}",
    )
    command = [str(require_program("java")), "-Xmx256m", "-cp", join(jars)]
    command += ["org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files))]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_kind(directory: Path, suffix: str) -> list[Path]:
    found = sorted(directory.glob(f"*{suffix}"))
    assert found, f"there is no {suffix} file to look at"
    return found


def numbers(pattern: str, text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, match)) for match in re.findall(pattern, text)]


def ours(files: list[Path], *keys: str) -> list[tuple[int, ...]]:
    system = OsFileSystem()
    return [
        tuple(row[key] for key in keys)
        for file in files
        for row in dump_file(system, str(file), records=False)
    ]


def test_kafka_reads_every_batch_and_record(directory: Path) -> None:
    files = of_kind(directory, LOG)
    text = kafka_dump(files, "--print-data-log", "--deep-iteration")
    assert text.count("isvalid: true") == BATCHES + 1
    assert "isvalid: false" not in text
    assert re.findall(r"payload: (.*)", text) == [f"value {i} " * 3 for i in range(BATCHES)]
    assert "endTxnMarker: ABORT coordinatorEpoch: 2" in text
    seen = numbers(r"baseOffset: (\d+) lastOffset: (\d+).*partitionLeaderEpoch: (\d+)", text)
    assert seen == ours(files, "base_offset", "last_offset", "leader_epoch")


def test_kafka_finds_the_indexes_sane_and_reads_the_same_entries(directory: Path) -> None:
    offsets, times = of_kind(directory, OFFSET_INDEX), of_kind(directory, TIME_INDEX)
    sane = kafka_dump([*offsets, *times], "--index-sanity-check")
    assert sane.count("passed sanity check") == len(offsets) + len(times)
    # Without the option Kafka compares every entry with the batches, and tells mismatches.
    text = kafka_dump([*of_kind(directory, LOG), *offsets, *times])
    assert "mismatch" not in text.lower()
    entries = numbers(r"(?m)^offset: (\d+) position: (\d+)$", text)
    assert entries == ours(offsets, "offset", "position")
    entries = numbers(r"(?m)^timestamp: (\d+) offset: (\d+)$", text)
    assert entries == ours(times, "timestamp_ms", "offset")


def test_kafka_reads_aborted_transactions_and_producer_snapshots(directory: Path) -> None:
    text = kafka_dump([*of_kind(directory, TRANSACTION_INDEX), of_kind(directory, SNAPSHOT)[-1]])
    aborted = f"producerId: {PRODUCER} firstOffset: 0 lastOffset: 32 lastStableOffset: 33"
    assert aborted in text
    snapshot = (
        f"producerId: {PRODUCER} producerEpoch: 0 coordinatorEpoch: 2 "
        "currentTxnFirstOffset: OptionalLong[34]"
    )
    assert snapshot in text
    assert "lastSequence: 19 lastOffset: 58" in text
