"""Look into the files of a log, and check them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from floodmark.cli.options import OutputOption
from floodmark.errors import ExitCode, UserError
from floodmark.output import Column, OutputFormat, Plain, emit
from kafka_wire.errors import WireError
from log.errors import LogError
from log.filesystem import OsFileSystem
from log.inspect import Problem, dump_file, is_log_file, verify_log
from log.names import LOG, offset_of

app = typer.Typer(add_completion=False, no_args_is_help=True)

PathArgument = Annotated[
    Path, typer.Argument(help="A file of a log, a partition's directory, or a data directory.")
]


@app.command()
def dump(
    path: PathArgument,
    records: Annotated[bool, typer.Option("--records", help="Show the records, too.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show batches, indexes, epochs and producer snapshots, from one file or from all."""
    files = [path]
    if not path.is_file():
        files = [f for d in _partitions(path) for f in _files(d) if is_log_file(f.name)]
    dumped: list[dict[str, Any]] = []
    for file in files:
        try:
            entries = [dict(row) for row in dump_file(OsFileSystem(), str(file), records=records)]
        except (LogError, WireError) as error:
            raise UserError(
                str(error), "see 'floodmark log verify' for all that is wrong"
            ) from None
        dumped.append({"file": str(file), "entries": entries})
    if output in (OutputFormat.TABLE, OutputFormat.WIDE):
        for part in dumped:
            typer.echo(part["file"])
            keys = list(part["entries"][0]) if part["entries"] else []
            columns = [Column(key=key, title=key.upper()) for key in keys]
            emit(None, rows=part["entries"], columns=columns, output=output)
    else:
        emit(dumped, rows=(), columns=(), output=output)


@app.command()
def verify(path: PathArgument, output: OutputOption = OutputFormat.TABLE) -> int:
    """Check every batch, offset, epoch and index entry; exit 1 if anything is wrong."""
    problems: list[Problem] = []
    checked = _partitions(path)
    for directory in checked:
        problems += verify_log(OsFileSystem(), str(directory))
    document: Plain = {
        "valid": not problems,
        "partitions": len(checked),
        "problems": [problem.plain() for problem in problems],
    }
    if output in (OutputFormat.TABLE, OutputFormat.WIDE) and not problems:
        typer.echo(f"{len(checked)} partitions, nothing wrong")
    else:
        columns = [
            Column(key="path", title="FILE"),
            Column(key="position", title="POSITION", right=True),
            Column(key="offset", title="OFFSET", right=True),
            Column(key="reason", title="REASON"),
        ]
        emit(document, rows=[p.plain() for p in problems], columns=columns, output=output)
    return ExitCode.INVALID if problems else ExitCode.VALID


def _partitions(path: Path) -> list[Path]:
    """The partition directories at or under a path."""
    if not path.exists():
        raise UserError(f"{path} does not exist", "name a directory of a log")
    if path.is_file():
        raise UserError(f"{path} is a file", "name the partition's directory that it lies in")
    found = [d for d in [path, *sorted(path.iterdir())] if d.is_dir() and _files(d)]
    if not found:
        raise UserError(f"there is no log in {path}", "name a partition's or a data directory")
    return found


def _files(directory: Path) -> list[Path]:
    """The files of a log in a directory; none if it holds no segment."""
    files = sorted(file for file in directory.iterdir() if file.is_file())
    return files if any(offset_of(file.name, LOG) is not None for file in files) else []
