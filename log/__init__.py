"""The segmented log of a partition, in Kafka's own format on disk, over a file-system port.

`open_log` opens one partition's log, `DataDirectory` all logs under a path, `DataDirectories` those
under several. Nothing here starts a thread or reads a clock. `log.filesystem.memory` is a file
system that breaks what it may.
"""

from log.config import LogConfig
from log.data_directories import DataDirectories
from log.data_directory import DataDirectory
from log.errors import DamagedLogError, LogError
from log.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from log.recovery import open_log

__all__ = [
    "DamagedLogError",
    "DataDirectories",
    "DataDirectory",
    "LogConfig",
    "LogError",
    "OsFileSystem",
    "PartitionLog",
    "open_log",
]
