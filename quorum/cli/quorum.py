"""Operate the metadata quorum."""

import os
from pathlib import Path
from typing import Annotated

import typer

from floodmark.errors import UserError
from log.filesystem import OsFileSystem
from quorum import recovery
from quorum.load_config import load_quorum_config

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def quorum() -> None:
    """Operate the metadata quorum."""


@app.command()
def recover(
    config: Annotated[Path, typer.Option("--config", "-c", help="The voter's configuration.")],
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", "-t", help="The cluster's id, as the other voters have it."),
    ] = None,
) -> None:
    """Prepare an empty directory for a voter whose disk is lost or damaged.

    A majority of the voters must still have their disks. Stop the voter and move what is left of
    its directory away. Then run this, and start the voter: it takes the log from the leader, and
    neither votes nor counts for a majority until it holds everything that was committed. The
    other voters go on meanwhile. Recover one voter at a time.
    """
    found = load_quorum_config(path=config, environment=os.environ).config
    cluster = cluster_id or found.cluster_id
    if cluster is None:
        raise UserError(
            "the cluster's id is missing",
            "'floodmark storage info' on another voter shows it: --cluster-id",
        )
    recovery.prepare(OsFileSystem(), found, cluster)
    typer.echo(f"{found.metadata_log_dir} is ready: start the voter, and it recovers by itself")
