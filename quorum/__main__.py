"""`floodmark-quorum CONFIG [--config KEY=VALUE]...` (`python -m quorum`): runs a voter."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from floodmark import __version__
from floodmark.cli.guard import guarded
from floodmark.errors import UserError

PROGRAM = "floodmark-quorum"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """argparse would exit 2, which is a verdict here."""
        raise UserError(message, f"see '{PROGRAM} --help'")


def main(arguments: Sequence[str] | None = None) -> int:
    return guarded(PROGRAM, lambda: _run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
    parser = _Parser(
        prog=PROGRAM,
        description="Run a voter of the metadata quorum. Environment variables that begin with"
        " FLOODMARK_ come before the file, and --config before both.",
        allow_abbrev=False,
    )
    parser.add_argument("file", nargs="?", type=Path, help="its configuration file")
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="sets a property"
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    # gRPC and the rest take a moment to load, and --help needs none of it.
    from quorum.server import Sources, run

    return run(Sources(path=options.file, flags=options.config, environment=os.environ))


if __name__ == "__main__":
    sys.exit(main())
