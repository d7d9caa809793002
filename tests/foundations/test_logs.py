"""Logging: lines that people and machines can read, whatever peers have sent."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from floodmark.logs import FORMATS, LEVELS, configure

logger = logging.getLogger("tests.logs")


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_text_has_time_level_node_logger_and_message() -> None:
    stream = io.StringIO()
    configure(node="quorum-1", stream=stream)
    logger.info("now %s", "leader")
    [line] = lines(stream)
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(time + r" INFO \[quorum-1\] tests\.logs: now leader", line)


def test_json_is_one_object_per_line_with_the_traceback_in_it() -> None:
    stream = io.StringIO()
    configure(log_format="json", node="quorum-1", stream=stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("it\nfailed")
    [line] = lines(stream)
    event = json.loads(line)
    assert event["message"] == "it\nfailed"
    assert event["level"] == "ERROR"
    assert event["logger"] == "tests.logs"
    assert event["node"] == "quorum-1"
    assert event["time"].endswith("Z")
    assert event["trace"].startswith("Traceback")
    assert event["trace"].endswith("ValueError: two\nlines")


def test_a_message_can_forge_no_line_and_command_no_terminal() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    logger.warning("client %s", "x\n2026 INFO root: forged\x1b[2J\u2028")
    [line] = lines(stream)
    assert line.endswith(r"client x\n2026 INFO root: forged\x1b[2J\u2028")


def test_text_shows_the_traceback_below() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    try:
        raise ValueError("cause")
    except ValueError:
        logger.exception("failed")
    assert lines(stream)[1] == "Traceback (most recent call last):"
    assert lines(stream)[-1] == "ValueError: cause"


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_less_than_the_level_is_left_out(level: str) -> None:
    stream = io.StringIO()
    configure(level=level, stream=stream)
    for name in LEVELS:
        logger.log(getattr(logging, name), "event")
    assert len(lines(stream)) == len(LEVELS) - LEVELS.index(level)


@pytest.mark.parametrize("log_format", FORMATS)
def test_configuring_again_replaces_and_leaves_handlers_of_others(log_format: str) -> None:
    other, first, second = io.StringIO(), io.StringIO(), io.StringIO()
    foreign = logging.StreamHandler(other)
    logging.getLogger().addHandler(foreign)
    configure(stream=first)
    configure(log_format=log_format, stream=second)
    logger.info("event")
    assert [len(lines(stream)) for stream in (other, first, second)] == [1, 0, 1]


def test_the_default_is_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    logger.info("event")
    out, err = capsys.readouterr()
    assert out == ""
    assert "tests.logs: event" in err
