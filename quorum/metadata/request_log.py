"""The requests that were answered, bounded in number and in bytes; the oldest go first."""

from dataclasses import dataclass, field
from typing import Final

import msgspec
from immutables import Map

from quorum.metadata.records import RequestAnsweredRecord

MAX_REQUESTS: Final = 20_000
MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLog:
    """Bounded by counts and not by time, because replay must come to the same on every node and
    the voters' clocks do not agree."""

    answers: Map[str, RequestAnsweredRecord] = field(default_factory=Map)
    order: Map[int, str] = field(default_factory=Map)
    first_sequence: int = 0
    end_sequence: int = 0
    answer_bytes: int = 0

    def get(self, request_id: str) -> RequestAnsweredRecord | None:
        return self.answers.get(request_id)

    def in_order(self) -> list[RequestAnsweredRecord]:
        return [self.answers[self.order[sequence]] for sequence in sorted(self.order)]

    def add(self, record: RequestAnsweredRecord) -> "RequestLog":
        """Remembers one more, and forgets what is over the limit."""
        if record.request_id in self.answers:
            return self
        sequence = self.end_sequence if record.sequence is None else record.sequence
        record = msgspec.structs.replace(record, sequence=sequence)
        first = self.first_sequence if self.order else sequence
        answer_bytes = self.answer_bytes + len(record.answer)
        answers, order = self.answers.mutate(), self.order.mutate()
        answers[record.request_id] = record
        order[sequence] = record.request_id
        while len(order) > MAX_REQUESTS or (answer_bytes > MAX_REQUEST_BYTES and len(order) > 1):
            answer_bytes -= len(answers.pop(order.pop(first)).answer)
            first += 1
        return RequestLog(
            answers=answers.finish(),
            order=order.finish(),
            first_sequence=first,
            end_sequence=sequence + 1,
            answer_bytes=answer_bytes,
        )
