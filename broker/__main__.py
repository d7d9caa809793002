"""`floodmark-broker` (`python -m broker`). There is no broker to run yet, and it says so."""

import sys

from floodmark.cli.guard import guarded
from floodmark.errors import UserError


def main() -> int:
    return guarded("floodmark-broker", _run)


def _run() -> int:
    raise UserError(
        "cannot start: the broker is not built yet",
        "what works today: the libraries kafka_wire and log, and 'floodmark log'",
    )


if __name__ == "__main__":
    sys.exit(main())
