"""The table of commands, from the entry-point group `floodmark.commands`.

Each package registers its own commands, so this package imports none of them. An entry point's
name is the command; its value names a `typer.Typer` application. The command's summary is the
first line of that module's docstring, read from the source without running it: one place to
write it, and help that imports no command.
"""

import ast
import importlib.util
from collections.abc import Mapping
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points

from floodmark.errors import UserError

GROUP = "floodmark.commands"
_DISTRIBUTION = "floodmark"


def command_table() -> Mapping[str, EntryPoint]:
    """Every command by name, sorted. Nothing is imported."""
    found = list(entry_points(group=GROUP))
    if not found:
        raise UserError(
            "no command is registered, so floodmark is not installed in this Python environment",
            "run 'pip install -e .' in the source folder",
        )
    # Our own come last and win: another distribution adds commands, it replaces none.
    found.sort(key=_is_ours)
    by_name = {entry.name: entry for entry in found}
    return {name: by_name[name] for name in sorted(by_name)}


def summary(entry: EntryPoint) -> str:
    """The first line of the docstring of the command's module, or nothing if it cannot be read."""
    spec = _find_without_import(entry.module)
    if spec is None or not isinstance(spec.loader, InspectLoader):
        return ""
    source = spec.loader.get_source(spec.name)
    docstring = ast.get_docstring(ast.parse(source)) if source else None
    return docstring.splitlines()[0] if docstring else ""


def _is_ours(entry: EntryPoint) -> bool:
    return entry.dist is not None and entry.dist.name == _DISTRIBUTION


def _find_without_import(module: str) -> ModuleSpec | None:
    """As `importlib.util.find_spec`, which however imports the parents of a dotted name."""
    name, *parts = module.split(".")
    spec = importlib.util.find_spec(name)
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec
