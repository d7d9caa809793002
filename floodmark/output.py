"""The output formats of every command: `-o table|wide|json|yaml`.

`json` and `yaml` print the whole document; `table` and `wide` print rows of it under columns, and
never cut a value to the width of a terminal, because scripts read tables too.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

Plain: TypeAlias = "bool | int | float | str | Sequence[Plain] | Mapping[str, Plain] | None"
Row: TypeAlias = Mapping[str, Plain]

_COLUMN_GAP = "  "


class OutputFormat(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: `key` picks the value of a row; a `wide` one is shown with `-o wide` only."""

    key: str
    title: str
    wide: bool = False
    right: bool = False


def emit(
    document: Plain, *, rows: Iterable[Row], columns: Sequence[Column], output: OutputFormat
) -> None:
    """Write the document to standard output in the format that was asked for."""
    sys.stdout.write(render(document, rows=rows, columns=columns, output=output))


def render(
    document: Plain, *, rows: Iterable[Row], columns: Sequence[Column], output: OutputFormat
) -> str:
    match output:
        case OutputFormat.JSON:
            return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        case OutputFormat.YAML:
            return _yaml(document)
        case OutputFormat.TABLE:
            return _table(rows, [column for column in columns if not column.wide])
        case OutputFormat.WIDE:
            return _table(rows, columns)
    assert_never(output)


def _yaml(document: Plain) -> str:
    import yaml  # here, because most runs print a table

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=False)


def _table(rows: Iterable[Row], columns: Sequence[Column]) -> str:
    from rich.cells import cell_len  # knows how wide a character is on a terminal

    lines = [[column.title for column in columns]]
    lines += [[_cell(row.get(column.key)) for column in columns] for row in rows]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(columns))]

    def padded(line: Sequence[str]) -> str:
        cells = []
        for text, width, column in zip(line, widths, columns, strict=True):
            padding = " " * (width - cell_len(text))
            cells.append(padding + text if column.right else text + padding)
        return _COLUMN_GAP.join(cells).rstrip()

    return "".join(padded(line) + "\n" for line in lines)


def _cell(value: Plain) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case str():
            return _printable(value) or "-"
        case int() | float():
            return str(value)
        case Mapping():
            return ",".join(f"{_printable(key)}={_cell(item)}" for key, item in value.items())
        case Sequence():
            return ",".join(_cell(item) for item in value) or "-"


def _printable(text: str) -> str:
    """Escape what a terminal would obey: names come from any cluster, from anyone."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
