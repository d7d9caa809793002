"""Rules R3 and R4 of the log checker: can the answers be put in one order that respects time?

An append at offset o has the position 2o+1. A read that was told that the log ends at h has the
position 2h, between the appends at h-1 and h; one that was not told has a position of at least
twice the offset that it reached. Sorted by position the operations are in the order of the log.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

from jepsen_style.checkers.log_history import FINAL_READ, LogModel, LogOperation, in_ms
from jepsen_style.checkers.log_observations import Observations
from jepsen_style.checkers.log_verdict import (
    LogAnomaly,
    LogEvidence,
    evidence_of,
    window_ns,
)
from jepsen_style.operations import Status

NEVER = 1 << 62
ANYWHERE = 1 << 62

NOBODY = (-NEVER, -1)

Moment = tuple[int, int, int]
"""A time, a bound on a position, and the index of the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """A record that may be, or must be, in the log, and whose offset nobody knows."""

    t_invoke_ns: int
    t_return_ns: int
    """NEVER if it need not be in the log."""
    index: int


class Order:
    """The operations of one partition, all of whose answers agree (rules R1 and R2)."""

    def __init__(
        self, operations: Sequence[LogOperation], seen: Observations, model: LogModel
    ) -> None:
        self._operations = operations
        self._seen = seen
        self._model = model
        self._invocations: list[Moment] = []
        """With the highest position that the operation can have."""
        self._returns: list[Moment] = []
        """With the lowest position that the operation can have."""
        self._sessions: dict[tuple[int, int], tuple[list[Moment], list[Moment]]] = {}
        self._told_later: dict[int, LogOperation] = {}
        """By the identity of a final read that was told no end: the read of its session that was
        told the lowest one afterwards. As the session never goes back, it holds for both."""
        self._unplaced: list[Unplaced] = []
        self._acked_at: dict[int, int] = {}
        """Where acknowledgements do not bind: by offset, the first invocation acknowledged there
        whose record nobody read."""
        for index, each in enumerate(operations):
            if not each.is_read:
                if each.status is not Status.FAIL:
                    self._place_append(index, each)
            elif each.status is Status.OK:
                self._place_read(index, each)
        for session, _ in self._sessions.values():
            self._place_final_reads(session)
        self._invocations.sort()
        self._returns.sort()

    def _place_append(self, index: int, append: LogOperation) -> None:
        binds = append.status is Status.OK and self._model.acks_bind
        told = append.record_offsets if append.status is Status.OK else None
        known: list[int] = []
        for number, value in enumerate(append.values):
            offset = self._seen.offset_of.get(value)
            if offset is not None:
                known.append(offset)
            elif told is not None:
                at = told[number]
                self._acked_at[at] = min(append.t_invoke_ns, self._acked_at.get(at, NEVER))
            else:
                self._unplaced.append(
                    Unplaced(
                        t_invoke_ns=append.t_invoke_ns,
                        t_return_ns=_returned(append) if binds else NEVER,
                        index=index,
                    )
                )
        if known:
            self._invocations.append((append.t_invoke_ns, 2 * min(known) + 1, index))
            if binds:
                self._returns.append((_returned(append), 2 * max(known) + 1, index))

    def _place_read(self, index: int, read: LogOperation) -> None:
        end = read.log_end_seen
        invocation = (read.t_invoke_ns, ANYWHERE if end is None else 2 * end, index)
        returned = (_returned(read), 2 * (read.end_offset if end is None else end), index)
        self._returns.append(returned)
        if self._model.reads_are_fresh:
            self._invocations.append(invocation)
        else:
            session = self._sessions.setdefault((read.process, read.session), ([], []))
            session[0].append(invocation)
            session[1].append(returned)

    def _place_final_reads(self, session: list[Moment]) -> None:
        session.sort()
        times = [t for t, _, _ in session]
        lowest = list(accumulate(((hi, index) for _, hi, index in reversed(session)), min))
        for t_invoke_ns, hi, index in session:
            read = self._operations[index]
            if read.f != FINAL_READ:
                continue
            later = len(times) - bisect_right(times, _returned(read))
            if hi == ANYWHERE and later:
                hi, told = lowest[later - 1]
                self._told_later[id(read)] = self._operations[told]
            self._invocations.append((t_invoke_ns, hi, index))

    def contradictions(self) -> list[LogEvidence]:
        """Rules R4 and R3; one evidence per kind, with the smallest window."""
        pairs = conflicts(self._invocations, self._returns, self._operations)
        kinds: dict[LogAnomaly, list[tuple[LogOperation, LogOperation]]] = {}
        for earlier, later in pairs:
            kinds.setdefault(_kind(earlier, later), []).append((earlier, later))
        for invocations, returns in self._sessions.values():
            returns.sort()
            for pair in conflicts(invocations, returns, self._operations):
                kinds.setdefault(LogAnomaly.SESSION_WENT_BACK, []).append(pair)
        found = [self._explain(kind, listed) for kind, listed in kinds.items()]
        # Without one order in time the holes have no deadlines to speak of.
        return found or list(self._holes())

    def _explain(
        self, kind: LogAnomaly, pairs: list[tuple[LogOperation, LogOperation]]
    ) -> LogEvidence:
        earlier, later = min(pairs, key=lambda pair: _width(*pair))
        witnesses: list[LogOperation] = []
        if later.is_read and later.log_end_seen is None:
            witness = self._told_later.get(id(later), later)
            told = f"the session of the later one was told that it ends at {witness.log_end_seen}"
            witnesses.append(witness)
        elif later.is_read:
            told = f"the later one was told that it ends at {later.log_end_seen}"
        else:
            first = min(self._known_offsets(later))
            told = f"the later one put a record at offset {first}"
            witnesses += self._witness(later, first)
        if not earlier.is_read:
            witnesses += self._witness(earlier, max(self._known_offsets(earlier)))
        return evidence_of(
            kind,
            (earlier, later, *witnesses),
            f"when the earlier one returned the log reached to {self._reached(earlier)}, and"
            f" {told}, invoked {in_ms(later.t_invoke_ns - _returned(earlier))} after that",
            occurrences=len(pairs),
        )

    def _known_offsets(self, append: LogOperation) -> list[int]:
        offsets = (self._seen.offset_of.get(value) for value in append.values)
        return [offset for offset in offsets if offset is not None]

    def _witness(self, append: LogOperation, offset: int) -> list[LogOperation]:
        """The read nearest in time that shows where the append went, if nobody told the client."""
        is_told = append.status is Status.OK and append.record_offsets is not None
        if is_told and self._model.acks_bind:
            return []
        value = self._seen.value_at[offset]
        reads = (each for each in self._operations if each.is_read and each.status is Status.OK)
        seen_by = [each for each in reads if value in each.values]
        return [min(seen_by, key=lambda each: _width(append, each))]

    def _reached(self, operation: LogOperation) -> int:
        """The log's end by the answer of an operation, exclusive."""
        if operation.is_read:
            end = operation.log_end_seen
            return operation.end_offset if end is None else end
        return max(self._known_offsets(operation)) + 1

    def _holes(self) -> Iterator[LogEvidence]:
        """R3: fill each offset that nobody saw, in order, with the record that can wait least."""
        waiting: list[tuple[int, int, int]] = []
        arriving = self._with_last_offsets()
        next_arrival = 0
        passed = _Deadlines(self._returns)
        for offset in self._empty_offsets():
            deadline_ns, proof = passed.first_beyond(2 * offset + 1)
            while next_arrival < len(arriving) and arriving[next_arrival][0] <= deadline_ns:
                heappush(waiting, arriving[next_arrival][1:])
                next_arrival += 1
            if self._acked_at.get(offset, NEVER) <= deadline_ns:
                continue
            if not waiting:
                late = arriving[next_arrival][3] if next_arrival < len(arriving) else None
                yield self._hole(offset, proof, late)
                return
            last_offset, _, index = heappop(waiting)
            if last_offset < offset:
                yield self._no_place(index)
                return
        for last_offset, _, index in [*waiting, *(each[1:] for each in arriving[next_arrival:])]:
            if last_offset < ANYWHERE:
                yield self._no_place(index)
                return

    def _empty_offsets(self) -> Iterator[int]:
        """Offsets below the length that hold nothing, lazily: a wild answer may imply billions."""
        expected = 0
        for offset in sorted({*self._seen.value_at, *self._seen.control}):
            yield from range(expected, offset)
            expected = offset + 1
        yield from range(expected, self._seen.length)

    def _with_last_offsets(self) -> list[tuple[int, int, int, int]]:
        """Unplaced records by invocation: it, the last offset possible, the return, the index.

        The last offset is set by what was invoked after the return and is known to come later.
        """
        times = [t for t, _, _ in self._invocations]
        bounds = list(accumulate((hi for _, hi, _ in reversed(self._invocations)), min))
        arriving = []
        for each in self._unplaced:
            later = len(times) - bisect_right(times, each.t_return_ns)
            bound = bounds[later - 1] if later else ANYWHERE
            last_offset = ANYWHERE if bound == ANYWHERE else (bound - 1) // 2
            arriving.append((each.t_invoke_ns, last_offset, each.t_return_ns, each.index))
        return sorted(arriving)

    def _hole(self, offset: int, proof: int, late: int | None) -> LogEvidence:
        operations = [self._operations[proof]]
        explanation = (
            f"the log reached beyond offset {offset} when this returned, nobody saw what is"
            " there, and no append of unknown place that was invoked by then is left to fill it"
        )
        if late is not None:
            operations.append(self._operations[late])
            explanation += "; the next of them was invoked too late"
        return evidence_of(LogAnomaly.HOLE, operations, explanation)

    def _no_place(self, index: int) -> LogEvidence:
        append = self._operations[index]
        later = [each for each in self._invocations if each[0] > _returned(append)]
        shuts_out = self._operations[min(later, key=lambda each: each[1])[2]]
        return evidence_of(
            LogAnomaly.NO_PLACE,
            [append, shuts_out, self._told_later.get(id(shuts_out), shuts_out)],
            "the append was acknowledged, nobody saw a record of it, and every offset that it"
            " could have before the other operation holds something else",
        )


