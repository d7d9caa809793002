"""The file system that the log runs on: a port, the operating system's, and a faulty one."""

from log.filesystem.operating_system import OsFileSystem
from log.filesystem.port import Entry, File, FileSystem

__all__ = ["Entry", "File", "FileSystem", "OsFileSystem"]
