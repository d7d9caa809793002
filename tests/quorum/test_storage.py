"""Formatting, and what a voter refuses to start on."""

import base64
import json
from importlib.metadata import EntryPoint
from pathlib import Path
from random import Random

import pytest

from floodmark.cli.guard import guarded
from floodmark.cli.run import run_command
from floodmark.cli.table import GROUP
from floodmark.errors import ExitCode, UserError
from floodmark.properties import parse_properties
from log.filesystem import FileSystem, OsFileSystem
from log.filesystem.memory import (
    MUTATIONS,
    Crash,
    CrashNow,
    Fail,
    Fault,
    MemoryFileSystem,
    Operation,
)
from log.flush import read_file
from quorum.storage import (
    FORMATTING,
    META_PROPERTIES,
    MetaProperties,
    format_storage,
    lock_storage,
    open_storage,
    random_uuid,
    read_storage,
)

DIRECTORY = "/data/metadata"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
JOURNAL = "0.journal"


def create_journal(filesystem: FileSystem, directory: str) -> None:
    """A journal of two writes, so that a crash can fall between them."""
    file = filesystem.open(f"{directory}/{JOURNAL}", create=True)
    try:
        file.append(b"first ")
        file.append(b"vote")
        file.sync()
    finally:
        file.close()
    filesystem.sync_directory(directory)


def journal_exists(filesystem: FileSystem, directory: str) -> bool:
    return filesystem.exists(f"{directory}/{JOURNAL}")


def format_it(
    filesystem: FileSystem,
    *,
    node_id: int = 1,
    cluster_id: str = CLUSTER,
    ignore_formatted: bool = False,
) -> MetaProperties:
    return format_storage(
        filesystem,
        DIRECTORY,
        node_id=node_id,
        cluster_id=cluster_id,
        create_journal=create_journal,
        ignore_formatted=ignore_formatted,
    )


def open_it(
    filesystem: FileSystem, *, node_id: int = 1, cluster_id: str | None = CLUSTER
) -> MetaProperties:
    return open_storage(
        filesystem,
        DIRECTORY,
        node_id=node_id,
        cluster_id=cluster_id,
        journal_exists=journal_exists,
    )


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem(Random(1))


# -------------------------------------------------------------------------------------- formatting


def test_what_was_formatted_can_be_opened(filesystem: MemoryFileSystem) -> None:
    made = format_it(filesystem)
    assert made.node_id == 1
    assert made.cluster_id == CLUSTER
    assert open_it(filesystem) == open_it(filesystem, cluster_id=None) == made
    assert read_storage(filesystem, DIRECTORY) == made


def test_the_file_has_kafkas_keys(filesystem: MemoryFileSystem) -> None:
    made = format_it(filesystem)
    text = read_file(filesystem, f"{DIRECTORY}/{META_PROPERTIES}").decode()
    assert parse_properties(text) == {
        "version": "1",
        "cluster.id": CLUSTER,
        "node.id": "1",
        "directory.id": made.directory_id,
    }


def test_a_file_that_kafka_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text(
        "#\n#Wed Nov 18 13:35:20 UTC 2026\ncluster.id=ckjPoprWQzOf0-FuNkGfFQ\n"
        "directory.id=8LNkQDQDTeeFgFLRL6pNcg\nnode.id=3\nversion=1\n"
    )
    assert read_storage(OsFileSystem(), str(tmp_path)) == MetaProperties(
        cluster_id="ckjPoprWQzOf0-FuNkGfFQ", node_id=3, directory_id="8LNkQDQDTeeFgFLRL6pNcg"
    )


def test_formatting_twice_is_refused_and_changes_nothing(filesystem: MemoryFileSystem) -> None:
    made = format_it(filesystem)
    for node_id in (1, 2):
        with pytest.raises(UserError, match=f"formatted already, for node 1 of cluster {CLUSTER}"):
            format_it(filesystem, node_id=node_id)
    assert open_it(filesystem) == made


def test_ignore_formatted_leaves_the_directory_and_its_journal(
    filesystem: MemoryFileSystem,
) -> None:
    made = format_it(filesystem)
    file = filesystem.open(f"{DIRECTORY}/{JOURNAL}")
    file.append(b" and more")
    assert format_it(filesystem, ignore_formatted=True) == made
    assert read_file(filesystem, f"{DIRECTORY}/{JOURNAL}") == b"first vote and more"


def test_ignore_formatted_refuses_what_belongs_to_others(filesystem: MemoryFileSystem) -> None:
    format_it(filesystem)
    with pytest.raises(UserError, match="belongs to node 1, not to node 2"):
        format_it(filesystem, node_id=2, ignore_formatted=True)
    with pytest.raises(UserError, match=f"belongs to cluster {CLUSTER}, not to cluster other"):
        format_it(filesystem, cluster_id="other", ignore_formatted=True)


