"""Logging of the long-running programs: lines of text or of JSON, on standard error.

The standard library's logging, set up once: code says `logger = logging.getLogger(__name__)`. An
event is one line. What a peer has sent may be part of a message, so characters that would begin a
line of their own, or that a terminal would obey, are escaped.
"""

import json
import logging
import sys
import time
from typing import IO, Final

FORMATS: Final = ("text", "json")
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

_UTC: Final = "%Y-%m-%dT%H:%M:%S"


def configure(
    *, log_format: str = "text", level: str = "INFO", node: str = "", stream: IO[str] | None = None
) -> None:
    """Sets up the root logger. `node` (such as `quorum-1`) is part of every line.

    It may be called again, and then replaces what it has set up before.
    """
    formatter = {"text": _TextFormatter, "json": _JsonFormatter}[log_format](node)
    handler = _Handler(stream if stream is not None else sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in [found for found in root.handlers if isinstance(found, _Handler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level)


class _Handler(logging.StreamHandler[IO[str]]):
    """Ours, to be told from handlers that others have set up."""


class _TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO [quorum-1] quorum.controller: message`, then a traceback."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = f"[{node}] " if node else ""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.levelname} {self._node}{record.name}: "
        return "\n".join([head + _escape(record.getMessage()), *_trace(self, record)])


class _JsonFormatter(logging.Formatter):
    """An object per line."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "thread": record.threadName,
        }
        if self._node:
            fields["node"] = self._node
        trace = _trace(self, record)
        if trace:
            fields["trace"] = "\n".join(trace)
        return json.dumps(fields)


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime(_UTC, time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03}Z"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return parts


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
