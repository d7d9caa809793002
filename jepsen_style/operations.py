"""What a client did and what it was told: the atoms of every history.

An operation is `ok` (it happened, between its invocation and its return, and `output` is what the
client was told), `fail` (it certainly never happened) or `info` (nobody knows: it may take effect
at any moment after its invocation, for ever, or never). A timeout is `info`; calling it a failure
would turn a late write into a false alarm, calling it ok would hide a lost one.

Equal times count as concurrent: a clock that ticks once between a return and the next invocation
is needed to order them.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

from floodmark.invariant import invariant

NS_PER_MS = 1_000_000


class Status(Enum):
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of one client."""

    process: int
    f: str
    """What was called: `read`, `write`, `cas`, ..."""
    key: Hashable = None
    """Which object it was called on; objects are checked one by one."""
    value: Hashable = None
    """The input: what is written; for `cas` the pair (expected, new)."""
    output: Hashable = None
    """The answer: what was read; for `cas` whether it was swapped."""
    t_invoke_ns: int
    t_return_ns: int | None = None
    """None if it never returned, and ignored unless the status is ok."""
    status: Status

    def __post_init__(self) -> None:
        if self.status is Status.OK:
            invariant(self.t_return_ns is not None, "an ok operation has returned", operation=self)
        if self.t_return_ns is not None:
            invariant(
                self.t_invoke_ns <= self.t_return_ns,
                "an operation returns after it was invoked",
                operation=self,
            )

    def describe(self) -> str:
        """One line for a person: who, what, when."""
        return f"process {self.process}: {self._call()} [{self._times()}]"

    def _call(self) -> str:
        if self.f == "cas" and isinstance(self.value, tuple) and len(self.value) == 2:
            call = f"cas {self.value[0]!r} -> {self.value[1]!r}"
        else:
            call = (
                self.f if self.value is None and self.f != "write" else f"{self.f} {self.value!r}"
            )
        match self.status:
            case Status.FAIL:
                return f"{call}, failed"
            case Status.INFO:
                return f"{call}, outcome unknown"
            case Status.OK if self.f == "write":
                return f"{call}, ok"
            case Status.OK if self.f == "cas":
                return f"{call}, {'swapped' if self.output is True else 'not swapped'}"
            case Status.OK:
                return f"{call} returned {self.output!r}"

    def _times(self) -> str:
        end = self.t_return_ns if self.status is Status.OK else None
        until = "never returned" if end is None else f"to {_ms(end)}"
        return f"{_ms(self.t_invoke_ns)} {until}"


def _ms(time_ns: int) -> str:
    """Milliseconds with every nanosecond: two times that differ must not print alike."""
    whole, rest = divmod(time_ns, NS_PER_MS)
    return f"{whole}.{rest:06d} ms"
