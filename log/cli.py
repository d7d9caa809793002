"""Look into the files of a log, and check them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any, Final

import typer

from floodmark.cli.options import OutputOption
from floodmark.errors import ExitCode, UserError
from floodmark.output import Column, OutputFormat, Plain, emit, render
from log.data_directory import DELETED
from log.filesystem import OsFileSystem
from log.inspect import ERROR, NAMES, OFFSET_CHECKPOINTS, SUFFIXES, dump_file, is_log_file
from log.names import LOG, PARTITION_METADATA, offset_of
from log.verify import Checkpoints, Known, LogVerifier, Problem

app = typer.Typer(add_completion=False, no_args_is_help=True)

ROWS_PER_TABLE: Final = 1_000
"""A table's columns are as wide as its widest rows, so it is held in memory; hence no more."""

_RECORD_KEYS: Final = (
    "offset",
    "base_offset",
    "timestamp_ms",
    "key",
    "key_base64",
    "value",
    "value_base64",
    "headers",
    "end",
    "coordinator_epoch",
)
_RARE_KEYS: Final = ("key_base64", "value_base64", "end")
"""Columns that a table has only if there is something in them."""


DumpArgument = Annotated[
    Path, typer.Argument(help="A file of a log, a partition's directory, or a data directory.")
]
VerifyArgument = Annotated[
    Path, typer.Argument(help="A partition's directory, or a data directory with many.")
]


