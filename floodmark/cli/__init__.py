"""The `floodmark` command: a table of commands, each loaded only when it runs."""

from floodmark.cli.entry import main

__all__ = ["main"]
