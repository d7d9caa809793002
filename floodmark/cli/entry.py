"""The top level of the command line: help, version, and dispatch to a command.

Written without typer: importing it (and rich) costs more time than all of this, and
`floodmark --help` is what a newcomer types first.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint

import floodmark
from floodmark.cli.guard import guarded
from floodmark.cli.table import command_table, summary
from floodmark.errors import ExitCode, UserError

_HELP_HEAD = """\
Usage: floodmark [--help] [--version] COMMAND [ARGUMENTS]

A Kafka-compatible replicated log that proves what it promises.

Commands:
"""

_HELP_TAIL = """
`floodmark COMMAND --help` tells more about a command.

Exit codes: 0 done (or valid), 1 invalid, 2 unknown, 3 wrong usage or environment.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return guarded("floodmark", lambda: _dispatch(given))


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments:
        sys.stderr.write(_help(command_table()))
        return ExitCode.ERROR
    name, *rest = arguments
    if name in ("--help", "-h"):
        sys.stdout.write(_help(command_table()))
        return 0
    if name == "--version":
        sys.stdout.write(f"floodmark {floodmark.__version__}\n")
        return 0
    if name.startswith("-"):
        raise UserError(f"no such option: {name}", "see 'floodmark --help'")
    commands = command_table()
    if name not in commands:
        raise UserError(f"no such command: {name}", _nearest(name, commands))

    from floodmark.cli.run import run_command  # imports typer

    return run_command(name, commands[name], rest)


def _help(commands: Mapping[str, EntryPoint]) -> str:
    width = max(map(len, commands), default=0)
    lines = (f"  {name:<{width}}  {summary(entry)}".rstrip() for name, entry in commands.items())
    return _HELP_HEAD + "".join(line + "\n" for line in lines) + _HELP_TAIL


def _nearest(name: str, commands: Mapping[str, EntryPoint]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, commands, n=1)
    return f"did you mean '{close[0]}'?" if close else "see 'floodmark --help'"
