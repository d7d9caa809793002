"""Java's .properties format, which Kafka's server.properties and meta.properties are in.

A line is a key, then `=`, `:` or white space, then a value. `#` and `!` begin a comment, a
backslash at the end of a line continues it on the next, and elsewhere escapes a character. The
last of several lines with one key counts, as in Java.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<char>.))", re.DOTALL)
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
"""Not `splitlines`, which knows more ends of lines than Java does."""


class PropertiesError(ValueError):
    """A line cannot be read; the message names it."""


def parse_properties(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            found[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise PropertiesError(f"line {number}: {error}") from None
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """Text from which `parse_properties` reads the same values, in their order."""
    lines = (f"{_escape(key, _KEY)}={_escape(value, _VALUE)}\n" for key, value in values.items())
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Every line that is no comment, joined with those that continue it, and its number."""
    pending: tuple[int, str] | None = None
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(_BLANK)
        if pending is not None:
            first, before = pending
            line = before + line
        elif not line or line[0] in "#!":
            continue
        else:
            first = number
        if _is_continued(line):
            pending = first, line[:-1]
        else:
            pending = None
            yield first, line
    if pending is not None:
        yield pending


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def replaced(match: re.Match[str]) -> str:
        if match["code"] is not None:
            return chr(int(match["code"], 16))
        if match["char"] == "u":
            raise ValueError("\\u needs four hexadecimal digits")
        return _ESCAPES.get(match["char"], match["char"])

    return _ESCAPE.sub(replaced, text)


_CONTROL: Final = {ord(char): f"\\{name}" for name, char in _ESCAPES.items()} | {ord("\\"): "\\\\"}
_KEY: Final = _CONTROL | {ord(char): f"\\{char}" for char in "=: #!"}
_VALUE: Final = _CONTROL


def _escape(text: str, table: Mapping[int, str]) -> str:
    escaped = text.translate(dict(table))
    # The blank that a value begins with would be taken for part of the separator.
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
