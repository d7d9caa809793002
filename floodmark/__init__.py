"""What every part of Floodmark needs, and nothing of what any part does.

Today: `invariant()`, the errors and exit codes of every binary, the output formats, and the
`floodmark` command. This package imports none of the others.
"""

__version__ = "0.1.0"
