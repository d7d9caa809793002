"""A file system in memory that breaks everything its contract allows it to break.

It keeps two worlds apart: what programs see, and what is safe on the disk. `crash` throws the
first away and makes from the second one of the worlds that a power cut could have left:

* of a file's bytes since its last sync any prefix survives, torn at any byte, and within that
  prefix any sector may read as zeros (the length reached the disk, the data did not);
* a truncation that was not synced may not have happened;
* of a directory's changes since its last sync the first few survive, in order.

Before every operation `on_operation` is asked, and may answer with a fault: a crash, an error
with part of a write done, or a short read. Faults that no log can survive (a sync that lies, bits
that flip in synced data without a checksum to tell) are only made by hand, with `flip_bit`.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import TypeAlias
from weakref import WeakValueDictionary

from kafka_wire.types import Buffer
from log.filesystem.port import Entry

SECTOR_BYTES = 512


class Kind(Enum):
    """The operations that a fault can hit."""

    CREATE = auto()
    APPEND = auto()
    READ = auto()
    TRUNCATE = auto()
    SYNC = auto()
    MAKE_DIRECTORY = auto()
    RENAME = auto()
    REMOVE = auto()
    SYNC_DIRECTORY = auto()


MUTATIONS = frozenset(Kind) - {Kind.READ}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation, counted from 0 over the life of the file system."""

    number: int
    kind: Kind
    path: str


class Crash(BaseException):
    """The machine lost its power. No `except Exception` of the code under test may catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashNow:
    """Power is lost, with this share of a write done."""

    done: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The operation fails, with this share of a write done."""

    number: int = errno.EIO
    done: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRead:
    """A read is answered in pieces: one system call returns no more than so many bytes."""

    size_bytes: int = 1


Fault: TypeAlias = CrashNow | Fail | ShortRead
OnOperation: TypeAlias = Callable[[Operation], Fault | None]


@dataclass(slots=True, eq=False)
class _Contents:
    """A file: as seen, and as it was when last synced."""

    data: bytearray = field(default_factory=bytearray)
    safe: bytes = b""

    def after_crash(self, random: Random) -> bytes:
        if self.data == self.safe:
            return self.safe
        common = _common_prefix(self.data, self.safe)
        if common < len(self.safe) and random.random() < 0.5:
            # A truncation, and whatever was written after it, did not reach the disk.
            return self.safe
        new = self.data[common:]
        kept = bytearray(new[: random.randint(0, len(new))])
        for start in range(0, len(kept), SECTOR_BYTES):
            if random.random() < 0.2:
                size = len(kept[start : start + SECTOR_BYTES])
                kept[start : start + size] = bytes(size)
        left = self.safe[:common] + bytes(kept)
        if len(left) < len(self.safe) and random.random() < 0.2:
            # The data after a truncation reached the disk, the new length did not.
            left += bytes(len(self.safe) - len(left))
        return left


@dataclass(slots=True, eq=False)
class _Directory:
    """A directory: as seen, as it was when last synced, and each state between the two."""

    names: "dict[str, _Contents | _Directory]" = field(default_factory=dict)
    history: "list[dict[str, _Contents | _Directory]]" = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = [dict(self.names)]

    def changed(self) -> None:
        self.history.append(dict(self.names))

    def synced(self) -> None:
        self.history = [dict(self.names)]

    def after_crash(self, random: Random) -> "_Directory":
        survived = random.choice(self.history)
        names: dict[str, _Contents | _Directory] = {}
        for name, node in survived.items():
            if isinstance(node, _Directory):
                names[name] = node.after_crash(random)
            else:
                contents = node.after_crash(random)
                names[name] = _Contents(bytearray(contents), contents)
        return _Directory(names)


