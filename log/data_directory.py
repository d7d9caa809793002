"""One data directory: the partitions in it, what is written down of them, and how it ends.

    .lock                                   locked while somebody owns the directory
    .kafka_cleanshutdown                    there only while nobody does, after a clean stop
    recovery-point-offset-checkpoint        up to where each log was synced
    log-start-offset-checkpoint             where each log begins
    replication-offset-checkpoint           each partition's high watermark
    <topic>-<partition>/                    a log
    <topic>-<partition>.<id>-delete/        a log on its way out

The marker of a clean stop is removed, and its removal synced, before anything is opened: should
the process die, the next one must know. The recovery points on disk may lag behind, which only
means more to check; they are never ahead of what was synced.

A partition whose files are damaged is offline, the others are not. An error of the disk, wherever
it shows, takes the whole directory offline: nothing in it is written any more, what is there can
be read. A damaged checkpoint keeps the directory from being opened, for without it nobody could
tell records that were never safe from records that were lost.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from floodmark.invariant import invariant
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import Offset, TopicPartition
from log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, OffsetCheckpoint
from log.config import LogConfig
from log.errors import LogError
from log.filesystem import File, FileSystem
from log.names import LOG, PARTITION_METADATA, offset_of
from log.partition_log import PartitionLog
from log.partition_metadata import UUID_BYTES, read_topic_id, write_topic_id
from log.recovery import open_log

LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
DELETED: Final = "-delete"
MAX_TOPIC_CHARACTERS: Final = 249
LEGAL_TOPIC: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_CHARACTERS}}}")


class DataDirectory:
    """The logs under one path. `open` makes one."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[TopicPartition, bytes | None] = {}
        self.offline: dict[TopicPartition, LogError] = {}
        """Partitions whose logs cannot be opened, and why."""
        self.failure: Exception | None = None
        """Why the whole directory is offline."""
        self._filesystem = filesystem
        self._lock: File | None = None
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
        """Opens every log in a directory that exists, and that nobody else has opened."""
        opened = cls(filesystem, path)
        try:
            opened._lock = filesystem.lock(f"{path}/{LOCK}")
        except BlockingIOError:
            raise LogError(f"{path} is in use by another process: stop that one first") from None
        try:
            opened._open_logs(config_of)
        except BaseException:
            opened.release()
            raise
        return opened

    def create(
        self, partition: TopicPartition, config: LogConfig, *, topic_id: bytes
    ) -> PartitionLog:
        """Makes the log of a new partition; when this returns it will be there after a crash."""
        self._require_online()
        check_new_partition(partition, topic_id)
        directory = self._directory_of(partition)
        if self._is_partition(partition):
            raise LogError(f"{directory} exists already: delete the partition first")
        try:
            self._forget_offsets(partition)
            self._filesystem.make_directory(directory)
            write_topic_id(self._filesystem, directory, topic_id)
            self._filesystem.sync_directory(self.path)
            return self._open_log(partition, config, clean=False)
        except OSError as error:
            raise self._go_offline(error) from error

    def delete(self, partition: TopicPartition, *, unique_id: str) -> None:
        """Deletes a partition's log: gone under its name at once, gone from disk thereafter.

        Bring an outstanding flush back before: it writes to a path that may soon be another log's.
        """
        self._require_online()
        log = self.logs.get(partition)
        if log is not None:
            invariant(
                not log.is_flushing, "a log is not deleted under a flush", partition=partition
            )
            log.take_offline(LogError(f"{log.directory} was deleted"))
        doomed = f"{self.path}/{partition}.{unique_id}{DELETED}"
        try:
            self._filesystem.rename(self._directory_of(partition), doomed)
            self._filesystem.sync_directory(self.path)
            for known in (self.logs, self.offline, self.topic_ids):
                known.pop(partition, None)
            self._remove_tree(doomed)
        except OSError as error:
            raise self._go_offline(error) from error

    def checkpoint(self) -> None:
        """Writes down how far each log was synced, where it begins, and its high watermark."""
        self._require_online()
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
        try:
            self._recovery_points.write(recovery_points)
            self._log_starts.write(log_starts)
            self._high_watermarks.write(high_watermarks)
        except OSError as error:
            raise self._go_offline(error) from error

    def close(self) -> None:
        """Brings everything to disk and leaves the marker, if every log could be closed.

        A partition that is offline would be opened without a check behind the marker, so there is
        none then.
        """
        try:
            self._bring_to_disk()
        finally:
            self.release()

    def release(self) -> None:
        """Lets others open the directory; what is not on disk yet is lost, as in a crash."""
        self._take_offline(LogError(f"{self.path} is closed"))
        if self._lock is not None:
            self._lock.close()

    def _open_logs(self, config_of: Callable[[TopicPartition], LogConfig]) -> None:
        for checkpoint in self._checkpoints():
            checkpoint.read()
        clean = self._take_over()
        for partition in list(self._find_partitions()):
            try:
                self._open_log(partition, config_of(partition), clean=clean)
            except LogError as error:
                self.offline[partition] = error

    def _bring_to_disk(self) -> None:
        whole = not self.offline and all(log.failure is None for log in self.logs.values())
        for log in self.logs.values():
            log.close()
        if self.failure is not None:
            return
        self.checkpoint()
        if not whole:
            return
        try:
            marker = self._filesystem.open(f"{self.path}/{CLEAN_SHUTDOWN}", create=True)
            marker.sync()
            marker.close()
            self._filesystem.sync_directory(self.path)
        except OSError as error:
            raise self._go_offline(error) from error

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
            topic, _, number = entry.name.rpartition("-")
            if topic and number.isdecimal():
                partition = TopicPartition(topic, int(number))
                if str(partition) == entry.name and self._is_partition(partition):
                    yield partition

    def _is_partition(self, partition: TopicPartition) -> bool:
        """Whether there is a log. A directory without one is somebody else's, or was being made."""
        directory = self._directory_of(partition)
        if self._filesystem.exists(f"{directory}/{PARTITION_METADATA}"):
            return True
        return self._filesystem.exists(directory) and any(
            offset_of(entry.name, LOG) is not None for entry in self._filesystem.list(directory)
        )

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
            on_failure=self._take_offline,
        )
        known = self._high_watermarks.read().get(partition, Offset(0))
        log.set_high_watermark(min(max(known, log.log_start_offset), log.log_end_offset))
        self.logs[partition] = log
        return log

    def _checkpoints(self) -> tuple[OffsetCheckpoint, ...]:
        return self._recovery_points, self._log_starts, self._high_watermarks

    def _require_online(self) -> None:
        if self.failure is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path} is offline: {self.failure}"
            )

    def _take_offline(self, error: Exception) -> None:
        """The disk has failed under one of the logs: none of them may be written to any more."""
        if self.failure is None:
            self.failure = error
            for log in self.logs.values():
                log.take_offline(error)

    def _go_offline(self, error: OSError) -> KafkaError:
        self._take_offline(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path} went offline: {error}")

    def _lower_recovery_point(self, partition: TopicPartition, offset: Offset) -> None:
        """Before a log is cut: what will be missing must not look like damage."""
        points = self._recovery_points.read()
        if points.get(partition, Offset(0)) > offset:
            points[partition] = offset
            self._recovery_points.write(points)

    def _forget_offsets(self, partition: TopicPartition) -> None:
        """A deleted partition of the same name must not lend the new one its offsets."""
        for checkpoint in self._checkpoints():
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


def check_new_partition(partition: TopicPartition, topic_id: bytes) -> None:
    """Kafka's rules for names, before one becomes a path."""
    topic, number = partition
    if topic in (".", "..") or not LEGAL_TOPIC.fullmatch(topic):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{topic!r} is no name for a topic: use 1 to {MAX_TOPIC_CHARACTERS} of the letters "
            "a to z and A to Z, digits, '.', '_' and '-'",
        )
    if number < 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"{number} is no number for a partition")
    if len(topic_id) != UUID_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a topic id has {UUID_BYTES} bytes, not {len(topic_id)}"
        )