def test_a_directory_that_holds_something_is_not_formatted(filesystem: MemoryFileSystem) -> None:
    """A journal without meta.properties may be a voter's: nobody may write over it."""
    format_it(filesystem)
    filesystem.remove(f"{DIRECTORY}/{META_PROPERTIES}")
    with pytest.raises(UserError, match=f"not empty: it has {JOURNAL}"):
        format_it(filesystem)
    assert read_file(filesystem, f"{DIRECTORY}/{JOURNAL}") == b"first vote"


def test_a_fresh_disk_with_lost_and_found_is_empty(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    format_storage(
        OsFileSystem(), str(tmp_path), node_id=1, cluster_id="c", create_journal=create_journal
    )
    assert read_storage(OsFileSystem(), str(tmp_path)) is not None


@pytest.mark.parametrize("cluster_id", ["", "a b", "a\nnode.id=9", "ü", "x" * 129])
def test_bad_cluster_ids_are_refused(cluster_id: str, filesystem: MemoryFileSystem) -> None:
    with pytest.raises(UserError, match="floodmark storage random-uuid"):
        format_it(filesystem, cluster_id=cluster_id)
    assert not filesystem.exists(DIRECTORY)


def test_bad_node_ids_are_refused(filesystem: MemoryFileSystem) -> None:
    with pytest.raises(UserError, match="use 0 or more"):
        format_it(filesystem, node_id=-1)


def test_ids_are_random_and_look_like_kafkas() -> None:
    found = {random_uuid() for _ in range(500)}
    assert len(found) == 500
    for text in found:
        assert len(base64.urlsafe_b64decode(text + "==")) == 16
        assert not text.startswith("-")


# ----------------------------------------------------------------------------------------- crashes


def mutations_of_format() -> int:
    filesystem = MemoryFileSystem(Random(0))
    format_it(filesystem)
    return filesystem.operations_count


def test_a_finished_format_survives_any_power_cut() -> None:
    for seed in range(50):
        filesystem = MemoryFileSystem(Random(seed))
        made = format_it(filesystem)
        filesystem.crash()
        assert open_it(filesystem) == made
        assert read_file(filesystem, f"{DIRECTORY}/{JOURNAL}") == b"first vote"


@pytest.mark.parametrize("number", range(mutations_of_format()))
def test_a_format_cut_off_anywhere_is_refused_or_whole_and_can_be_repeated(number: int) -> None:
    for seed in range(20):

        def cut(operation: Operation) -> Fault | None:
            is_it = operation.number == number and operation.kind in MUTATIONS
            return CrashNow() if is_it else None

        filesystem = MemoryFileSystem(Random(seed), cut)
        try:
            format_it(filesystem)
        except Crash:
            filesystem.crash()
        filesystem.on_operation = lambda _: None
        if read_storage(filesystem, DIRECTORY) is None:
            with pytest.raises(UserError, match="floodmark storage format"):
                open_it(filesystem)
            found = format_it(filesystem)
        else:
            found = open_it(filesystem)
        filesystem.crash()
        assert open_it(filesystem) == found
        assert read_file(filesystem, f"{DIRECTORY}/{JOURNAL}") == b"first vote"
        assert not filesystem.exists(f"{DIRECTORY}/{FORMATTING}")


@pytest.mark.parametrize("number", range(mutations_of_format()))
def test_a_disk_error_anywhere_is_raised_and_formatting_can_be_repeated(number: int) -> None:
    def fail(operation: Operation) -> Fault | None:
        is_it = operation.number == number and operation.kind in MUTATIONS
        return Fail(number=5) if is_it else None

    filesystem = MemoryFileSystem(Random(3), fail)
    with pytest.raises(OSError, match="Input/output error"):
        format_it(filesystem)
    filesystem.on_operation = lambda _: None
    assert format_it(filesystem, ignore_formatted=True) == open_it(filesystem)


# ------------------------------------------------------------------------------------------- start


def test_an_unformatted_directory_is_refused_with_the_command_to_run(
    filesystem: MemoryFileSystem,
) -> None:
    for _ in ("there is no directory", "it is empty"):
        with pytest.raises(UserError) as caught:
            open_it(filesystem)
        message = str(caught.value)
        assert f"{DIRECTORY} is not formatted" in message
        command = f"floodmark storage format --data-dir {DIRECTORY} --node-id 1"
        assert f"'{command} --cluster-id {CLUSTER}'" in message
        filesystem.make_directory("/data")
        filesystem.make_directory(DIRECTORY)


def test_another_node_or_cluster_is_refused(filesystem: MemoryFileSystem) -> None:
    format_it(filesystem)
    with pytest.raises(UserError, match="belongs to node 1, not to node 2"):
        open_it(filesystem, node_id=2)
    with pytest.raises(UserError, match="not to cluster other"):
        open_it(filesystem, cluster_id="other")


def test_a_formatted_node_whose_journal_is_gone_does_not_start(
    filesystem: MemoryFileSystem,
) -> None:
    format_it(filesystem)
    filesystem.remove(f"{DIRECTORY}/{JOURNAL}")
    with pytest.raises(UserError, match="has lost what it promised"):
        open_it(filesystem)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it has no version"),
        ("version=1\ncluster.id=a\nnode.id=1", "it has no directory.id"),
        ("version=0\ncluster.id=a\nnode.id=1\ndirectory.id=x", "version 0 is not known"),
        ("version=1\ncluster.id=a\nnode.id=x\ndirectory.id=x", "node.id is 'x'"),
        ("version=1\ncluster.id=a\nnode.id=-1\ndirectory.id=x", "node.id is '-1'"),
        ("version=\\u1", "line 1"),
        ("\xff", "codec"),
    ],
)
def test_a_damaged_file_is_told(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match="is damaged") as caught:
        open_storage(OsFileSystem(), str(tmp_path), node_id=1)
    assert told in str(caught.value)


