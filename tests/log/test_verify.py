"""What `verify` finds: all that the log would refuse, each cause once, in words for its owner."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floodmark.errors import ExitCode
from kafka_wire.records import parse_header
from kafka_wire.types import Offset, TopicPartition
from log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from log.data_directory import CLEAN_SHUTDOWN, DataDirectory
from log.filesystem import OsFileSystem
from tests.log.logs import FIRST, SMALL, fill
from tests.log.test_cli import flip, run, run_json

PARTITION = TopicPartition("topic", 0)
BATCHES = 24


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with one partition of two epochs and some segments, closed."""
    directory = DataDirectory.open(OsFileSystem(), str(tmp_path), lambda _: SMALL)
    log = directory.create(PARTITION, SMALL, topic_id=bytes(range(16)))
    fill(log, BATCHES // 2)
    fill(log, BATCHES // 2, epoch=3)
    directory.close()
    return tmp_path


@pytest.fixture
def problems(data: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[], list[Any]]:
    def found() -> list[Any]:
        code, document = run_json(capsys, "verify", str(data))
        assert code == (ExitCode.INVALID if document["problems"] else ExitCode.VALID)
        told: list[Any] = document["problems"]
        return told

    return found


Problems = Callable[[], list[Any]]


def segments_of(data: Path) -> list[Path]:
    return sorted((data / "topic-0").glob("*.log"))


def positions_of(path: Path) -> list[int]:
    content, positions, position = path.read_bytes(), [], 0
    while position < len(content):
        positions.append(position)
        position += parse_header(content, position).size_bytes
    return positions


def remove_segment(path: Path) -> None:
    for file in path.parent.glob(f"{path.stem}.*"):
        if file.suffix != ".snapshot":
            file.unlink()


# ------------------------------------------------------------------------------- what was written


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS])
@pytest.mark.parametrize(
    "content", [b"", b"what", b"0\n1\ntopic 0\n", b"0\n1\ntopic 0 x\n", b"\xff"]
)
def test_damaged_checkpoint_is_told_without_words_of_python(
    data: Path, problems: Problems, name: str, content: bytes
) -> None:
    (data / name).write_bytes(content)
    [problem] = problems()
    assert problem["path"] == str(data / name)
    for word in ("unpack", "literal", "codec", "dictionary"):
        assert word not in problem["reason"]


def test_log_that_ends_before_its_recovery_point_misses_records(
    data: Path, problems: Problems, capsys: pytest.CaptureFixture[str]
) -> None:
    last = segments_of(data)[-1]
    remove_segment(last)
    [problem] = problems()
    assert problem["reason"] == f"records up to offset {BATCHES} were synced and are missing"
    assert problem["offset"] == int(last.stem)
    assert run(capsys, "verify", str(data / "topic-0"))[0] == ExitCode.INVALID
    (data / CLEAN_SHUTDOWN).unlink()
    opened = DataDirectory.open(OsFileSystem(), str(data), lambda _: SMALL)
    assert "are missing" in str(opened.offline[PARTITION])


def test_first_segments_that_are_missing_are_told(data: Path, problems: Problems) -> None:
    remove_segment(segments_of(data)[0])
    [problem] = problems()
    assert problem["path"] == str(segments_of(data)[0])
    assert "starts at offset 0" in problem["reason"]


def test_after_a_crash_what_is_missing_may_have_been_removed_on_purpose(
    data: Path, problems: Problems
) -> None:
    (data / CLEAN_SHUTDOWN).unlink()
    remove_segment(segments_of(data)[0])
    [problem] = problems()
    assert problem["reason"].endswith("unless retention removed them after the last checkpoint")
    (data / "topic-0").rename(data / "elsewhere")
    [problem] = problems()
    assert "unless the partition was deleted" in problem["reason"]


