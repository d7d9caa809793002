"""What can be wrong with a log on disk."""

from kafka_wire.types import Offset


class LogError(Exception):
    """The log cannot do what was asked."""


class DamagedFileError(LogError):
    """A file that holds what nobody wrote into it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason


class DamagedLogError(DamagedFileError):
    """Records that were flushed are damaged: the disk, not a crash, is at fault.

    The partition goes offline. It is never shortened to the records before the damage, for those
    behind it were acknowledged: restore the replica from another one.
    """

    def __init__(self, path: str, position: int, offset: Offset, reason: str) -> None:
        super().__init__(path, f"at byte {position}, from offset {offset} on: {reason}")
        self.position = position
        self.offset = offset