def test_two_processes_cannot_have_one_directory(filesystem: MemoryFileSystem) -> None:
    format_it(filesystem)
    lock = lock_storage(filesystem, DIRECTORY)
    with pytest.raises(UserError, match="in use by another process"):
        lock_storage(filesystem, DIRECTORY)
    with pytest.raises(UserError, match="in use by another process"):
        format_it(filesystem, ignore_formatted=True)
    lock.close()
    lock_storage(filesystem, DIRECTORY).close()


# ------------------------------------------------------------------------------------- the command


def storage(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    entry = EntryPoint(name="storage", value="quorum.cli.storage:app", group=GROUP)
    code = guarded("floodmark", lambda: run_command("storage", entry, arguments))
    out, err = capsys.readouterr()
    return code, out, err


def config_file(tmp_path: Path, more: str = "") -> Path:
    path = tmp_path / "quorum.properties"
    path.write_text(
        f"node.id=1\ncontroller.quorum.voters=1@127.0.0.1:9094\n"
        f"metadata.log.dir={tmp_path}/a/b\n{more}"
    )
    return path


def test_format_info_and_a_voters_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from quorum.raft.journal import Journal, exists

    code, cluster, _ = storage(capsys, "random-uuid")
    assert code == 0
    config = str(config_file(tmp_path))
    code, out, _ = storage(capsys, "format", "-c", config, "-t", cluster.strip(), "-o", "json")
    assert code == 0
    document = json.loads(out)
    assert document["cluster_id"] == cluster.strip()
    assert document["node_id"] == 1
    directory = str(tmp_path / "a/b")
    opened = open_storage(
        OsFileSystem(),
        directory,
        node_id=1,
        cluster_id=cluster.strip(),
        journal_exists=exists,
    )
    assert opened.directory_id == document["directory_id"]
    assert Journal(OsFileSystem(), directory).term == 0
    for arguments in (["--config", config], ["--data-dir", directory]):
        code, out, _ = storage(capsys, "info", *arguments, "-o", "json")
        assert (code, json.loads(out)) == (0, document)
    assert storage(capsys, "format", "-c", config, "-t", cluster.strip())[0] == ExitCode.ERROR
    code, _, _ = storage(
        capsys, "format", "-c", config, "-t", cluster.strip(), "--ignore-formatted"
    )
    assert code == 0


def test_format_takes_the_cluster_from_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(config_file(tmp_path, "cluster.id=abc"))
    code, _, err = storage(capsys, "format", "-c", config, "-t", "other")
    assert code == ExitCode.ERROR
    assert "correct one of them" in err
    code, out, _ = storage(capsys, "format", "-c", config, "-o", "json")
    assert (code, json.loads(out)["cluster_id"]) == (0, "abc")


def test_info_of_what_is_not_formatted_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = storage(capsys, "info", "--data-dir", str(tmp_path), "-o", "json")
    assert code == 0
    assert json.loads(out)["formatted"] is False


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["format"], "use --config, or --data-dir and --node-id"),
        (["format", "--data-dir", "x"], "use --config, or --data-dir and --node-id"),
        (["format", "--data-dir", "x", "--node-id", "1"], "floodmark storage random-uuid"),
        (["format", "--data-dir", "x", "--node-id", "-1", "-t", "c"], "--node-id"),
        (["format", "-c", "missing.properties"], "missing.properties does not exist"),
        (["info"], "use either --config or --data-dir"),
        (["info", "--data-dir", "missing"], "missing is no directory"),
    ],
)
def test_bad_arguments_are_one_line_and_make_nothing(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = storage(capsys, *arguments)
    assert (code, out) == (ExitCode.ERROR, "")
    assert told in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