class _Deadlines:
    """By when an offset must have been appended: the first return that shows a longer log."""

    def __init__(self, returns: Sequence[Moment]) -> None:
        self._returns = returns
        self._highest = list(accumulate((lo for _, lo, _ in returns), max))

    def first_beyond(self, position: int) -> tuple[int, int]:
        """The time, and the index of the operation."""
        time_ns, _, index = self._returns[bisect_right(self._highest, position)]
        return time_ns, index


def conflicts(
    invocations: Sequence[Moment], returns: Sequence[Moment], operations: Sequence[LogOperation]
) -> list[tuple[LogOperation, LogOperation]]:
    """R4: pairs of which one returned before the other was invoked, and comes after it in the log.

    Each operation that was invoked too late is paired once, with the one that makes the smallest
    window. Both lists are sorted; equal times are concurrent.
    """
    highest = -1
    done = 0
    late: list[Moment] = []
    for invocation in invocations:
        while done < len(returns) and returns[done][0] < invocation[0]:
            highest = max(highest, returns[done][1])
            done += 1
        if invocation[1] < highest:
            late.append(invocation)
    return _closest_partners(late, returns, operations) if late else []


def _closest_partners(
    late: Sequence[Moment], returns: Sequence[Moment], operations: Sequence[LogOperation]
) -> list[tuple[LogOperation, LogOperation]]:
    """For each the partner that was invoked last, by a tree of maxima over positions."""
    positions = sorted({lo for _, lo, _ in returns})
    tree: list[tuple[int, int]] = [NOBODY] * (len(positions) + 1)
    done = 0
    pairs = []
    for t_invoke_ns, hi, index in late:
        while done < len(returns) and returns[done][0] < t_invoke_ns:
            _, lo, partner = returns[done]
            entry = (operations[partner].t_invoke_ns, partner)
            node = len(positions) - bisect_left(positions, lo)
            while node < len(tree):
                tree[node] = max(tree[node], entry)
                node += node & -node
            done += 1
        node = len(positions) - bisect_right(positions, hi)
        best = NOBODY
        while node:
            best = max(best, tree[node])
            node -= node & -node
        pairs.append((operations[best[1]], operations[index]))
    return pairs


def _kind(earlier: LogOperation, later: LogOperation) -> LogAnomaly:
    if later.is_read:
        return LogAnomaly.LOST_WRITE if later.f == FINAL_READ else LogAnomaly.STALE_READ
    return LogAnomaly.READ_AHEAD if earlier.is_read else LogAnomaly.REORDERED_APPEND


def _width(earlier: LogOperation, later: LogOperation) -> int:
    begin, end = window_ns((earlier, later))
    return end - begin


def _returned(operation: LogOperation) -> int:
    return NEVER if operation.t_return_ns is None else operation.t_return_ns
