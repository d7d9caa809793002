"""A voter that lost its disk: refused as it is, recovered with the mark, whole again without."""

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from floodmark.addresses import Address
from floodmark.errors import UserError
from log.filesystem import FileSystem, OsFileSystem
from log.filesystem.memory import Crash, CrashNow, Fault, MemoryFileSystem, Operation
from quorum import recovery
from quorum.config import QuorumConfig, Voter
from quorum.raft import journal
from quorum.raft.node import RaftNode
from quorum.raft.port import Outcome
from quorum.storage import read_storage
from tests.quorum.raft.nodes import Recorder, Voters, wait_for

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


def config_of(directory: str, *, voters: int = 3) -> QuorumConfig:
    return QuorumConfig(
        node_id=1,
        voters=tuple(Voter(i, Address("127.0.0.1", 9000 + i)) for i in range(1, voters + 1)),
        metadata_log_dir=directory,
    )


def test_a_voter_without_its_journal_refuses_to_start_until_it_is_recovered(tmp_path: Path) -> None:
    with Voters(tmp_path) as voters:
        voters.start()
        assert voters.write(b"kept").outcome is Outcome.COMMITTED
        voters.stop(3)
        directory = tmp_path / "3"
        shutil.rmtree(directory)
        directory.mkdir()
        with pytest.raises(UserError, match="floodmark quorum recover"):
            voters.start(3)
        voters.up.pop(3)

        journal.create(OsFileSystem(), str(directory))
        recovered = threading.Event()
        options = replace(voters.options(3), is_recovering=True, on_recovered=recovered.set)
        recorder = Recorder()
        failures: list[BaseException] = []
        node = RaftNode(options, recorder, recorder, failures.append)
        node.start()
        try:
            assert recovered.wait(20), "it never holds everything"
            assert recorder.commands == [b"kept"]
            voters.stop(2)  # now its word is needed for every majority
            assert voters.write(b"again").outcome is Outcome.COMMITTED
            wait_for(lambda: recorder.commands == [b"kept", b"again"], "the second command")
            assert not failures
        finally:
            node.stop()


def test_a_directory_is_never_a_voters_without_the_mark() -> None:
    """Whatever operation of the preparation the power fails in."""
    number = 0
    while _crash_preparation(number):
        number += 1
    assert number > 10


def _crash_preparation(number: int) -> bool:
    """Whether the preparation had an operation of that number."""
    filesystem = MemoryFileSystem(Random(number))
    filesystem.make_directory("/data")
    filesystem.sync_directory("")
    at = filesystem.operations_count + number

    def crash(operation: Operation) -> Fault | None:
        return CrashNow(done=0.5) if operation.number == at else None

    filesystem.on_operation = crash
    try:
        recovery.prepare(filesystem, config_of("/data/metadata"), CLUSTER)
    except Crash:
        filesystem.crash()
    filesystem.on_operation = lambda _: None
    if _is_a_voters(filesystem, "/data/metadata"):
        assert recovery.is_recovering(filesystem, "/data/metadata")
    return filesystem.life > 0


def test_the_mark_goes_when_the_voter_is_whole_again(tmp_path: Path) -> None:
    filesystem = OsFileSystem()
    directory = str(tmp_path / "metadata")
    recovery.prepare(filesystem, config_of(directory), CLUSTER)
    assert recovery.is_recovering(filesystem, directory)
    recovery.finish(filesystem, directory)
    assert not recovery.is_recovering(filesystem, directory)


def test_the_only_voter_has_nobody_to_recover_from(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nobody to recover from"):
        recovery.prepare(OsFileSystem(), config_of(str(tmp_path / "m"), voters=1), CLUSTER)
    assert not (tmp_path / "m").exists()


def _is_a_voters(filesystem: FileSystem, directory: str) -> bool:
    try:
        return read_storage(filesystem, directory) is not None
    except (FileNotFoundError, UserError):
        return False
