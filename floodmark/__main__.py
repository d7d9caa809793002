"""`python -m floodmark` is the `floodmark` command."""

import sys

from floodmark.cli import main

if __name__ == "__main__":
    sys.exit(main())
