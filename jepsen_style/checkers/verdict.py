"""What a checker says of a history: valid, invalid with evidence, or honestly unknown."""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

from jepsen_style.operations import Operation

MAX_OPERATIONS_TOLD = 30


class Validity(Enum):
    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The smallest part of the history that was found to contradict itself."""

    key: Hashable
    culprit: Operation
    """The operation whose return left no explanation."""
    conflict: tuple[Operation, ...]
    """Operations that no order explains, in the order of their invocations; culprit included."""
    counted: tuple[Operation, ...]
    """The same operations, one for one, as they count: one whose answer may be about what is not
    in the conflict counts as of unknown outcome. No order explains these either."""
    initial_state: str | None
    """The state before the first of them, in words; None if they contradict from any state."""
    possible_states: tuple[str, ...]
    """States, in words, that the object could be in when the culprit returned, without it."""
    remarks: tuple[str, ...] = ()
    """What helps a reader: where a value came from."""

    def describe(self) -> str:
        """The conflict in words, one operation per line."""
        hidden = max(0, len(self.conflict) - MAX_OPERATIONS_TOLD)
        shown = list(zip(self.conflict, self.counted, strict=True))[hidden:]
        lines = [
            f"key {self.key!r}: no order explains these {len(self.conflict)} operations:",
            *([f"  ({hidden} earlier operations are not shown)"] if hidden else []),
            *(f"  {_told(operation, counted)}" for operation, counted in shown),
            f"the contradiction is complete when this returns: {self.culprit.describe()}",
        ]
        if self.possible_states:
            lines.append(f"without it the state could be: {', '.join(self.possible_states)}")
        if self.initial_state is None:
            lines.append("this holds whatever the state was before the first of them")
        else:
            lines.append(f"the initial state was {self.initial_state}")
        return "\n".join([*lines, *self.remarks])


def _told(operation: Operation, counted: Operation) -> str:
    if counted == operation:
        return operation.describe()
    return f"{operation.describe()} (counts as of unknown outcome: it spans a cut)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verdict is never a guess: what ran out of budget is unknown, and says why."""

    validity: Validity
    operations: int
    """How many operations were judged."""
    steps: int = 0
    """How many transitions the search tried; zero where no search was needed."""
    evidence: Evidence | None = None
    """There if and only if the history is invalid."""
    reason: str | None = None
    """There if and only if the verdict is unknown."""

    @property
    def valid(self) -> bool:
        return self.validity is Validity.VALID

    def describe(self) -> str:
        """The verdict first, then the evidence or the reason."""
        head = f"{self.validity.value} ({self.operations} operations)"
        details = self.evidence.describe() if self.evidence is not None else self.reason
        return head if details is None else f"{head}\n{details}"
