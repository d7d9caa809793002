"""Rules R1 and R2 of the log checker: what each offset holds, and whether everybody agrees.

Both rules look at answers only, never at times. What they establish (`value_at`, `offset_of`,
`control`, `length`) is what the rules of order build on.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from jepsen_style.checkers.log_history import LogModel, LogOperation
from jepsen_style.checkers.log_verdict import LogAnomaly, LogEvidence, evidence_of
from jepsen_style.operations import Status

Claim = tuple[LogOperation, int | None]
"""What an operation says: of an offset its value (None: no record), of a value its offset."""


class Observations:
    """What the operations of one partition say about its offsets."""

    def __init__(self, operations: Sequence[LogOperation], model: LogModel) -> None:
        self.value_at: dict[int, int] = {}
        self.offset_of: dict[int, int] = {}
        self.control: set[int] = set()
        self.length = 0
        """The log was at least this long, by what readers were told."""
        self.appended: dict[int, LogOperation] = {}
        """By value, the append that may have happened."""
        self.failed: dict[int, LogOperation] = {}
        self.repeated_value: int | None = None
        """A value that two appends share: then no answer can be told from another."""
        self._model = model
        self._operations = operations
        self._torn_offsets: set[int] = set()
        self._torn_values: set[int] = set()
        for each in operations:
            if each.is_read:
                if each.status is Status.OK:
                    self._see_read(each)
            else:
                self._see_append(each)

    def _see_read(self, read: LogOperation) -> None:
        self._bind(read)
        self.control.update(read.control_offsets)
        self.length = max(self.length, read.end_offset, read.log_end_seen or 0)

    def _see_append(self, append: LogOperation) -> None:
        if append.status is Status.FAIL:
            self.failed.update((value, append) for value in append.values)
            return
        for value in append.values:
            if value in self.appended:
                self.repeated_value = value
            self.appended[value] = append
        if append.status is Status.OK and self._model.acks_bind:
            self._bind(append)

    def _bind(self, operation: LogOperation) -> None:
        value_at, offset_of = self.value_at, self.offset_of
        offsets = operation.record_offsets or ()
        for offset, value in zip(offsets, operation.values, strict=False):
            if value_at.setdefault(offset, value) != value:
                self._torn_offsets.add(offset)
            if offset_of.setdefault(value, offset) != offset:
                self._torn_values.add(value)

    def contradictions(self, *, compacted: bool) -> list[LogEvidence]:
        """Rules R1 and R2; one evidence per kind, with the smallest window."""
        return [
            *self._torn(),
            *self._odd_reads(),
            *([] if compacted else self._skipped()),
            *self._unwritten(),
        ]

    def _torn(self) -> Iterator[LogEvidence]:
        """R1: one value per offset, one offset per value."""
        offsets = self._torn_offsets | (self.control & self.value_at.keys())
        if offsets:
            offset, pair = self._smallest(self._claims_about_offsets(offsets))
            yield evidence_of(
                LogAnomaly.INCONSISTENT_OFFSETS,
                [operation for operation, _ in pair],
                f"offset {offset} holds {_thing(pair[0][1])} by one and {_thing(pair[1][1])} by the"
                " other",
                occurrences=len(offsets),
            )
        values = self._torn_values | self._moved_values()
        if values:
            value, pair = self._smallest(self._claims_about_values(values))
            yield evidence_of(
                LogAnomaly.DUPLICATE,
                [operation for operation, _ in pair],
                f"value {value} is at offset {pair[0][1]} by one and at {pair[1][1]} by the other",
                occurrences=len(values),
            )

    def _moved_values(self) -> set[int]:
        """Where acknowledgements do not bind: values that were read elsewhere than acknowledged."""
        if self._model.acks_bind:
            return set()
        return {
            value
            for each in self._operations
            if not each.is_read and each.status is Status.OK
            for value, offset in zip(each.values, each.record_offsets or (), strict=False)
            if self.offset_of.get(value, offset) != offset
        }

    def _claims_about_offsets(self, offsets: set[int]) -> dict[int, list[Claim]]:
        claims: dict[int, list[Claim]] = {}
        for each in self._answered(with_acks=self._model.acks_bind):
            for offset, value in zip(each.record_offsets or (), each.values, strict=False):
                if offset in offsets:
                    claims.setdefault(offset, []).append((each, value))
            for offset in offsets.intersection(each.control_offsets):
                claims.setdefault(offset, []).append((each, None))
        return claims

    def _claims_about_values(self, values: set[int]) -> dict[int, list[Claim]]:
        claims: dict[int, list[Claim]] = {}
        for each in self._answered(with_acks=True):
            for offset, value in zip(each.record_offsets or (), each.values, strict=False):
                if value in values:
                    claims.setdefault(value, []).append((each, offset))
        return claims

    def _answered(self, *, with_acks: bool) -> Iterator[LogOperation]:
        for each in self._operations:
            if each.status is Status.OK and (each.is_read or with_acks):
                yield each

    def _smallest(self, claims: dict[int, list[Claim]]) -> tuple[int, tuple[Claim, Claim]]:
        found = [(about, closest_disagreement(listed)) for about, listed in claims.items()]
        return min(found, key=lambda each: _pair_width(each[1]))

    def _odd_reads(self) -> Iterator[LogEvidence]:
        """R1: a read's offsets ascend from its start, and end where it was told the log ends."""
        reads = [each for each in self._operations if each.is_read and each.status is Status.OK]
        disordered = [each for each in reads if each.offsets and _goes_back(each)]
        if disordered:
            yield evidence_of(
                LogAnomaly.DISORDERED_READ,
                [min(disordered, key=lambda each: _width([each]))],
                "the offsets of the read do not ascend from where it began",
                occurrences=len(disordered),
            )
        past = [
            each
            for each in reads
            if each.high_watermark is not None and each.end_offset > each.high_watermark
        ]
        if past:
            read = min(past, key=lambda each: _width([each]))
            yield evidence_of(
                LogAnomaly.READ_PAST_END,
                [read],
                f"the read went to offset {read.end_offset}, past its high watermark",
                occurrences=len(past),
            )

    def _skipped(self) -> Iterator[LogEvidence]:
        """R1: what a read passed without a record must be a control batch, by some reader."""
        control = sorted(self.control)
        skipped = [
            (each, offset)
            for each in self._operations
            if each.is_read and each.status is Status.OK
            for begin, end in _gaps(each)
            for offset in _first_missing(control, begin, end)
        ]
        if not skipped:
            return
        read, offset = min(skipped, key=lambda each: _width([each[0]]))
        value = self.value_at.get(offset)
        holders = [
            each
            for each in self._answered(with_acks=self._model.acks_bind)
            if value in each.values and offset in (each.record_offsets or ())
        ]
        closest = min(holders, key=lambda each: _width([read, each]), default=None)
        yield evidence_of(
            LogAnomaly.SKIPPED_OFFSET,
            [read] if closest is None else [read, closest],
            f"the read passed offset {offset} without a record, and it holds value {value}"
            if closest is not None
            else f"the read passed offset {offset} without a record, and no reader says that it"
            " is a control batch",
            occurrences=len(skipped),
        )

    def _unwritten(self) -> Iterator[LogEvidence]:
        """R2: every value read was appended, by an append that did not fail."""
        strange = self.offset_of.keys() - self.appended.keys()
        aborted, phantom = strange & self.failed.keys(), strange - self.failed.keys()
        if not strange:
            return
        seen = [
            (each, value)
            for each in self._answered(with_acks=False)
            for value in each.values
            if value in strange
        ]
        read_aborted = [
            (read, value, self.failed[value]) for read, value in seen if value in aborted
        ]
        if read_aborted:
            read, value, append = min(read_aborted, key=lambda each: _width([each[0], each[2]]))
            yield evidence_of(
                LogAnomaly.ABORTED_READ,
                [append, read],
                f"value {value} was read, and its append failed",
                occurrences=len(aborted),
            )
        if phantom:
            read, value = min(
                (each for each in seen if each[1] in phantom), key=lambda each: _width([each[0]])
            )
            yield evidence_of(
                LogAnomaly.PHANTOM_READ,
                [read],
                f"value {value} was read, and nobody appended it",
                occurrences=len(phantom),
            )


