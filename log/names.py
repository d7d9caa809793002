"""The names of files in a partition's directory: Kafka's own, so that its tools find them."""

from typing import Final

from kafka_wire.types import Offset

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"

CLEANED: Final = ".cleaned"
"""A segment that compaction is still writing: removed on start."""
SWAP: Final = ".swap"
"""A segment that compaction has finished: takes its place on start."""
TEMPORARY: Final = ".tmp"
"""A file that is about to replace another: removed on start."""

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

OFFSET_DIGITS: Final = 20


def file_name(offset: Offset, suffix: str) -> str:
    """The name of a segment's file: its base offset in 20 digits, so that names sort."""
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str, suffix: str) -> Offset | None:
    """The base offset in a file's name; None if it is no such name."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != OFFSET_DIGITS or not digits.isdecimal():
        return None
    return Offset(int(digits))
