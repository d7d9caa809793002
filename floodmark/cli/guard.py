"""From exceptions to exit codes and one line on standard error: the same for every binary."""

import errno
import os
import sys
import traceback
from collections.abc import Callable

from floodmark.errors import ExitCode, UserError, one_line

_REMEDIES = {
    errno.EACCES: "check the permissions",
    errno.EADDRINUSE: "choose another port or stop what listens there",
    errno.ECONNREFUSED: "check the address and that the cluster runs",
    errno.EEXIST: "choose another path",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOENT: "check the path",
    errno.ENOSPC: "free some space on the disk",
    errno.EPERM: "check the permissions",
}


def guarded(program: str, body: Callable[[], int]) -> int:
    """Run `body` and return the exit code, whatever it raises.

    Standard output is flushed in here, so that a reader that went away (`floodmark ... | head`)
    or a full disk is handled as anywhere else and not by the interpreter's last words.
    """
    try:
        code = body()
        sys.stdout.flush()
    except UserError as error:
        return _fail(program, str(error), ExitCode.ERROR)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return ExitCode.BROKEN_PIPE
    except OSError as error:
        _discard_output()
        return _fail(program, _describe(error), ExitCode.ERROR)
    except Exception as error:  # noqa: BLE001 - the last stop: a bug must not look like a verdict
        return _internal_error(program, error)
    return code


def _describe(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    where = f"{error.filename}: " if error.filename is not None else ""
    remedy = _REMEDIES.get(error.errno or 0, "repair that and run the command again")
    return f"{where}{what}; {remedy}"


def _internal_error(program: str, error: Exception) -> int:
    """A bug of ours: still one line, but the traceback is kept for whoever repairs it."""
    import tempfile

    trace = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="floodmark-crash-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(trace)
        remedy = f"this is a bug, please report it with the traceback in {file.name}"
    except OSError:
        sys.stderr.write(trace)
        remedy = "this is a bug, please report it with the traceback above"
    summary = one_line(f"{type(error).__name__}: {error}")
    return _fail(program, f"internal error: {summary}; {remedy}", ExitCode.INTERNAL)


def _fail(program: str, message: str, code: ExitCode) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    sys.stderr.write(f"{program}: {one_line(message)}\n")
    return code


def _discard_output() -> None:
    """Let the interpreter's own flush at exit succeed: what is left has nowhere to go."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
