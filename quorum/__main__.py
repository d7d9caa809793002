"""`floodmark-quorum` (`python -m quorum`). There is no voter to run yet, and it says so."""

import sys

from floodmark.cli.guard import guarded
from floodmark.errors import UserError


def main() -> int:
    return guarded("floodmark-quorum", _run)


def _run() -> int:
    raise UserError(
        "cannot start: the metadata quorum is not built yet",
        "what works today: the libraries kafka_wire and log, and 'floodmark log'",
    )


if __name__ == "__main__":
    sys.exit(main())
