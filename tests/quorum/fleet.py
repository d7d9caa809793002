"""Processes that a test starts, kills and pauses, with a record of what was done to which."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.repository import ROOT

STOP_TIMEOUT_S = 20.0


class Deed(Enum):
    START = "start"
    KILL = "kill -9"
    PAUSE = "SIGSTOP"
    RESUME = "SIGCONT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was done to whom. The time is the host's monotonic clock just before it was done."""

    t_ns: int
    deed: Deed
    voter_id: int
    pid: int


class Fleet:
    """One process per voter. All that are left are killed with the context, by their ids."""

    def __init__(self, commands: Mapping[int, Sequence[str]], directory: Path) -> None:
        self.ids = tuple(commands)
        self.faults: list[Fault] = []
        self.deaths: list[str] = []
        """Processes that ended without having been killed."""
        self.paused: set[int] = set()
        self._commands = commands
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as stack:
            for process in self._processes.values():
                stack.callback(_end, process)

    def pid(self, voter_id: int) -> int | None:
        """Of the voter's process, if it has one."""
        process = self._processes.get(voter_id)
        return None if process is None else process.pid

    def output(self, voter_id: int) -> Path:
        """Everything that a voter's lives wrote to stdout."""
        return self._directory / f"voter-{voter_id}.out"

    def errors(self, voter_id: int) -> Path:
        """Everything that a voter's lives wrote to stderr."""
        return self._directory / f"voter-{voter_id}.err"

    def start(self, *voter_ids: int) -> None:
        for voter_id in voter_ids or self.ids:
            t_ns = time.monotonic_ns()
            with self.output(voter_id).open("ab") as out, self.errors(voter_id).open("ab") as err:
                process = subprocess.Popen(
                    self._commands[voter_id],
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err,
                    cwd=ROOT,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )
            self._processes[voter_id] = process
            self._note(t_ns, Deed.START, voter_id, process)

    def kill(self, *voter_ids: int) -> None:
        """All of them before any is waited for."""
        killed = []
        for voter_id in voter_ids:
            process = self._processes.pop(voter_id)
            self._look(voter_id, process)
            t_ns = time.monotonic_ns()
            process.kill()
            self._note(t_ns, Deed.KILL, voter_id, process)
            self.paused.discard(voter_id)
            killed.append(process)
        for process in killed:
            _end(process)

    def pause(self, voter_id: int) -> None:
        self._signal(voter_id, signal.SIGSTOP, Deed.PAUSE)
        self.paused.add(voter_id)

    def resume(self, voter_id: int) -> None:
        self._signal(voter_id, signal.SIGCONT, Deed.RESUME)
        self.paused.discard(voter_id)

    def heal(self) -> None:
        """Everybody runs."""
        for voter_id in sorted(self.paused):
            self.resume(voter_id)
        for voter_id in self.ids:
            if voter_id not in self._processes:
                self.start(voter_id)

    def stop_cleanly(self) -> dict[int, int]:
        """SIGTERM to all; their exit codes."""
        processes, self._processes = self._processes, {}
        with ExitStack() as stack:
            for voter_id, process in processes.items():
                stack.callback(_end, process)
                self._look(voter_id, process)
                process.terminate()
            return {i: process.wait(STOP_TIMEOUT_S) for i, process in processes.items()}

    def look(self) -> None:
        """Notes who has died."""
        for voter_id, process in self._processes.items():
            self._look(voter_id, process)

    def _signal(self, voter_id: int, number: signal.Signals, deed: Deed) -> None:
        process = self._processes[voter_id]
        self._look(voter_id, process)
        t_ns = time.monotonic_ns()
        process.send_signal(number)
        self._note(t_ns, deed, voter_id, process)

    def _look(self, voter_id: int, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            last = self.errors(voter_id).read_text(errors="replace").splitlines()[-5:]
            said = "; ".join(last)
            self.deaths.append(f"voter {voter_id} ended with {process.returncode}: {said}")

    def _note(self, t_ns: int, deed: Deed, voter_id: int, process: subprocess.Popen[bytes]) -> None:
        fault = Fault(t_ns=t_ns, deed=deed, voter_id=voter_id, pid=process.pid)
        self.faults.append(fault)
        # For whoever reads the voters' logs after a failure.
        wall = datetime.now(UTC).isoformat(timespec="milliseconds")
        with (self._directory / "faults.txt").open("a") as file:
            file.write(f"{wall} {deed.value} voter {voter_id} (process {process.pid})\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills also who is stopped; Popen sends nothing to a process that it has waited for."""
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
