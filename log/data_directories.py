"""Several data directories (`log.dirs`), each on a disk of its own: one may fail, others go on."""

from collections.abc import Callable, Iterator, Sequence

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import TopicPartition
from log.config import LogConfig
from log.data_directory import DataDirectory
from log.errors import LogError
from log.filesystem import FileSystem
from log.partition_log import PartitionLog


class DataDirectories:
    """All logs of a broker, wherever they lie. `open` makes one."""

    def __init__(self, directories: list[DataDirectory], failed: dict[str, Exception]) -> None:
        self.directories = directories
        self.failed = failed
        """Directories that could not be opened, and why. Their partitions are not known."""

    @classmethod
    def open(
        cls,
        filesystem: FileSystem,
        paths: Sequence[str],
        config_of: Callable[[TopicPartition], LogConfig],
    ) -> "DataDirectories":
        """Opens every directory that can be opened; at least one must be."""
        directories: list[DataDirectory] = []
        failed: dict[str, Exception] = {}
        for path in paths:
            try:
                directories.append(DataDirectory.open(filesystem, path, config_of))
            except (OSError, LogError) as error:
                failed[path] = error
        if not directories:
            reasons = "; ".join(f"{path}: {error}" for path, error in failed.items())
            raise LogError(f"no data directory can be opened: {reasons}")
        opened = cls(directories, failed)
        opened._refuse_twice()
        return opened

    def __iter__(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        for directory in self.directories:
            yield from directory.logs.items()

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        """The partition's log, if it is here and could be opened."""
        directory = self.directory_of(partition)
        return None if directory is None else directory.logs.get(partition)

    def directory_of(self, partition: TopicPartition) -> DataDirectory | None:
        """Where a partition lies, online or not."""
        for directory in self.directories:
            if partition in directory.logs or partition in directory.offline:
                return directory
        return None

    def create(
        self, partition: TopicPartition, config: LogConfig, *, topic_id: bytes
    ) -> PartitionLog:
        """Makes the log of a new partition, in the directory that has the fewest."""
        known = self.directory_of(partition)
        if known is not None:
            raise LogError(f"{partition} is in {known.path} already: delete it first")
        online = [directory for directory in self.directories if directory.failure is None]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every data directory is offline")
        emptiest = min(online, key=lambda directory: len(directory.logs) + len(directory.offline))
        return emptiest.create(partition, config, topic_id=topic_id)

    def delete(self, partition: TopicPartition, *, unique_id: str) -> None:
        """Deletes a partition's log; see `DataDirectory.delete`."""
        directory = self.directory_of(partition)
        if directory is not None:
            directory.delete(partition, unique_id=unique_id)

    def checkpoint(self) -> None:
        """Writes down the offsets of all logs whose directories are online."""
        for directory in self.directories:
            if directory.failure is None:
                directory.checkpoint()

    def close(self) -> None:
        """Closes every log; directories that are whole get their marker of a clean stop."""
        for directory in self.directories:
            directory.close()

    def _refuse_twice(self) -> None:
        """Two copies of a partition, one of which is old: nobody here can tell which."""
        seen: dict[TopicPartition, str] = {}
        for directory in self.directories:
            for partition in (*directory.logs, *directory.offline):
                if partition in seen:
                    raise LogError(
                        f"{partition} is in {seen[partition]} and in {directory.path}: "
                        "remove the copy that is out of date"
                    )
                seen[partition] = directory.path
