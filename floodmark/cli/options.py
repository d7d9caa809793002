"""Options that many commands share, spelled once."""

from typing import Annotated

import typer

from floodmark.output import OutputFormat

OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="How to print the answer.")
]