class MemoryFile:
    """An open file. It outlives its name, and dies with the machine."""

    def __init__(self, system: "MemoryFileSystem", path: str, contents: _Contents) -> None:
        self._system = system
        self._path = path
        self._contents = contents
        self._life = system.life
        self._open = True

    @property
    def size_bytes(self) -> int:
        self._check()
        return len(self._contents.data)

    def append(self, data: Buffer) -> None:
        self._check()
        with_fault = self._system.next_operation(Kind.APPEND, self._path)
        if isinstance(with_fault, CrashNow | Fail):
            self._contents.data += memoryview(data)[: int(len(data) * with_fault.done)]
            self._system.inflict(with_fault, self._path)
        self._contents.data += data

    def read(self, size_bytes: int, position: int) -> bytes:
        buffer = bytearray(max(0, min(size_bytes, self.size_bytes - position)))
        have = self.read_into(memoryview(buffer), position)
        return bytes(buffer[:have])

    def read_into(self, buffer: memoryview, position: int) -> int:
        self._check()
        have = 0
        while have < len(buffer):
            more = self._read_once(buffer[have:], position + have)
            if not more:
                break
            have += more
        return have

    def truncate(self, size_bytes: int) -> None:
        self._check()
        self._system.inflict(self._system.next_operation(Kind.TRUNCATE, self._path), self._path)
        del self._contents.data[size_bytes:]

    def sync(self) -> None:
        self._check()
        self._system.inflict(self._system.next_operation(Kind.SYNC, self._path), self._path)
        self._contents.safe = bytes(self._contents.data)

    def close(self) -> None:
        self._open = False

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and the machine has not lost its power since."""
        return self._open and self._life == self._system.life

    def _read_once(self, buffer: memoryview, position: int) -> int:
        fault = self._system.next_operation(Kind.READ, self._path)
        limit = len(buffer)
        if isinstance(fault, ShortRead):
            limit = min(limit, fault.size_bytes)
        else:
            self._system.inflict(fault, self._path)
        piece = self._contents.data[position : position + limit]
        buffer[: len(piece)] = piece
        return len(piece)

    def _check(self) -> None:
        if not self._open:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        if self._life != self._system.life:
            raise OSError(errno.EBADF, "the machine has lost its power since", self._path)


class MemoryFileSystem:
    """Directories and files under `/`, with faults on demand."""

    def __init__(self, random: Random, on_operation: OnOperation = lambda _: None) -> None:
        self.on_operation = on_operation
        self.operations_count = 0
        self.life = 0
        self._random = random
        self._root = _Directory()
        self._locks: WeakValueDictionary[str, MemoryFile] = WeakValueDictionary()

    def crash(self) -> None:
        """Loses the power: what survives is there when this returns, open files are dead."""
        self.life += 1
        self._root = self._root.after_crash(self._random)

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Damages synced data, as a disk may after years."""
        contents = self._contents(path)
        contents.data[position] ^= 1 << bit
        contents.safe = bytes(contents.data)

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.inflict(self.next_operation(Kind.CREATE, path), path)
            node = directory.names[name] = _Contents()
            directory.changed()
        return MemoryFile(self, path, node)

    def lock(self, path: str) -> MemoryFile:
        owner = self._locks.get(path)
        if owner is not None and owner.is_usable:
            raise BlockingIOError(errno.EAGAIN, "somebody else has locked it", path)
        file = self._locks[path] = self.open(path, create=True)
        return file

    def list(self, directory: str) -> Sequence[Entry]:
        names = self._directory(directory).names
        return sorted(
            Entry(name, 0, True)
            if isinstance(node, _Directory)
            else Entry(name, len(node.data), False)
            for name, node in names.items()
        )

    def exists(self, path: str) -> bool:
        try:
            directory, name = self._parent(path)
        except FileNotFoundError:
            return False
        return name in directory.names

    def make_directory(self, path: str) -> None:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if isinstance(node, _Contents):
            raise FileExistsError(errno.EEXIST, "a file has this name", path)
        if node is None:
            self.inflict(self.next_operation(Kind.MAKE_DIRECTORY, path), path)
            directory.names[name] = _Directory()
            directory.changed()

    def rename(self, old: str, new: str) -> None:
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        if source is not target:
            raise OSError(errno.EXDEV, "a name changes only within its directory", new)
        if old_name not in source.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        replaced = target.names.get(new_name)
        if isinstance(replaced, _Directory):
            raise OSError(errno.ENOTEMPTY, "a directory has this name", new)
        if replaced is not None and isinstance(source.names[old_name], _Directory):
            raise NotADirectoryError(errno.ENOTDIR, "a file has this name", new)
        self.inflict(self.next_operation(Kind.RENAME, new), new)
        source.names[new_name] = source.names.pop(old_name)
        source.changed()

    def remove(self, path: str) -> None:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, _Directory) and node.names:
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", path)
        self.inflict(self.next_operation(Kind.REMOVE, path), path)
        del directory.names[name]
        directory.changed()

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        self.inflict(self.next_operation(Kind.SYNC_DIRECTORY, path), path)
        directory.synced()

    def next_operation(self, kind: Kind, path: str) -> Fault | None:
        operation = Operation(number=self.operations_count, kind=kind, path=path)
        self.operations_count += 1
        return self.on_operation(operation)

    def inflict(self, fault: Fault | None, path: str) -> None:
        match fault:
            case CrashNow():
                raise Crash(path)
            case Fail(number=number):
                raise OSError(number, os.strerror(number), path)
            case _:
                return

    def _parent(self, path: str) -> tuple[_Directory, str]:
        head, _, name = path.rpartition("/")
        return self._directory(head), name

    def _directory(self, path: str) -> _Directory:
        node: _Contents | _Directory | None = self._root
        for name in filter(None, path.split("/")):
            node = node.names.get(name) if isinstance(node, _Directory) else None
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return node

    def _contents(self, path: str) -> _Contents:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if not isinstance(node, _Contents):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node


def _common_prefix(a: Buffer, b: Buffer) -> int:
    """How many bytes two buffers share from their beginning, found by halving."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
