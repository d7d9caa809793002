"""The operating system's file system."""

import errno
import fcntl
import os
from collections.abc import Sequence

from kafka_wire.types import Buffer
from log.filesystem.port import Entry

_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755


_CLOSED = 2**31 - 1
"""No descriptor: every call answers EBADF, where some raise a ValueError for -1."""


class OsFile:
    """A file descriptor that appends. It is closed when nobody holds it any more."""

    __slots__ = ("_descriptor", "_size_bytes")

    def __init__(self, path: str, *, create: bool) -> None:
        self._descriptor = _CLOSED
        self._descriptor = _open(path, create=create)
        self._size_bytes = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        self.close()

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def append(self, data: Buffer) -> None:
        written = os.write(self._descriptor, data)
        self._size_bytes += written
        while written < len(data):
            more = os.write(self._descriptor, memoryview(data)[written:])
            self._size_bytes += more
            written += more

    def read(self, size_bytes: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size_bytes, position)
        if len(data) < size_bytes and position + len(data) < self._size_bytes:
            parts = [data]
            have = len(data)
            while have < size_bytes and data:
                data = os.pread(self._descriptor, size_bytes - have, position + have)
                parts.append(data)
                have += len(data)
            return b"".join(parts)
        return data

    def read_into(self, buffer: memoryview, position: int) -> int:
        have = os.preadv(self._descriptor, [buffer], position)
        while have < len(buffer):
            more = os.preadv(self._descriptor, [buffer[have:]], position + have)
            if not more:
                break
            have += more
        return have

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)
        self._size_bytes = size_bytes

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def lock(self) -> None:
        """Keeps others from locking the file until it is closed."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        if self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED


class OsFileSystem:
    """Paths are those of the operating system."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        return OsFile(path, create=create)

    def lock(self, path: str) -> OsFile:
        file = OsFile(path, create=True)
        try:
            file.lock()
        except OSError:
            file.close()
            raise
        return file

    def list(self, directory: str) -> Sequence[Entry]:
        with os.scandir(directory) as entries:
            return sorted(found for entry in entries if (found := _entry(entry)) is not None)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path, _DIRECTORY_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        else:
            os.remove(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open(path: str, *, create: bool) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        return os.open(path, flags, _FILE_MODE)
    except OSError as error:
        # A file system that went read-only after an error can still be read.
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _entry(entry: "os.DirEntry[str]") -> Entry | None:
    """None for a name that went away while the directory was read, as a flush in a thread does."""
    try:
        is_directory = entry.is_dir()
        return Entry(entry.name, 0 if is_directory else entry.stat().st_size, is_directory)
    except FileNotFoundError:
        return None
