"""Run a local cluster (not possible yet: says what is missing)."""

import typer

from floodmark.errors import UserError

app = typer.Typer(add_completion=False)


# Whatever options are given, the answer today is the same, so none is refused for its name.
@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def up() -> None:
    """Run a local cluster. Not possible yet: it says what is missing and exits 3."""
    raise UserError(
        "cannot run a local cluster yet: the broker is missing",
        "what works today: the metadata quorum ('floodmark-quorum'), and 'floodmark log'",
    )
