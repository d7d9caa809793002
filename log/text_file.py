"""Kafka's small text files: a version, a count, then a line of fields per entry."""

from typing import Final

from log.errors import DamagedFileError

_VERSION: Final = 0


def encode_rows(rows: list[str]) -> bytes:
    return "\n".join([str(_VERSION), str(len(rows)), *rows]).encode() + b"\n"


def decode_rows(data: bytes, path: str, *, kind: str, columns: int) -> list[list[str]]:
    """The fields of every entry; a `DamagedFileError` says what is wrong, and what was expected."""
    lines = text_of(data, path, kind=kind).splitlines()
    if len(lines) < 2:
        raise DamagedFileError(path, f"{kind}: a line is missing or has the wrong fields")
    version, count, *rows = lines
    if number_of(version, path, kind=kind) != _VERSION:
        raise DamagedFileError(path, f"{kind}: version {version} is not known")
    if number_of(count, path, kind=kind) != len(rows):
        raise DamagedFileError(path, f"{kind}: {count} entries announced, {len(rows)} found")
    fields = [row.split() for row in rows]
    if any(len(row) != columns for row in fields):
        raise DamagedFileError(path, f"{kind}: a line is missing or has the wrong fields")
    return fields


def text_of(data: bytes, path: str, *, kind: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DamagedFileError(path, f"{kind}: it is not text") from None


def number_of(text: str, path: str, *, kind: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DamagedFileError(path, f"{kind}: {text!r} is not a number") from None
