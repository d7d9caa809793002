"""Operations on a log as a history records them: the columns of a history, one partition each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from floodmark.invariant import invariant
from jepsen_style.operations import NS_PER_MS, Status

APPEND = "append"
READ = "read"
FINAL_READ = "final_read"
"""A read of the last phase: the cluster is at rest, and everything is read from new clients."""

MAX_RECORDS_TOLD = 8


class LogModel(Enum):
    """What the log promises; `log.py` defines each."""

    STRICT_LOG = "strict-log"
    COMMITTED_PREFIX = "committed-prefix"
    ACKS1 = "acks1"

    @property
    def reads_are_fresh(self) -> bool:
        return self is LogModel.STRICT_LOG

    @property
    def acks_bind(self) -> bool:
        return self is not LogModel.ACKS1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOperation:
    """One append or read of one client on one partition."""

    process: int
    session: int = 0
    """A process that makes a new client begins a new session."""
    f: str
    topic: str
    partition: int
    status: Status
    t_invoke_ns: int
    t_return_ns: int | None = None
    """None if it never returned, and ignored unless the status is ok."""
    base_offset: int | None = None
    """Of an append the offset of its first record, None if the client was not told. Of a read the
    offset that it began at."""
    offsets: tuple[int, ...] | None = None
    """One per value; None if the values lie one after the other from the base offset on."""
    control_offsets: tuple[int, ...] = ()
    """Offsets that a read passed and that hold no record for readers: control batches."""
    values: tuple[int, ...] = ()
    """The records, by values that no two appends of the partition share."""
    high_watermark: int | None = None
    leader_epoch: int | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.f not in (APPEND, READ, FINAL_READ):
            raise ValueError(f"not an operation of a log: {self.f!r}")
        end_ns = self.t_return_ns
        if self.status is Status.OK:
            invariant(end_ns is not None, "an ok operation has returned", operation=self)
        if end_ns is not None:
            invariant(self.t_invoke_ns <= end_ns, "it returns after its invocation", operation=self)
        if self.offsets is not None:
            invariant(len(self.offsets) == len(self.values), "an offset per value", operation=self)
        if self.is_read and self.values and self.status is Status.OK:
            invariant(self.record_offsets is not None, "a read knows its place", operation=self)
        if self.control_offsets:
            invariant(self.is_read, "only a read passes control batches", operation=self)
        told = (self.base_offset or 0, *(self.offsets or ()), *self.control_offsets)
        invariant(min(told) >= 0, "an offset that is not known is None", operation=self)

    @property
    def is_read(self) -> bool:
        return self.f != APPEND

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def record_offsets(self) -> Sequence[int] | None:
        """The offset of each value; None if the client was not told."""
        if self.offsets is not None:
            return self.offsets
        if self.base_offset is None:
            return None
        return range(self.base_offset, self.base_offset + len(self.values))

    @property
    def start_offset(self) -> int:
        """Of a read: where it began."""
        if self.base_offset is not None:
            return self.base_offset
        return min((*(self.offsets or ()), *self.control_offsets), default=0)

    @property
    def end_offset(self) -> int:
        """Of a read: the offset after the last that it passed."""
        if self.offsets is None and not self.control_offsets:
            return self.start_offset + len(self.values)
        passed = (*(self.record_offsets or ()), *self.control_offsets)
        return max(passed) + 1 if passed else self.start_offset

    @property
    def log_end_seen(self) -> int | None:
        """Of a read: where it was told that the log ends.

        The last phase reads until nothing comes, so a final read that passed nothing has found
        the end, even if no high watermark was reported.
        """
        if self.high_watermark is not None or self.f != FINAL_READ:
            return self.high_watermark
        return None if self.values or self.control_offsets else self.start_offset

    @property
    def last_moment_ns(self) -> int:
        """Where a window that shows this operation ends."""
        if self.status is Status.OK and self.t_return_ns is not None:
            return self.t_return_ns
        return self.t_invoke_ns

    def describe(self) -> str:
        """One line for a person: who, what, when."""
        end_ns = self.t_return_ns if self.status is Status.OK else None
        until = "never returned" if end_ns is None else f"to {in_ms(end_ns)}"
        return f"process {self.process}: {self._call()} [{in_ms(self.t_invoke_ns)} {until}]"

    def _call(self) -> str:
        subject = "final read" if self.f == FINAL_READ else self.f
        if not self.is_read:
            subject = f"{subject} of {_told(self.values)}"
        elif self.base_offset is not None:
            subject = f"{subject} from {self.base_offset}"
        if self.status is not Status.OK:
            outcome = "failed" if self.status is Status.FAIL else "outcome unknown"
            return f"{subject}, {outcome}" + (f" ({self.error})" if self.error else "")
        parts = [subject]
        if self.is_read:
            parts.append(f"returned {_told(self.values)}")
        if self.values:
            parts.append(_where(self.record_offsets))
        if self.control_offsets:
            parts.append(f"control batches at {_told(self.control_offsets)}")
        if self.high_watermark is not None:
            parts.append(f"high watermark {self.high_watermark}")
        if self.leader_epoch is not None:
            parts.append(f"leader epoch {self.leader_epoch}")
        return ", ".join(parts)


def _told(numbers: Iterable[int]) -> str:
    listed = list(numbers)
    if not listed:
        return "nothing"
    more = len(listed) - MAX_RECORDS_TOLD
    shown = ", ".join(map(str, listed[:MAX_RECORDS_TOLD]))
    return f"{shown} and {more} more" if more > 0 else shown


def _where(offsets: Sequence[int] | None) -> str:
    if offsets is None:
        return "offset not told"
    if isinstance(offsets, range) and len(offsets) > 1:
        return f"at offsets {offsets[0]} to {offsets[-1]}"
    return f"at offset {_told(offsets)}"


def in_ms(time_ns: int) -> str:
    """Milliseconds with every nanosecond: two times that differ must not print alike."""
    whole, rest = divmod(time_ns, NS_PER_MS)
    return f"{whole}.{rest:06d} ms"