def closest_disagreement(claims: Iterable[Claim]) -> tuple[Claim, Claim]:
    """The two claims that differ and that the smallest window shows.

    By the order of their ends, each with the one invoked last of those before. If that one says
    the same, any other that differs makes a smaller window with it.
    """
    best: tuple[Claim, Claim] | None = None
    partner: Claim | None = None
    for claim in sorted(claims, key=lambda each: each[0].last_moment_ns):
        if partner is not None and partner[1] != claim[1]:
            pair = (partner, claim)
            if best is None or _pair_width(pair) < _pair_width(best):
                best = pair
        if partner is None or claim[0].t_invoke_ns > partner[0].t_invoke_ns:
            partner = claim
    if best is None:
        raise ValueError("the claims agree")
    return best


def _pair_width(pair: tuple[Claim, Claim]) -> int:
    return _width([pair[0][0], pair[1][0]])


def _width(operations: Sequence[LogOperation]) -> int:
    begin = min(each.t_invoke_ns for each in operations)
    return max(each.last_moment_ns for each in operations) - begin


def _thing(value: int | None) -> str:
    return "a control batch" if value is None else f"value {value}"


def _goes_back(read: LogOperation) -> bool:
    offsets = read.offsets or ()
    return offsets[0] < read.start_offset or any(two <= one for one, two in pairwise(offsets))


def _gaps(read: LogOperation) -> Iterator[tuple[int, int]]:
    """Ranges, end exclusive, that a read passed without a record."""
    if read.offsets is None:
        expected = read.start_offset + len(read.values)
        passed = sorted(read.control_offsets)
    else:
        expected = read.start_offset
        passed = sorted({*read.offsets, *read.control_offsets})
    for offset in passed:
        if offset > expected:
            yield expected, offset
        expected = max(expected, offset + 1)


def _first_missing(ordered: Sequence[int], begin: int, end: int) -> Iterator[int]:
    """The first of a range that is not among the ordered numbers, if there is one."""
    at = bisect_left(ordered, begin)
    if bisect_left(ordered, end) - at == end - begin:
        return
    while at < len(ordered) and ordered[at] == begin:
        at, begin = at + 1, begin + 1
    yield begin
