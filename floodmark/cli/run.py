"""Running one command: from a typer application to an exit code.

typer's own `main()` is not used, because it exits 1 on a broken pipe and 2 on a usage error,
which are verdicts here. What a command returns as an int is its exit code.
"""

from collections.abc import Sequence
from importlib.metadata import EntryPoint

import typer
from typer.main import get_command

from floodmark.cli.requirements import requirements
from floodmark.errors import UserError, one_line


def run_command(name: str, entry: EntryPoint, arguments: Sequence[str]) -> int:
    command = get_command(_load(name, entry))
    commands = getattr(command, "commands", {})
    if commands and not arguments and not getattr(command, "invoke_without_command", False):
        # typer would print the whole help and raise an error without a word.
        needed = f"'floodmark {name}' needs a command: {' or '.join(commands)}"
        raise UserError(needed, f"see 'floodmark {name} --help'")
    try:
        with command.make_context(f"floodmark {name}", list(arguments)) as context:
            result = command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        raise _usage_error(name, error) from None
    return int(result) if isinstance(result, int) else 0


def _load(name: str, entry: EntryPoint) -> typer.Typer:
    try:
        app = entry.load()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == entry.module.partition(".")[0]:
            raise
        raise UserError(f"'floodmark {name}' needs {missing}", _how_to_install(missing)) from None
    if not isinstance(app, typer.Typer):
        raise TypeError(f"entry point {entry.value} of command {name} is not a typer application")
    return app


def _how_to_install(module: str) -> str:
    extras = [found.extra for found in requirements() if found.name.replace("-", "_") == module]
    wanted = f"floodmark[{extras[0]}]" if extras and extras[0] else module
    return f"run: pip install '{wanted}'"


def _usage_error(name: str, error: typer.TyperException) -> UserError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else f"floodmark {name}"
    message = one_line(error.format_message()).rstrip(".")
    return UserError(f"{message[:1].lower()}{message[1:]}", f"see '{path} --help'")
