"""Both file systems keep the port's contract, and the one in memory breaks what it may break."""

import errno
import gc
import os
import random
from pathlib import Path

import pytest

from log.filesystem import Entry, FileSystem, OsFileSystem
from log.filesystem.memory import (
    SECTOR_BYTES,
    Crash,
    CrashNow,
    Fail,
    Kind,
    MemoryFileSystem,
    ShortRead,
)

SEEDS = range(60)


@pytest.fixture(params=["operating system", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    if request.param == "memory":
        files = MemoryFileSystem(random.Random(0))
        files.make_directory("/data")
        return files, "/data"
    return OsFileSystem(), str(tmp_path)


def in_memory(seed: int = 0) -> MemoryFileSystem:
    files = MemoryFileSystem(random.Random(seed))
    files.make_directory("/data")
    files.sync_directory("/")
    return files


# ------------------------------------------------------------------------- what both promise


def test_appended_bytes_are_read_back_anywhere(place: tuple[FileSystem, str]) -> None:
    files, root = place
    file = files.open(f"{root}/a", create=True)
    file.append(b"hello ")
    file.append(memoryview(bytearray(b"world")))
    assert file.size_bytes == 11
    assert file.read(5, 6) == b"world"
    assert file.read(100, 6) == b"world"
    assert file.read(5, 11) == b""
    buffer = bytearray(8)
    assert file.read_into(memoryview(buffer), 6) == 5
    assert buffer == b"world\0\0\0"


def test_truncation_cuts_and_appending_goes_on_at_the_new_end(
    place: tuple[FileSystem, str],
) -> None:
    files, root = place
    file = files.open(f"{root}/a", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    file.append(b"x")
    assert file.size_bytes == 5
    assert file.read(10, 0) == b"0123x"


def test_two_handles_see_the_same_file(place: tuple[FileSystem, str]) -> None:
    files, root = place
    first = files.open(f"{root}/a", create=True)
    first.append(b"abc")
    first.sync()
    second = files.open(f"{root}/a")
    assert second.size_bytes == 3
    assert second.read(3, 0) == b"abc"


def test_missing_file_is_not_made_without_being_asked(place: tuple[FileSystem, str]) -> None:
    files, root = place
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/a")
    assert not files.exists(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/nowhere/a", create=True)


def test_directory_lists_names_sizes_and_kinds_sorted(place: tuple[FileSystem, str]) -> None:
    files, root = place
    files.open(f"{root}/b", create=True).append(b"12")
    files.make_directory(f"{root}/a")
    files.make_directory(f"{root}/a")
    files.open(f"{root}/c", create=True)
    assert list(files.list(root)) == [
        Entry("a", 0, True),
        Entry("b", 2, False),
        Entry("c", 0, False),
    ]


def test_rename_replaces_a_file_and_open_handles_go_on(place: tuple[FileSystem, str]) -> None:
    files, root = place
    old = files.open(f"{root}/a", create=True)
    old.append(b"old")
    files.open(f"{root}/b", create=True).append(b"new")
    files.rename(f"{root}/b", f"{root}/a")
    files.sync_directory(root)
    assert [entry.name for entry in files.list(root)] == ["a"]
    assert files.open(f"{root}/a").read(3, 0) == b"new"
    assert old.read(3, 0) == b"old"


def test_rename_refuses_a_name_of_another_kind(place: tuple[FileSystem, str]) -> None:
    files, root = place
    files.make_directory(f"{root}/directory")
    files.open(f"{root}/directory/x", create=True)
    files.make_directory(f"{root}/other")
    files.open(f"{root}/file", create=True)
    for old, new in [("file", "directory"), ("other", "file"), ("other", "directory")]:
        with pytest.raises(OSError, match=r"."):
            files.rename(f"{root}/{old}", f"{root}/{new}")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/missing", f"{root}/x")


def test_removed_file_can_be_read_by_those_who_hold_it(place: tuple[FileSystem, str]) -> None:
    files, root = place
    file = files.open(f"{root}/a", create=True)
    file.append(b"abc")
    files.remove(f"{root}/a")
    assert not files.exists(f"{root}/a")
    assert file.read(3, 0) == b"abc"
    file.sync()


def test_only_an_empty_directory_is_removed(place: tuple[FileSystem, str]) -> None:
    files, root = place
    files.make_directory(f"{root}/d")
    files.open(f"{root}/d/x", create=True)
    with pytest.raises(OSError, match=r"."):
        files.remove(f"{root}/d")
    files.remove(f"{root}/d/x")
    files.remove(f"{root}/d")
    assert not files.exists(f"{root}/d")
    with pytest.raises(FileNotFoundError):
        files.remove(f"{root}/d")


def test_closed_file_refuses_everything(place: tuple[FileSystem, str]) -> None:
    files, root = place
    file = files.open(f"{root}/a", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match=r"."):
        file.append(b"x")
    with pytest.raises(OSError, match=r"."):
        file.sync()


# ------------------------------------------------------------------- the operating system's


def test_descriptor_is_closed_when_nobody_holds_the_file(tmp_path: Path) -> None:
    files = OsFileSystem()
    held = [files.open(f"{tmp_path}/{i}", create=True) for i in range(50)]
    before = len(os.listdir("/proc/self/fd"))
    held.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before - 50


def test_file_without_write_permission_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    path.chmod(0o444)
    file = OsFileSystem().open(str(path))
    assert file.read(3, 0) == b"abc"


# ------------------------------------------------------------------------- what a crash leaves


def test_synced_data_under_a_synced_name_survives() -> None:
    for seed in SEEDS:
        files = in_memory(seed)
        file = files.open("/data/a", create=True)
        file.append(b"safe")
        file.sync()
        files.sync_directory("/data")
        files.crash()
        assert files.open("/data/a").read(10, 0) == b"safe"


def test_name_may_be_lost_although_the_data_was_synced() -> None:
    survived = set()
    for seed in SEEDS:
        files = in_memory(seed)
        file = files.open("/data/a", create=True)
        file.append(b"safe")
        file.sync()
        files.crash()
        survived.add(files.exists("/data/a"))
    assert survived == {True, False}


def test_unsynced_data_is_lost_torn_or_zero() -> None:
    data = bytes(range(1, 251)) * 10
    lengths, zeroed = set(), False
    for seed in SEEDS:
        files = in_memory(seed)
        file = files.open("/data/a", create=True)
        file.append(b"safe")
        file.sync()
        files.sync_directory("/data")
        file.append(data)
        files.crash()
        left = files.open("/data/a").read(10_000, 0)
        assert left.startswith(b"safe")
        lengths.add(len(left) - 4)
        for start in range(0, len(left) - 4, SECTOR_BYTES):
            sector = left[4 + start : 4 + start + SECTOR_BYTES]
            is_zero = sector == bytes(len(sector))
            zeroed |= is_zero
            assert is_zero or data[start:].startswith(sector)
    assert len(lengths) > 20
    assert any(length % SECTOR_BYTES for length in lengths)
    assert zeroed


def test_unsynced_truncation_may_not_have_happened() -> None:
    found = set()
    for seed in SEEDS:
        files = in_memory(seed)
        file = files.open("/data/a", create=True)
        file.append(b"0123456789")
        file.sync()
        files.sync_directory("/data")
        file.truncate(3)
        files.crash()
        found.add(files.open("/data/a").read(10, 0)[:4])
    assert {b"0123", b"012"} <= found


def test_rename_is_atomic_and_unsynced_may_not_have_happened() -> None:
    found = set()
    for seed in SEEDS:
        files = in_memory(seed)
        for name, data in [("a", b"old"), ("a.tmp", b"new")]:
            file = files.open(f"/data/{name}", create=True)
            file.append(data)
            file.sync()
        files.sync_directory("/data")
        files.rename("/data/a.tmp", "/data/a")
        files.crash()
        found.add((files.open("/data/a").read(3, 0), files.exists("/data/a.tmp")))
    assert found == {(b"old", True), (b"new", False)}


def test_changes_of_names_survive_in_order() -> None:
    for seed in SEEDS:
        files = in_memory(seed)
        for name in "abc":
            files.open(f"/data/{name}", create=True)
        files.crash()
        left = [entry.name for entry in files.list("/data")]
        assert left == list("abc")[: len(left)]


def test_files_in_a_directory_that_was_not_synced_go_with_it() -> None:
    survived = set()
    for seed in SEEDS:
        files = in_memory(seed)
        files.make_directory("/data/d")
        file = files.open("/data/d/a", create=True)
        file.sync()
        files.sync_directory("/data/d")
        files.crash()
        survived.add(files.exists("/data/d/a"))
    assert survived == {True, False}


def test_handles_are_dead_after_a_crash() -> None:
    files = in_memory()
    file = files.open("/data/a", create=True)
    files.crash()
    with pytest.raises(OSError, match="lost its power"):
        file.append(b"x")


# ------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_failed_append_leaves_the_part_that_was_written(number: int) -> None:
    files = in_memory()
    file = files.open("/data/a", create=True)
    files.on_operation = lambda o: Fail(number=number, done=0.5) if o.kind is Kind.APPEND else None
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        file.append(b"0123456789")
    assert caught.value.errno == number
    assert file.size_bytes == 5


@pytest.mark.parametrize(
    ("kind", "does"),
    [
        (Kind.CREATE, lambda files: files.open("/data/new", create=True)),
        (Kind.READ, lambda files: files.open("/data/a").read(1, 0)),
        (Kind.TRUNCATE, lambda files: files.open("/data/a").truncate(0)),
        (Kind.SYNC, lambda files: files.open("/data/a").sync()),
        (Kind.MAKE_DIRECTORY, lambda files: files.make_directory("/data/d")),
        (Kind.RENAME, lambda files: files.rename("/data/a", "/data/b")),
        (Kind.REMOVE, lambda files: files.remove("/data/a")),
        (Kind.SYNC_DIRECTORY, lambda files: files.sync_directory("/data")),
    ],
)
def test_failed_operation_changes_nothing(kind: Kind, does: object) -> None:
    files = in_memory()
    files.open("/data/a", create=True).append(b"x")
    before = files.list("/data")
    files.on_operation = lambda o: Fail() if o.kind is kind else None
    assert callable(does)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        does(files)
    files.on_operation = lambda _: None
    assert files.list("/data") == before


def test_crash_in_the_middle_of_a_write_is_no_exception_that_code_catches() -> None:
    files = in_memory()
    file = files.open("/data/a", create=True)
    files.on_operation = lambda _: CrashNow(done=0.5)
    with pytest.raises(Crash):
        file.append(b"0123")
    assert not issubclass(Crash, Exception)


def test_short_reads_are_completed() -> None:
    files = in_memory()
    file = files.open("/data/a", create=True)
    file.append(b"0123456789")
    before = files.operations_count
    files.on_operation = lambda _: ShortRead(size_bytes=3)
    assert file.read(10, 0) == b"0123456789"
    assert files.operations_count - before == 4


def test_flipped_bit_is_flipped_for_good() -> None:
    files = in_memory()
    file = files.open("/data/a", create=True)
    file.append(b"\0\0")
    file.sync()
    files.sync_directory("/data")
    files.flip_bit("/data/a", 1, 3)
    files.crash()
    assert files.open("/data/a").read(2, 0) == b"\0\x08"
