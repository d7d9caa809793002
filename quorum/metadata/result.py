"""What a decision comes to."""

from dataclasses import dataclass

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import Answer, Refused
from quorum.metadata.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Records to write, and the answer to give once they are committed.

    Nearly always there is at most one batch. Only where a change touches more partitions than fit
    into one (fencing, a new registration, a new cluster-wide min ISR) are there several; they are
    in an order in which stopping after any of them leaves a state that is right and from which the
    controller, or a retry, finishes the job.
    """

    answer: Answer | Refused
    batches: tuple[tuple[Record, ...], ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for batch in self.batches for record in batch)


def refuse(code: ErrorCode, message: str) -> Result:
    """A decision against the whole command."""
    return Result(answer=Refused(code=code, message=message))
