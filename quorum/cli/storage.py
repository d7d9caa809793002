"""Prepare the directory of a voter, and look at it."""

import os
from pathlib import Path
from typing import Annotated

import typer

from floodmark.cli.options import OutputOption
from floodmark.errors import UserError
from floodmark.output import Column, OutputFormat, Plain, Row, emit
from log.filesystem import OsFileSystem
from quorum.load_config import load_quorum_config
from quorum.raft import journal
from quorum.storage import format_storage, random_uuid, read_storage

app = typer.Typer(add_completion=False, no_args_is_help=True)

_COLUMNS = (
    Column(key="directory", title="DIRECTORY"),
    Column(key="formatted", title="FORMATTED"),
    Column(key="cluster_id", title="CLUSTER-ID"),
    Column(key="node_id", title="NODE-ID", right=True),
    Column(key="directory_id", title="DIRECTORY-ID"),
    Column(key="has_journal", title="JOURNAL", wide=True),
)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The voter's configuration file.")
]
DirectoryOption = Annotated[
    Path | None, typer.Option("--data-dir", help="The directory; without --config.")
]


@app.command(name="format")
def format_(
    config: ConfigOption = None,
    data_dir: DirectoryOption = None,
    node_id: Annotated[
        int | None, typer.Option("--node-id", min=0, help="The voter's id; without --config.")
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", "-t", help="The cluster's id, the same on every node."),
    ] = None,
    ignore_formatted: Annotated[
        bool,
        typer.Option("--ignore-formatted", help="Leave a directory that is formatted as it is."),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Make an empty directory a voter's: its ids and an empty journal. Once, when it is new."""
    if config is not None:
        if data_dir is not None or node_id is not None:
            raise UserError("--config says --data-dir and --node-id already", "leave them out")
        found = load_quorum_config(path=config, environment=os.environ).config
        data_dir, node_id = Path(found.metadata_log_dir), found.node_id
        if cluster_id and found.cluster_id and cluster_id != found.cluster_id:
            what = f"--cluster-id is {cluster_id}, and {config} says {found.cluster_id}"
            raise UserError(what, "correct one of them")
        cluster_id = cluster_id or found.cluster_id
    if data_dir is None or node_id is None:
        raise UserError("the node is not named", "use --config, or --data-dir and --node-id")
    if cluster_id is None:
        raise UserError(
            "the cluster's id is missing",
            "make one with 'floodmark storage random-uuid' and use it on every node: --cluster-id",
        )
    format_storage(
        OsFileSystem(),
        str(data_dir.absolute()),
        node_id=node_id,
        cluster_id=cluster_id,
        create_journal=journal.create,
        ignore_formatted=ignore_formatted,
    )
    _show(data_dir, output)


@app.command()
def info(
    config: ConfigOption = None,
    data_dir: DirectoryOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show whose a directory is."""
    if config is not None and data_dir is None:
        found = load_quorum_config(path=config, environment=os.environ).config
        data_dir = Path(found.metadata_log_dir)
    elif data_dir is None or config is not None:
        raise UserError("which directory?", "use either --config or --data-dir")
    if not data_dir.is_dir():
        raise UserError(f"{data_dir} is no directory", "check the path")
    _show(data_dir, output)


@app.command(name="random-uuid")
def random_uuid_() -> None:
    """Print a new id for a cluster."""
    typer.echo(random_uuid())


def _show(directory: Path, output: OutputFormat) -> None:
    filesystem = OsFileSystem()
    path = str(directory.absolute())
    found = read_storage(filesystem, path)
    row: Row = {
        "directory": path,
        "formatted": found is not None,
        "cluster_id": found.cluster_id if found else None,
        "node_id": found.node_id if found else None,
        "directory_id": found.directory_id if found else None,
        "has_journal": journal.exists(filesystem, path),
    }
    document: Plain = row
    emit(document, rows=[row], columns=_COLUMNS, output=output)
