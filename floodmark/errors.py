"""The errors that a person can do something about, and the exit codes of every binary."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a binary's exit code means. 0, 1 and 2 are verdicts of verify, check and simulate.

    Other commands exit 0 when they did what they were asked. No error ever exits 1 or 2, so a
    script cannot take a mistyped flag for a verdict.
    """

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    ERROR = 3
    INTERNAL = 70  # EX_SOFTWARE of sysexits.h: a bug of ours
    INTERRUPTED = 130  # 128 + SIGINT, as shells have it
    BROKEN_PIPE = 141  # 128 + SIGPIPE


class UserError(Exception):
    """A usage or environment error: one line that says what is wrong and what to do.

    Commands raise it; the command line prints it without a traceback and exits 3.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return one_line(f"{self.what}; {self.remedy}")


def one_line(text: str) -> str:
    """The text on one line, so that an error is one line whatever the cause's message holds."""
    return " ".join(text.split())