def test_copy_of_a_partition_is_checked_by_its_own_files(
    data: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path_factory.mktemp("copies") / "topic-0"
    (data / "topic-0").rename(copy)
    assert run(capsys, "verify", str(copy))[0] == ExitCode.VALID
    last = max(copy.glob("*.log"))
    position = positions_of(last)[-1]
    flip(last, position + 15)
    _, document = run_json(capsys, "verify", str(copy))
    [problem] = document["problems"]
    assert (problem["position"], problem["reason"]) == (
        position,
        "leader epoch 2 stands where 3 was written",
    )


def test_segments_that_retention_removed_are_not_missed(data: Path, problems: Problems) -> None:
    directory = DataDirectory.open(OsFileSystem(), str(data), lambda _: SMALL)
    log = directory.logs[PARTITION]
    log.set_high_watermark(log.log_end_offset)
    log.advance_log_start(Offset(BATCHES // 2))
    directory.close()
    assert problems() == []


def test_partition_without_a_segment_is_told(data: Path, problems: Problems) -> None:
    for path in segments_of(data):
        remove_segment(path)
    [problem] = problems()
    assert problem["path"] == str(data / "topic-0")
    assert problem["reason"] == f"there is no segment: records up to offset {BATCHES} were synced"


def test_partition_without_a_directory_is_told(data: Path, problems: Problems) -> None:
    (data / "topic-0").rename(data / "elsewhere")
    [problem] = problems()
    assert problem["path"] == str(data / "topic-0")
    assert f"records up to offset {BATCHES}" in problem["reason"]


def test_partition_on_its_way_out_is_not_missed(data: Path, problems: Problems) -> None:
    (data / "topic-0").rename(data / "topic-0.1234-delete")
    assert problems() == []


def test_index_without_its_segment_is_told(data: Path, problems: Problems) -> None:
    for suffix in ("index", "timeindex", "txnindex"):
        (data / "topic-0" / f"{'1'.zfill(20)}.{suffix}").write_bytes(b"")
    assert [Path(p["path"]).suffix for p in problems()] == [".index", ".timeindex", ".txnindex"]


@pytest.mark.parametrize(
    "entries", [[(5_000, 1), (4_000, 2)], [(4_000, 2), (5_000, 1)], [(4_000, 900)], [(1, -1)]]
)
def test_time_index_that_cannot_be_is_told(
    data: Path, problems: Problems, entries: list[tuple[int, int]]
) -> None:
    path = data / "topic-0" / f"{FIRST}.timeindex"
    path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    [problem] = problems()
    assert problem["path"] == str(path)


def test_epochs_above_the_recovery_point_of_a_crashed_log_need_not_be_written(
    data: Path, problems: Problems
) -> None:
    (data / "topic-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert len(problems()) == BATCHES // 2
    (data / CLEAN_SHUTDOWN).unlink()
    (data / RECOVERY_POINTS).write_text(f"0\n1\ntopic 0 {BATCHES // 2}\n")
    assert problems() == []


# ----------------------------------------------------------------------- causes, not consequences


@pytest.mark.parametrize("number", [0, 1, 3, 99])
@pytest.mark.parametrize("byte", [5, 7, 9, 11, 15, 16, 17, 30, 70])
@pytest.mark.parametrize("segment", [0, 1, -1])
def test_one_flipped_bit_is_one_problem_at_its_batch(
    data: Path, problems: Problems, segment: int, number: int, byte: int
) -> None:
    path = segments_of(data)[segment]
    positions = positions_of(path)
    position = positions[min(number, len(positions) - 1)]
    flip(path, position + byte)
    [problem] = problems()
    assert (problem["path"], problem["position"]) == (str(path), position)
    assert "again" not in problem["reason"]


def test_two_damaged_batches_are_two_problems(data: Path, problems: Problems) -> None:
    path = segments_of(data)[1]
    positions = positions_of(path)
    for position in (positions[1], positions[3]):
        flip(path, position + 70)
    assert [problem["position"] for problem in problems()] == [positions[1], positions[3]]


def test_flipped_epoch_without_a_checkpoint_is_told_once(data: Path, problems: Problems) -> None:
    (data / "topic-0" / "leader-epoch-checkpoint").unlink()
    path = segments_of(data)[0]
    position = positions_of(path)[1]
    flip(path, position + 13)
    [problem] = problems()
    assert problem["position"] == position


def test_torn_tail_below_the_recovery_point_says_that_it_was_synced(
    data: Path, problems: Problems
) -> None:
    path = segments_of(data)[-1]
    path.write_bytes(path.read_bytes()[:-3])
    [problem] = problems()
    assert "torn" in problem["reason"]
    assert f"records up to offset {BATCHES} were synced" in problem["reason"]


# ----------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("partition.metadata", b"what", "a line is not 'name: value'"),
        ("partition.metadata", b"version: 0\n", "it has no topic_id"),
        ("leader-epoch-checkpoint", b"0", "a line is missing or has the wrong fields"),
        ("leader-epoch-checkpoint", b"0\n1\na 1\n", "'a' is not a number"),
        ("leader-epoch-checkpoint", b"\xff", "it is not text"),
    ],
)
def test_reason_is_about_the_file(
    data: Path, problems: Problems, name: str, content: bytes, reason: str
) -> None:
    (data / "topic-0" / name).write_bytes(content)
    [problem] = problems()
    assert problem["reason"].endswith(f": {reason}")


def test_counts_agree_with_their_nouns(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(segments_of(data)[0], 70)
    _, out, _ = run(capsys, "verify", str(data))
    assert out.splitlines()[-1] == f"1 partition, {BATCHES} batches checked: 1 problem"
