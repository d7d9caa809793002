"""Print the versions of floodmark, Python and what they stand on."""

import platform

import typer

import floodmark
from floodmark.cli.options import OutputOption
from floodmark.cli.requirements import Requirement, requirements
from floodmark.output import Column, OutputFormat, Plain, Row, emit

app = typer.Typer(add_completion=False)

_PARTS = (None, "spark", "verify")  # what a user runs; not what our own tests need
_COLUMNS = (
    Column(key="component", title="COMPONENT"),
    Column(key="version", title="VERSION"),
    Column(key="part", title="PART", wide=True),
    Column(key="required", title="REQUIRED", wide=True),
)


@app.command()
def version(output: OutputOption = OutputFormat.TABLE) -> None:
    """Print the versions of floodmark, Python and what they stand on."""
    python = platform.python_version()
    found: dict[str, list[Requirement]] = {}
    for item in requirements():
        if item.extra in _PARTS:
            found.setdefault(item.name, []).append(item)
    rows: list[Row] = [
        {"component": "floodmark", "version": floodmark.__version__, "part": "base"},
        {"component": platform.python_implementation(), "version": python, "part": "base"},
    ]
    rows += [
        {
            "component": name,
            "version": items[0].installed_version(),
            "part": [item.extra or "base" for item in items],
            "required": items[0].versions,
        }
        for name, items in found.items()
    ]
    dependencies: Plain = {name: items[0].installed_version() for name, items in found.items()}
    document: Plain = {
        "floodmark": floodmark.__version__,
        "python": python,
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "dependencies": dependencies,
    }
    emit(document, rows=rows, columns=_COLUMNS, output=output)
