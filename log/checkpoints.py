"""Offsets of many partitions in one file per data directory, in Kafka's text format.

    version (0), count, then per line: topic, partition, offset

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and
`replication-offset-checkpoint` (high watermarks) are such files.
"""

from collections.abc import Mapping
from typing import Final

from kafka_wire.types import Offset, TopicPartition
from log.filesystem import FileSystem
from log.flush import read_file, write_safely
from log.text_file import decode_rows, encode_rows, number_of

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_UP_TO: Final = "cleaner-offset-checkpoint"

_KIND: Final = "not an offset checkpoint"


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
    return encode_rows([f"{key.topic} {key.partition} {offsets[key]}" for key in sorted(offsets)])


def _decode(data: bytes, path: str) -> dict[TopicPartition, Offset]:
    offsets = {}
    for topic, partition, offset in decode_rows(data, path, kind=_KIND, columns=3):
        key = TopicPartition(topic, number_of(partition, path, kind=_KIND))
        offsets[key] = Offset(number_of(offset, path, kind=_KIND))
    return offsets
