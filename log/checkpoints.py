"""Offsets of many partitions in one file per data directory, in Kafka's text format.

    version (0), count, then per line: topic, partition, offset

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and
`replication-offset-checkpoint` (high watermarks) are such files.
"""

from collections.abc import Mapping
from typing import Final

from kafka_wire.types import Offset, TopicPartition
from log.errors import DamagedFileError
from log.filesystem import FileSystem
from log.flush import read_file, write_safely

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_UP_TO: Final = "cleaner-offset-checkpoint"

_VERSION: Final = 0


class OffsetCheckpoint:
    """One such file: read whole, replaced whole, only when something in it has changed."""

    def __init__(self, filesystem: FileSystem, directory: str, name: str) -> None:
        self.path = f"{directory}/{name}"
        self._filesystem = filesystem
        self._directory = directory
        self._name = name
        self._stored: dict[TopicPartition, Offset] | None = None

    def read(self) -> dict[TopicPartition, Offset]:
        if self._stored is None:
            exists = self._filesystem.exists(self.path)
            data = read_file(self._filesystem, self.path) if exists else _encode({})
            self._stored = _decode(data, self.path)
        return dict(self._stored)

    def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Returns once the offsets are safe."""
        if offsets != self._stored:
            data = _encode(offsets)
            write_safely(self._filesystem, self._directory, self._name, data)
            self._stored = dict(offsets)


def _encode(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    lines = [str(_VERSION), str(len(offsets))]
    lines += [
        f"{topic} {partition} {offsets[TopicPartition(topic, partition)]}"
        for topic, partition in sorted(offsets)
    ]
    return "\n".join(lines).encode() + b"\n"


def _decode(data: bytes, path: str) -> dict[TopicPartition, Offset]:
    try:
        version, count, *lines = data.decode().splitlines()
        if int(version) != _VERSION or int(count) != len(lines):
            raise ValueError(f"version {version}, {count} entries announced, {len(lines)} found")
        offsets = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = Offset(int(offset))
    except ValueError as error:
        raise DamagedFileError(path, f"not an offset checkpoint: {error}") from None
    return offsets
