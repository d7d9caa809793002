"""A flush as a ticket: prepared by the log, run by anybody, completed by the log.

`log` starts no thread. The driver asks for a ticket (`PartitionLog.prepare_flush`), runs it where
waiting does no harm, and brings it back (`complete_flush`). Appends go on in between: they are
not part of the ticket. One sync covers everything that many requests appended before.
"""

from kafka_wire.types import Offset
from log.filesystem import File, FileSystem
from log.names import LEADER_EPOCHS, TEMPORARY


class FlushTicket:
    """What has to be synced before a log's records up to `end_offset` are safe."""

    __slots__ = ("_directory", "_epochs", "_files", "_filesystem", "_names", "end_offset")

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        *,
        end_offset: Offset,
        files: list[File],
        names: bool,
        epochs: bytes | None,
    ) -> None:
        self.end_offset = end_offset
        """Lowered by a truncation that happens meanwhile."""
        self._filesystem = filesystem
        self._directory = directory
        self._files = files
        self._names = names
        self._epochs = epochs

    def run(self) -> None:
        """Syncs. May run in any thread; an `OSError` means that nothing may be acknowledged."""
        for file in self._files:
            file.sync()
        if self._epochs is not None:
            write_safely(self._filesystem, self._directory, LEADER_EPOCHS, self._epochs)
        elif self._names:
            self._filesystem.sync_directory(self._directory)


def write_safely(filesystem: FileSystem, directory: str, name: str, data: bytes) -> None:
    """Replaces a file so that a crash leaves the old contents or the new, nothing between."""
    temporary = f"{directory}/{name}{TEMPORARY}"
    file = filesystem.open(temporary, create=True)
    try:
        file.truncate(0)
        file.append(data)
        file.sync()
    finally:
        file.close()
    filesystem.rename(temporary, f"{directory}/{name}")
    filesystem.sync_directory(directory)


def read_file(filesystem: FileSystem, path: str) -> bytes:
    file = filesystem.open(path)
    try:
        return file.read(file.size_bytes, 0)
    finally:
        file.close()
