"""Random lives of a data directory, each ended by a power cut at any file operation."""

import random

import pytest

from kafka_wire.types import LeaderEpoch, Offset, TopicPartition
from log.config import LogConfig
from log.data_directory import DataDirectory
from log.filesystem.memory import Crash, MemoryFileSystem
from tests.log.batches import batch_of, values_of
from tests.log.logs import NOW_MS, crash_from, no_fault

ROOT = "/disk"
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=80, retention_ms=None)
PARTITIONS = [TopicPartition("topic", number) for number in range(3)]
SEEDS = 120


class Life:
    """What a partition must still hold after a crash, by topic id, value and offset."""

    def __init__(self, topic_id: bytes) -> None:
        self.topic_id = topic_id
        self.values: list[bytes] = []
        self.safe_end = 0
        self.start = 0


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = MemoryFileSystem(random.Random(seed))
        self.files.make_directory(ROOT)
        self.files.sync_directory("/")
        self.lives: dict[TopicPartition, Life] = {}
        self.in_doubt: TopicPartition | None = None
        """A partition that was being made, deleted or cut when the power failed."""
        self.epoch = 0
        self.count = 0
        self.directory = DataDirectory.open(self.files, ROOT, lambda _: CONFIG)

    def step(self) -> None:
        partition = self.random.choice(PARTITIONS)
        life = self.lives.get(partition)
        if life is None:
            self.in_doubt = partition
            topic_id = self.random.randbytes(16)
            self.directory.create(partition, CONFIG, topic_id=topic_id)
            self.lives[partition] = Life(topic_id)
            self.in_doubt = None
            return
        log = self.directory.logs[partition]
        match self.random.choices(
            ["append", "flush", "checkpoint", "cut", "delete", "trim"], [50, 15, 10, 8, 2, 5]
        )[0]:
            case "append":
                for _ in range(self.random.randint(1, 5)):
                    self.count += 1
                    value = b"%d" % self.count + b"." * 40
                    life.values.append(value)
                    epoch = LeaderEpoch(self.epoch)
                    log.append_as_leader(batch_of([value]), leader_epoch=epoch, now_ms=NOW_MS)
            case "flush":
                log.flush()
                life.safe_end = len(life.values)
            case "checkpoint":
                self.directory.checkpoint()
            case "cut":
                end = self.random.randint(life.start, len(life.values))
                life.safe_end = min(life.safe_end, end)
                self.in_doubt = partition
                log.truncate_to(Offset(end))
                del life.values[end:]
                self.in_doubt = None
                self.epoch += 1
            case "delete":
                self.in_doubt = partition
                self.directory.delete(partition, unique_id=f"{self.count}")
                del self.lives[partition]
                self.in_doubt = None
            case "trim":
                log.set_high_watermark(Offset(max(life.safe_end, log.log_start_offset)))
                start = self.random.randint(log.log_start_offset, log.high_watermark)
                life.start = start
                log.advance_log_start(Offset(start))

    def restart(self) -> None:
        self.files.on_operation = no_fault
        self.files.crash()
        self.directory = DataDirectory.open(self.files, ROOT, lambda _: CONFIG)
        assert self.directory.offline == {}
        for partition in PARTITIONS:
            self.compare(partition)
        self.in_doubt = None

    def compare(self, partition: TopicPartition) -> None:
        life, log = self.lives.get(partition), self.directory.logs.get(partition)
        if partition == self.in_doubt and (life is None or log is None):
            # It was being made or deleted: it is there or not, but never half.
            self.lives.pop(partition, None)
            if log is not None:
                topic_id = self.directory.topic_ids[partition]
                assert topic_id is not None
                assert values_of(log) == []
                self.lives[partition] = Life(topic_id)
            return
        assert (life is None) == (log is None)
        if life is None or log is None:
            return
        assert self.directory.topic_ids[partition] == life.topic_id
        assert life.safe_end <= log.log_end_offset <= len(life.values)
        assert log.log_start_offset <= min(life.start, log.log_end_offset)
        found = values_of(log)
        expected = list(enumerate(life.values[: log.log_end_offset]))[log.log_start_offset :]
        assert found == expected
        del life.values[log.log_end_offset :]
        life.safe_end = log.log_end_offset
        life.start = log.log_start_offset
        self.epoch += 1


@pytest.mark.parametrize("part", range(4))
def test_everything_flushed_survives_and_nothing_deleted_comes_back(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        world = World(seed)
        try:
            for _ in range(6):
                number = world.files.operations_count + world.random.randint(0, 120)
                world.files.on_operation = crash_from(number, done=world.random.random())
                try:
                    while True:
                        world.step()
                except Crash:
                    world.restart()
        except AssertionError as error:
            error.add_note(f"seed {seed}: World({seed}) and six lives replay it")
            raise
