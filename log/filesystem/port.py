"""What the log needs of a file system, and what it may expect of it.

The contract is the weakest that real file systems keep:

* What was written is safe once `File.sync` has returned. Before that a crash may keep all of it,
  nothing, or some of its sectors with zeros between them, and the file may have any length up to
  the one it had.
* That a file exists, has a new name, or is gone is safe once `sync_directory` has returned for
  its directory. Syncing the file is not enough. Before that a crash may keep the old state.
* A rename is atomic: a crash leaves the old name or the new one, never both and never neither.
* A sync that failed says nothing about what is on disk, and repeating it proves nothing: the
  pages may be marked clean by now. Whoever sees one must stop writing to that directory.

Two implementations: the operating system's, and one in memory that breaks whatever the contract
allows it to break.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kafka_wire.types import Buffer


class Entry(NamedTuple):
    """A name in a directory."""

    name: str
    size_bytes: int
    is_directory: bool


class File(Protocol):
    """An open file: appended to, read anywhere, cut at the end."""

    @property
    def size_bytes(self) -> int:
        """The length, with everything written so far."""

    def append(self, data: Buffer) -> None:
        """Writes all of `data` at the end, or raises `OSError` with any part of it written."""

    def read(self, size_bytes: int, position: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer only at the end of the file."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fills `buffer` from `position`; returns how many bytes there were before the end."""

    def truncate(self, size_bytes: int) -> None:
        """Cuts the file to a length that it has or exceeds."""

    def sync(self) -> None:
        """Returns once the contents and the length are safe."""

    def close(self) -> None:
        """Lets go of the file; what was not synced stays so."""


class FileSystem(Protocol):
    """Files by path; paths are separated by slashes."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens a file; with `create` an empty one if there is none."""

    def lock(self, path: str) -> File:
        """Opens a file that nobody else can lock until it is closed, or its owner has died.

        Raises `BlockingIOError` if somebody has it.
        """

    def list(self, directory: str) -> Sequence[Entry]:
        """What is in a directory, sorted by name."""

    def exists(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Makes a directory in one that exists; it may exist already."""

    def rename(self, old: str, new: str) -> None:
        """Gives a file or directory another name, replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Removes a file or an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Returns once the names in a directory are safe."""