@app.command()
def dump(
    path: DumpArgument,
    records: Annotated[bool, typer.Option("--records", help="Show the records, too.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> int:
    """Show what is in a log's files, one or all; exit 1 if any of it is damaged."""
    damage = _Damage()
    dumped = (
        (str(file), damage.watch(dump_file(OsFileSystem(), str(file), records=records)))
        for file in _files_to_dump(path)
    )
    match output:
        case OutputFormat.JSON:
            _print_json(dumped)
        case OutputFormat.YAML:
            _print_yaml(dumped)
        case _:
            for file, rows in dumped:
                typer.echo(file)
                _print_tables(_record_rows(rows) if records else rows, output)
    return ExitCode.INVALID if damage.found else ExitCode.VALID


@app.command()
def verify(path: VerifyArgument, output: OutputOption = OutputFormat.TABLE) -> int:
    """Check every batch, offset, epoch, index and checkpoint; exit 1 if anything is wrong."""
    if path.is_file():
        raise UserError(f"{path} is a file", f"verify its directory: {path.parent}")
    filesystem = OsFileSystem()
    partitions = _partitions(path)
    is_partition = partitions == [path]
    # A partition's log is judged by what its data directory has written down of it.
    checkpoints = Checkpoints(filesystem, str(path.resolve().parent if is_partition else path))
    problems: list[Problem] = list(checkpoints.problems)
    batches_count = 0
    for directory in partitions:
        is_alone = is_partition and not checkpoints.exist
        known = Known() if is_alone else checkpoints.of(directory.resolve().name)
        verifier = LogVerifier(filesystem, str(directory), known)
        problems += verifier.problems()
        batches_count += verifier.batches_count
    if not is_partition:
        problems += checkpoints.missing()
    document: Plain = {
        "valid": not problems,
        "partitions": len(partitions),
        "batches": batches_count,
        "problems": [problem.plain() for problem in problems],
    }
    is_table = output in (OutputFormat.TABLE, OutputFormat.WIDE)
    if problems or not is_table:
        columns = [
            Column(key="path", title="FILE"),
            Column(key="position", title="POSITION", right=True),
            Column(key="offset", title="OFFSET", right=True),
            Column(key="reason", title="REASON"),
        ]
        emit(document, rows=[p.plain() for p in problems], columns=columns, output=output)
    if is_table:
        checked = f"{_count(len(partitions), 'partition')}, {_count(batches_count, 'batch')}"
        found = _count(len(problems), "problem") if problems else "nothing wrong"
        typer.echo(f"{checked} checked: {found}")
    return ExitCode.INVALID if problems else ExitCode.VALID


class _Damage:
    """Remembers whether any row that passed told of damage."""

    def __init__(self) -> None:
        self.found = False

    def watch(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            self.found = self.found or ERROR in row
            yield dict(row)


def _print_json(dumped: Iterable[tuple[str, Iterator[dict[str, Any]]]]) -> None:
    """A list of files with their entries, a line for each: nothing is kept in memory."""
    typer.echo("[", nl=False)
    before = "\n"
    for file, rows in dumped:
        typer.echo(f'{before}{{"file": {json.dumps(file)}, "entries": [', nl=False)
        for number, row in enumerate(rows):
            text = json.dumps(row, ensure_ascii=False)
            typer.echo(f"{',' if number else ''}\n  {text}", nl=False)
        typer.echo("\n]}", nl=False)
        before = ",\n"
    typer.echo("\n]")


def _print_yaml(dumped: Iterable[tuple[str, Iterator[dict[str, Any]]]]) -> None:
    for file, rows in dumped:
        emit([{"file": file}], rows=(), columns=(), output=OutputFormat.YAML)
        first = next(rows, None)
        typer.echo("  entries: []" if first is None else "  entries:")
        for row in rows if first is None else chain([first], rows):
            text = render([row], rows=(), columns=(), output=OutputFormat.YAML)
            typer.echo(indent(text, "  "), nl=False)


def _print_tables(rows: Iterable[dict[str, Any]], output: OutputFormat) -> None:
    """The rows in tables; where there is damage, a line that says so in its place."""
    iterator = iter(rows)
    is_empty = True
    while some := list(islice(iterator, ROWS_PER_TABLE)):
        is_empty = False
        pending: list[dict[str, Any]] = []
        for row in some:
            if ERROR not in row:
                pending.append(row)
                continue
            _print_table(pending, output)
            pending = []
            where = f" at byte {row['position']}" if "position" in row else ""
            typer.echo(f"damaged{where}: {row[ERROR]}")
        _print_table(pending, output)
    if is_empty:
        typer.echo("(empty)")


def _print_table(rows: list[dict[str, Any]], output: OutputFormat) -> None:
    if rows:
        shown = {key for row in rows for key in row if row[key] is not None}
        hidden = {"records", *(key for key in _RARE_KEYS if key not in shown)}
        keys = [key for key in rows[0] if key not in hidden]
        columns = [Column(key=key, title=key.upper()) for key in keys]
        emit(None, rows=rows, columns=columns, output=output)


def _record_rows(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row per record, instead of one per batch."""
    for row in rows:
        if "records" not in row:
            yield row
        for record in row.get("records", ()):
            flat = {"base_offset": row["base_offset"], **record}
            yield {key: flat.get(key) for key in _RECORD_KEYS}


def _files_to_dump(path: Path) -> list[Path]:
    if path.is_file():
        if not is_log_file(path.name):
            kinds = ", ".join((*(f"*{suffix}" for suffix in SUFFIXES), *NAMES))
            raise UserError(f"{path} is not a file of a log", f"these are: {kinds}")
        return [path]
    files = [path / name for name in OFFSET_CHECKPOINTS if (path / name).is_file()]
    for directory in _partitions(path):
        here = sorted(file for file in directory.iterdir() if file.is_file())
        files += [file for file in here if is_log_file(file.name) and file not in files]
    return files


def _partitions(path: Path) -> list[Path]:
    """The directory itself if it is a partition's, or those of the partitions in it."""
    if not path.exists():
        raise UserError(f"{path} does not exist", "name a directory of a log")
    if _is_partition(path):
        return [path]
    found = [d for d in sorted(path.iterdir()) if d.is_dir() and _is_partition(d)]
    if not found and not any((path / name).is_file() for name in OFFSET_CHECKPOINTS):
        raise UserError(f"there is no log in {path}", "name a partition's or a data directory")
    return found


def _is_partition(directory: Path) -> bool:
    """Whether there is a log, or should be one. A directory on its way out is none."""
    return not directory.name.endswith(DELETED) and any(
        file.name == PARTITION_METADATA or offset_of(file.name, LOG) is not None
        for file in directory.iterdir()
    )


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
