"""`floodmark log dump` and `verify`, and what a configuration refuses."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from floodmark.cli import main
from floodmark.config import settings_of
from floodmark.errors import ExitCode, UserError
from kafka_wire.records import Record, build_batch
from kafka_wire.types import Offset, TopicPartition
from log.config import LogConfig
from log.data_directory import DataDirectory
from log.filesystem import OsFileSystem
from tests.log.logs import FIRST, append, end_transaction, fill, produce

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=80, retention_ms=None)
PARTITION = TopicPartition("topic", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with two partitions, closed."""
    directory = DataDirectory.open(OsFileSystem(), str(tmp_path), lambda _: CONFIG)
    log = directory.create(PARTITION, CONFIG, topic_id=bytes(range(16)))
    append(log, b"text", None, b"\xff\x00")
    produce(log, 7, 0, is_transactional=True)
    end_transaction(log, 7, commit=False)
    fill(log, 20, epoch=3)
    fill(directory.create(TopicPartition("other", 1), CONFIG, topic_id=bytes(16)), 2)
    directory.close()
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["log", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code, out, _ = run(capsys, *arguments, "-o", "json")
    return code, json.loads(out)


def entries_of(document: Any, suffix: str) -> list[dict[str, Any]]:
    return [row for part in document if part["file"].endswith(suffix) for row in part["entries"]]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


# ------------------------------------------------------------------------------------------- dump


def test_dump_shows_batches_indexes_epochs_and_producers(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = run_json(capsys, "dump", str(data / "topic-0"))
    assert code == 0
    batches = entries_of(document, ".log")
    assert [batch["base_offset"] for batch in batches] == [0, 3, 4, *range(5, 25)]
    assert batches[0]["count"] == 3
    assert batches[2]["is_control"]
    assert batches[2]["records"] == [{"offset": 4, "end": "abort", "coordinator_epoch": 0}]
    assert entries_of(document, "leader-epoch-checkpoint") == [
        {"epoch": 0, "start_offset": 0},
        {"epoch": 3, "start_offset": 5},
    ]
    [aborted] = entries_of(document, ".txnindex")
    assert (aborted["first_offset"], aborted["last_offset"]) == (3, 4)
    ends = {(b["last_offset"], b["position"]) for b in batches}
    assert {(e["offset"], e["position"]) for e in entries_of(document, ".index")} <= ends
    assert {p["producer_id"] for p in entries_of(document, ".snapshot")} == {7}
    assert entries_of(document, "partition.metadata") == [{"topic_id": "AAECAwQFBgcICQoLDA0ODw"}]


def test_dump_shows_records_on_request(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(data / "topic-0" / f"{FIRST}.log")
    _, document = run_json(capsys, "dump", file, "--records")
    records = document[0]["entries"][0]["records"]
    assert [record["value"] for record in records] == ["text", None, "\\xff\0"]
    _, document = run_json(capsys, "dump", file)
    assert "records" not in document[0]["entries"][0]


def test_dump_of_a_data_directory_shows_every_partition_as_a_table(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "dump", str(data))
    assert code == 0
    assert f"topic-0/{FIRST}.log" in out
    assert f"other-1/{FIRST}.log" in out
    assert "BASE_OFFSET" in out


def test_dump_changes_nothing_and_needs_no_permission_to_write(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(path for path in data.rglob("*") if path.is_file())
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    for path in files:
        path.chmod(0o444)
    assert run(capsys, "dump", str(data))[0] == 0
    assert run(capsys, "verify", str(data))[0] == 0
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files} == before
    assert sorted(path for path in data.rglob("*") if path.is_file()) == files


def test_dump_of_a_damaged_file_says_where_and_goes_on(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(data / "topic-0" / f"{FIRST}.log", 70)
    code, document = run_json(capsys, "dump", str(data / "topic-0"))
    assert code == ExitCode.INVALID
    first, *others = entries_of(document, ".log")
    assert first["position"] == 0
    assert "checksum" in first["error"]
    assert "send it again" not in first["error"]
    assert [batch["base_offset"] for batch in others] == [3, 4, *range(5, 25)]
    code, out, err = run(capsys, "dump", str(data / "topic-0"))
    assert (code, err) == (ExitCode.INVALID, "")
    assert out.index("damaged at byte 0: ") < out.index("BASE_OFFSET")
    code, out, _ = run(capsys, "dump", str(data / "topic-0"), "-o", "yaml")
    assert code == ExitCode.INVALID
    assert yaml.safe_load(out) == document


def test_dump_stops_at_zeros_that_were_allocated_in_advance(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix, entry_bytes in (("index", 8), ("timeindex", 12)):
        path = data / "topic-0" / f"{FIRST}.{suffix}"
        _, before = run_json(capsys, "dump", str(path))
        path.write_bytes(path.read_bytes() + bytes(100 * entry_bytes))
        assert before[0]["entries"]
        assert run_json(capsys, "dump", str(path)) == (0, before)
    assert run(capsys, "verify", str(data))[0] == ExitCode.VALID


def test_dump_of_an_empty_file_says_so(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / "topic-0" / f"{FIRST}.index"
    path.write_bytes(b"")
    assert run(capsys, "dump", str(path)) == (0, f"{path}\n(empty)\n", "")
    assert run_json(capsys, "dump", str(path)) == (0, [{"file": str(path), "entries": []}])
    _, out, _ = run(capsys, "dump", str(path), "-o", "yaml")
    assert yaml.safe_load(out) == [{"file": str(path), "entries": []}]


def test_dump_shows_the_checkpoints_of_a_data_directory(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, document = run_json(capsys, "dump", str(data))
    assert entries_of(document, "recovery-point-offset-checkpoint") == [
        {"topic": "other", "partition": 1, "offset": 2},
        {"topic": "topic", "partition": 0, "offset": 25},
    ]
    path = str(data / "log-start-offset-checkpoint")
    assert run_json(capsys, "dump", path)[1][0]["entries"][0]["offset"] == 0


def test_dump_shows_headers_in_order_and_bytes_without_ambiguity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headers = (("h", b"1"), ("h", b"\xff"), ("n", None))
    record = Record(Offset(0), 1, b"\\xff", b"\xff", headers)
    path = tmp_path / f"{FIRST}.log"
    path.write_bytes(build_batch([record]))
    _, document = run_json(capsys, "dump", str(path), "--records")
    assert document[0]["entries"][0]["records"] == [
        {
            "offset": 0,
            "timestamp_ms": 1,
            "key": "\\xff",
            "value": "\\xff",
            "value_base64": "/w==",
            "headers": [
                {"key": "h", "value": "1"},
                {"key": "h", "value": "\\xff", "value_base64": "/w=="},
                {"key": "n", "value": None},
            ],
        }
    ]


def test_table_of_records_has_a_row_for_each(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data / "topic-0" / f"{FIRST}.log"
    _, out, _ = run(capsys, "dump", str(path), "--records")
    _, titles, *rows = out.splitlines()
    assert titles.split()[:2] == ["OFFSET", "BASE_OFFSET"]
    assert [row.split()[:2] for row in rows[:4]] == [["0", "0"], ["1", "0"], ["2", "0"], ["3", "3"]]


def test_dump_of_a_foreign_file_names_the_kinds_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    code, _, err = run(capsys, "dump", str(tmp_path / "notes.txt"))
    assert code == ExitCode.ERROR
    assert "notes.txt is not a file of a log" in err
    assert "*.timeindex" in err
    assert "recovery-point-offset-checkpoint" in err


def test_missing_subcommand_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys)
    assert (code, out) == (ExitCode.ERROR, "")
    assert err == (
        "floodmark: 'floodmark log' needs a command: dump or verify; see 'floodmark log --help'\n"
    )


def test_verify_of_a_file_names_its_directory(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "verify", str(data / "topic-0" / f"{FIRST}.log"))
    assert code == ExitCode.ERROR
    assert err.endswith(f"verify its directory: {data / 'topic-0'}\n")
    assert "A partition's directory, or a data" in run(capsys, "verify", "--help")[1]


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_path_without_a_log_is_an_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "notes.txt"):
        code, out, err = run(capsys, command, str(path))
        assert (code, out, err.count("\n")) == (ExitCode.ERROR, "", 1)


# ----------------------------------------------------------------------------------------- verify


def test_verify_finds_nothing_wrong_in_a_good_log(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = run_json(capsys, "verify", str(data))
    assert code == ExitCode.VALID
    assert document == {"valid": True, "partitions": 2, "batches": 25, "problems": []}
    code, out, _ = run(capsys, "verify", str(data / "topic-0"))
    assert (code, out) == (ExitCode.VALID, "1 partition, 23 batches checked: nothing wrong\n")


@pytest.mark.parametrize("position", [5, 14, 16, 19, 30, 70])
def test_verify_names_file_position_and_offset_of_a_damaged_batch(
    data: Path, position: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data / "topic-0" / sorted((data / "topic-0").glob("*.log"))[1].name
    flip(path, position)
    code, document = run_json(capsys, "verify", str(data))
    assert code == ExitCode.INVALID
    assert not document["valid"]
    problem = next(p for p in document["problems"] if p["path"] == str(path))
    assert problem["reason"]
    code, out, _ = run(capsys, "verify", str(data))
    assert code == ExitCode.INVALID
    assert "REASON" in out


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (f"{FIRST}.index", b"123"),
        (f"{FIRST}.index", b"\0\0\0\1\0\0\0\1"),
        (f"{FIRST}.timeindex", b"1"),
        (f"{FIRST}.txnindex", b"1"),
        ("leader-epoch-checkpoint", b"what"),
        ("partition.metadata", b"what"),
        ("00000000000000000009.snapshot", b"what"),
    ],
)
def test_verify_finds_every_kind_of_damaged_file(
    data: Path, name: str, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "topic-0" / name).write_bytes(content)
    code, document = run_json(capsys, "verify", str(data / "topic-0"))
    assert code == ExitCode.INVALID
    assert {Path(problem["path"]).name for problem in document["problems"]} == {name}


def test_verify_finds_a_missing_segment(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = sorted((data / "topic-0").glob("*.log"))[1]
    gone.unlink()
    code, document = run_json(capsys, "verify", str(data / "topic-0"))
    assert code == ExitCode.INVALID
    [problem] = document["problems"]
    assert f"offset {int(gone.stem)}" in problem["reason"]


def test_verify_finds_a_torn_tail_and_leaves_it(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = max((data / "topic-0").glob("*.log"))
    content = last.read_bytes()[:-3]
    last.write_bytes(content)
    code, document = run_json(capsys, "verify", str(data / "topic-0"))
    assert code == ExitCode.INVALID
    assert any("torn" in problem["reason"] for problem in document["problems"])
    assert last.read_bytes() == content


def test_verify_passes_over_unfinished_work_and_foreign_files(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("leader-epoch-checkpoint.tmp", f"{FIRST}.log.cleaned", "notes.txt"):
        (data / "topic-0" / name).write_bytes(b"whatever")
    assert run(capsys, "verify", str(data))[0] == ExitCode.VALID
    assert run(capsys, "dump", str(data))[0] == 0


def test_exit_code_is_that_of_the_process(data: Path) -> None:
    command = Path(sys.executable).with_name("floodmark")
    flip(data / "topic-0" / f"{FIRST}.log", 70)
    done = subprocess.run([command, "log", "verify", data], capture_output=True, check=False)
    assert done.returncode == ExitCode.INVALID
    assert done.stderr == b""


def test_log_that_verify_accepts_opens(data: Path) -> None:
    directory = DataDirectory.open(OsFileSystem(), str(data), lambda _: CONFIG)
    assert directory.logs[PARTITION].log_end_offset == Offset(25)


# ---------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("segment_bytes", 13, "segment.bytes"),
        ("segment_bytes", 2**31, "segment.bytes"),
        ("segment_ms", 0, "segment.ms"),
        ("segment_index_bytes", 7, "segment.index.bytes"),
        ("retention_ms", -1, "retention.ms"),
        ("cleanup_policy", frozenset({"delete", "shrink"}), "cleanup.policy"),
        ("min_cleanable_dirty_ratio", 1.5, "min.cleanable.dirty.ratio"),
        ("message_timestamp_type", "Whenever", "message.timestamp.type"),
        ("flush_mode", "never", "log.flush.mode"),
    ],
)
def test_value_that_is_not_allowed_is_refused_by_its_kafka_name(
    field: str, value: object, name: str
) -> None:
    with pytest.raises(UserError, match=name):
        LogConfig(**{field: value})  # type: ignore[arg-type]


def test_every_setting_has_a_name_a_doc_and_an_allowed_default() -> None:
    settings = settings_of(LogConfig)
    assert set(settings) == set(LogConfig.__dataclass_fields__)
    assert len({described.name for described in settings.values()}) == len(settings)
    assert all(described.doc.endswith(".") for described in settings.values())
    assert LogConfig(retention_ms=None, retention_bytes=None).retention_bytes is None


@given(st.integers(14, 2**31 - 1))
def test_allowed_value_is_kept(value: int) -> None:
    assert LogConfig(segment_bytes=value).segment_bytes == value
