"""One data directory: the partitions in it, what is written down of them, and how it ends.

    .kafka_cleanshutdown                    there only while nobody owns the directory
    recovery-point-offset-checkpoint        up to where each log was synced
    log-start-offset-checkpoint             where each log begins
    replication-offset-checkpoint           each partition's high watermark
    <topic>-<partition>/                    a log
    <topic>-<partition>.<id>-delete/        a log on its way out

The marker of a clean stop is removed, and its removal synced, before anything is opened: should
the process die, the next one must know. The recovery points on disk may lag behind, which only
means more to check; they are never ahead of what was synced.

A partition that cannot be opened is offline, the others are not. An error that no partition is to
blame for takes the whole directory offline.
"""

from collections.abc import Callable, Iterator
from typing import Final

from kafka_wire.types import Offset, TopicPartition
from log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, OffsetCheckpoint
from log.config import LogConfig
from log.errors import LogError
from log.filesystem import FileSystem
from log.partition_log import PartitionLog
from log.partition_metadata import read_topic_id, write_topic_id
from log.recovery import open_log

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
DELETED: Final = "-delete"


class DataDirectory:
    """The logs under one path. `open` makes one."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[TopicPartition, bytes | None] = {}
        self.offline: dict[TopicPartition, LogError] = {}
        """Partitions whose logs cannot be opened, and why."""
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """Those that were written down before the start."""
        self._filesystem = filesystem
        self._recovery_points = OffsetCheckpoint(filesystem, path, RECOVERY_POINTS)
        self._log_starts = OffsetCheckpoint(filesystem, path, LOG_STARTS)
        self._high_watermarks = OffsetCheckpoint(filesystem, path, HIGH_WATERMARKS)

    @classmethod
    def open(
        cls,
        filesystem: FileSystem,
        path: str,
        config_of: Callable[[TopicPartition], LogConfig],
    ) -> "DataDirectory":
        """Opens every log in a directory that exists."""
        opened = cls(filesystem, path)
        clean = opened._take_over()
        opened.high_watermarks = opened._high_watermarks.read()
        for partition in list(opened._find_partitions()):
            try:
                opened._open_log(partition, config_of(partition), clean=clean)
            except LogError as error:
                opened.offline[partition] = error
        return opened

    def create(
        self, partition: TopicPartition, config: LogConfig, *, topic_id: bytes
    ) -> PartitionLog:
        """Makes the log of a new partition; when this returns it will be there after a crash."""
        directory = self._directory_of(partition)
        self._forget_offsets(partition)
        self._filesystem.make_directory(directory)
        write_topic_id(self._filesystem, directory, topic_id)
        self._filesystem.sync_directory(self.path)
        return self._open_log(partition, config, clean=False)

    def delete(self, partition: TopicPartition, *, unique_id: str) -> None:
        """Deletes a partition's log: gone under its name at once, gone from disk thereafter."""
        self.logs.pop(partition, None)
        self.offline.pop(partition, None)
        self.topic_ids.pop(partition, None)
        doomed = f"{self.path}/{partition}.{unique_id}{DELETED}"
        self._filesystem.rename(self._directory_of(partition), doomed)
        self._filesystem.sync_directory(self.path)
        self._remove_tree(doomed)

    def checkpoint(self) -> None:
        """Writes down how far each log was synced, where it begins, and its high watermark."""
        recovery_points = {p: log.recovery_point for p, log in self.logs.items()}
        log_starts = {p: log.log_start_offset for p, log in self.logs.items()}
        high_watermarks = {p: log.high_watermark for p, log in self.logs.items()}
        # A log that is offline keeps what was known of it, for the day it is repaired.
        for partition in self.offline:
            for known, now in (
                (self._recovery_points, recovery_points),
                (self._log_starts, log_starts),
                (self._high_watermarks, high_watermarks),
            ):
                before = known.read()
                if partition in before:
                    now[partition] = before[partition]
        self._recovery_points.write(recovery_points)
        self._log_starts.write(log_starts)
        self._high_watermarks.write(high_watermarks)

    def close(self) -> None:
        """Brings everything to disk and leaves the marker, if every log could be closed."""
        for log in self.logs.values():
            log.close()
        self.checkpoint()
        if all(log.failure is None for log in self.logs.values()):
            marker = self._filesystem.open(f"{self.path}/{CLEAN_SHUTDOWN}", create=True)
            marker.sync()
            marker.close()
            self._filesystem.sync_directory(self.path)

    def _take_over(self) -> bool:
        """Removes the marker of a clean stop; returns whether it was there."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        if not self._filesystem.exists(marker):
            return False
        self._filesystem.remove(marker)
        self._filesystem.sync_directory(self.path)
        return True

    def _find_partitions(self) -> Iterator[TopicPartition]:
        for entry in self._filesystem.list(self.path):
            if not entry.is_directory:
                continue
            if entry.name.endswith(DELETED):
                self._remove_tree(f"{self.path}/{entry.name}")
                continue
            topic, separator, number = entry.name.rpartition("-")
            if separator and topic and number.isdecimal():
                yield TopicPartition(topic, int(number))

    def _open_log(
        self, partition: TopicPartition, config: LogConfig, *, clean: bool
    ) -> PartitionLog:
        directory = self._directory_of(partition)
        self.topic_ids[partition] = read_topic_id(self._filesystem, directory)
        log = open_log(
            self._filesystem,
            directory,
            config,
            clean=clean,
            recovery_point=self._recovery_points.read().get(partition, Offset(0)),
            log_start_offset=self._log_starts.read().get(partition, Offset(0)),
            before_truncation=lambda offset: self._lower_recovery_point(partition, offset),
        )
        self.logs[partition] = log
        return log

    def _lower_recovery_point(self, partition: TopicPartition, offset: Offset) -> None:
        """Before a log is cut: what will be missing must not look like damage."""
        points = self._recovery_points.read()
        if points.get(partition, Offset(0)) > offset:
            points[partition] = offset
            self._recovery_points.write(points)

    def _forget_offsets(self, partition: TopicPartition) -> None:
        """A deleted partition of the same name must not lend the new one its offsets."""
        for checkpoint in (self._recovery_points, self._log_starts, self._high_watermarks):
            offsets = checkpoint.read()
            if offsets.pop(partition, None) is not None:
                checkpoint.write(offsets)

    def _directory_of(self, partition: TopicPartition) -> str:
        return f"{self.path}/{partition}"

    def _remove_tree(self, directory: str) -> None:
        for entry in self._filesystem.list(directory):
            path = f"{directory}/{entry.name}"
            if entry.is_directory:
                self._remove_tree(path)
            else:
                self._filesystem.remove(path)
        self._filesystem.remove(directory)
