"""What the log checker says: the verdict, and the few operations that contradict, in words."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from jepsen_style.checkers.log_history import LogOperation
from jepsen_style.checkers.verdict import Validity


class LogAnomaly(Enum):
    """What can be wrong, each under the rule that finds it (defined in `log.py`)."""

    INCONSISTENT_OFFSETS = "inconsistent-offsets"  # R1: one offset holds two values
    DUPLICATE = "duplicate"  # R1: one value is at two offsets
    DISORDERED_READ = "disordered-read"  # R1: offsets that go back, or before the start
    READ_PAST_END = "read-past-end"  # R1: a read passed the high watermark it was told
    SKIPPED_OFFSET = "skipped-offset"  # R1: a read passed an offset without saying what is there
    ABORTED_READ = "aborted-read"  # R2: a value whose append failed
    PHANTOM_READ = "phantom-read"  # R2: a value that nobody appended
    HOLE = "hole"  # R3: an offset that nothing can have filled
    NO_PLACE = "no-place"  # R3: an acknowledged append that no free offset can hold
    STALE_READ = "stale-read"  # R4: a read misses what was there before it began
    LOST_WRITE = "lost-write"  # R4: a final read misses it
    READ_AHEAD = "read-ahead"  # R4: a read returned before what it saw was invoked
    REORDERED_APPEND = "reordered-append"  # R4: later in time, earlier in the log
    SESSION_WENT_BACK = "session-went-back"  # R4: the log got shorter for one session


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence:
    """The smallest window of a partition's history that shows one kind of anomaly."""

    anomaly: LogAnomaly
    topic: str
    partition: int
    operations: tuple[LogOperation, ...]
    """The operations that contradict each other, in the order of their invocations."""
    explanation: str
    """Why they do, in a sentence."""
    occurrences: int = 1
    """How many of the kind the partition has; this is the one with the smallest window."""

    @property
    def window_ns(self) -> tuple[int, int]:
        return window_ns(self.operations)

    def describe(self) -> str:
        more = f" ({self.occurrences} in all)" if self.occurrences > 1 else ""
        return "\n".join(
            [
                f"{self.topic}-{self.partition}: {self.anomaly.value}{more}: {self.explanation}",
                *(f"  {each.describe()}" for each in self.operations),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVerdict:
    """Valid, invalid with evidence, or unknown with a reason; never a guess."""

    validity: Validity
    operations: int
    """How many operations were judged."""
    evidence: tuple[LogEvidence, ...] = ()
    """There if and only if the history is invalid: one per partition and kind of anomaly."""
    reason: str | None = None
    """There if and only if the verdict is unknown."""
    acknowledged: int = 0
    """Records whose append is ok."""
    lost: int = 0
    """Of these, with the model acks1, the ones that are certainly lost."""
    unseen: int = 0
    """Of the acknowledged, the ones that no ok read returned; the lost included."""

    @property
    def valid(self) -> bool:
        return self.validity is Validity.VALID

    def describe(self) -> str:
        """The verdict first, then the evidence or the reason."""
        head = (
            f"{self.validity.value} ({self.operations} operations, {self.acknowledged} records"
            f" acknowledged, {self.lost} lost, {self.unseen} never read)"
        )
        details = [each.describe() for each in self.evidence]
        return "\n".join([head, *details, *([self.reason] if self.reason else [])])


def evidence_of(
    anomaly: LogAnomaly,
    operations: Iterable[LogOperation],
    explanation: str,
    *,
    occurrences: int = 1,
) -> LogEvidence:
    once = {id(each): each for each in operations}.values()
    ordered = sorted(once, key=lambda each: (each.t_invoke_ns, each.last_moment_ns))
    return LogEvidence(
        anomaly=anomaly,
        topic=ordered[0].topic,
        partition=ordered[0].partition,
        operations=tuple(ordered),
        explanation=explanation,
        occurrences=occurrences,
    )


def window_ns(operations: Iterable[LogOperation]) -> tuple[int, int]:
    """From the first invocation to the last return; what never returns counts to its invocation."""
    told = list(operations)
    return min(each.t_invoke_ns for each in told), max(each.last_moment_ns for each in told)
