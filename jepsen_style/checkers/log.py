"""Log linearizability: do the answers fit one append-only log? In n log n, by four rules.

**Operations** of a partition (`LogOperation`). An *append* of some values is told the offset of
each (`base_offset` and contiguous, or `offsets`), or is acknowledged without being told. A *read*
begins at `base_offset`, passes values and control offsets, and may be told the high watermark: the
end of the log, exclusive. It may end early, and an empty one says nothing but that the log reached
to where it began. A *final read* belongs to the last phase, when the cluster is at rest; an empty
one has found the end. An `ok` operation happened between its invocation and its return, a `fail`
never happened, an append of status `info` may happen at any moment after its invocation or never,
and a read of status `info` or `fail` says nothing. Equal times are concurrent.

An append of n values stands for n appends invoked and returned together: nothing is said here
about their order or about all or none (records of one call may travel in several batches).

**The log** is empty at first; every offset is filled once, by one value or by a control batch; an
append adds at the end. Offsets of control batches are in the history: some reader names them.
With `compacted`, a read may also leave out records that are there.

**strict-log**: the history is linearizable. There is one order of all operations that happened
that respects time (one that returned before another was invoked comes first) and in which every
append is told the log's end, every read sees the log as it is, and its high watermark is the end.

**committed-prefix**: as before, but a read, unless it is a final one, may see the log as it was at
any earlier moment; the reads of one session (`process`, `session`) that follow each other in time
never go back. Never may a read see what is appended after it returned. Where there are final
reads they must pass every record acknowledged before them: one that was told that the log ends
earlier refutes, one that did not get so far leaves the verdict unknown.

**acks1**: as committed-prefix, but an acknowledged append is at its offset or nowhere, and may have
been written at any moment after its invocation. Losses are counted, not refuted: an acknowledged
record is *lost* if its offset holds something else, if a final read invoked later found the end of
the log at or before it, or if another record acknowledged at the same offset took its place.

**The rules** (positions are those of `log_order`: 2o+1 for the append at o, 2h for a read of a log
that ends at h):

- R1: one value per offset and one offset per value, over acknowledgements (unless acks1) and
  reads; a read's offsets ascend and stay below its high watermark; an offset that it passed
  without a record is one that some reader names as a control batch (unless compacted).
- R2: every value read was appended by an operation that did not fail.
- R3: every offset below the longest log that was seen is filled. One that nobody saw needs a
  record of its own that nobody saw either, from an append of unknown outcome or acknowledged
  without an offset, invoked no later than the first return that shows the log beyond the offset.
  An acknowledged one must also fit before everything invoked after its return.
- R4: an operation's position is not below that of one that returned before it was invoked. With
  committed-prefix and acks1 this is not asked of a read that is not final, except within its
  session; with acks1 not of an append after an append. A final read that was told no end is
  not above the reads that follow it in its session, since they do not go back.

**They are sound**: R1 and R2 hold in every order, as an offset is filled once. Positions are the
log's length before and after an operation, and that never shrinks along an order that respects
time: so R4 holds, and R3 for the record that fills the offset in that order.

**They are complete** for histories with unique values. Fill the holes as R3 found, and sort all
operations by position. A read without high watermark goes to the highest position among its own
end and those returned before its invocation (in its session, if it may be stale). Reads of equal
position change nothing, so they go by invocation. Each append is then told the log's end and each
read sees what R1 bound. Time is respected: two of known position by R4; of a hole's record the
deadline is R4 for those returned before its invocation, and its last offset for those invoked
after its return; two holes' records are in order since the one that can wait least goes first,
and if one returned before the other was invoked, it can wait no longer and arrived no later. If
that greedy choice fails, a hole has too few candidates or a record too few holes, by the usual
exchange argument, so no choice succeeds. With acks1 an acknowledged record that nobody read can
fill the hole at its own offset and no other, so it is taken first; nothing else needs it.

**Where they are silent**: values that two appends share leave the verdict unknown. A stale read is
seen only if the high watermark was recorded. A history begins with the empty log. Transactions,
order within a batch and order of one producer are for the Kafka checker.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jepsen_style.checkers.log_history import FINAL_READ, LogModel, LogOperation
from jepsen_style.checkers.log_observations import Observations
from jepsen_style.checkers.log_order import NEVER, Order
from jepsen_style.checkers.log_verdict import LogEvidence, LogVerdict
from jepsen_style.checkers.verdict import Validity
from jepsen_style.operations import Status


def check_log(
    operations: Iterable[LogOperation],
    model: LogModel = LogModel.STRICT_LOG,
    *,
    compacted: bool = False,
) -> LogVerdict:
    """Judge a history of any number of partitions; each is a log of its own."""
    partitions: dict[tuple[str, int], list[LogOperation]] = {}
    for each in operations:
        partitions.setdefault(each.key, []).append(each)
    judged = [_check_partition(each, model, compacted=compacted) for each in partitions.values()]
    evidence = tuple(found for each in judged for found in each.evidence)
    reasons = [each.reason for each in judged if each.reason is not None]
    validity = Validity.VALID
    if evidence:
        validity = Validity.INVALID
    elif reasons:
        validity = Validity.UNKNOWN
    return LogVerdict(
        validity=validity,
        operations=sum(len(each) for each in partitions.values()),
        evidence=evidence,
        reason="; ".join(reasons) if reasons and not evidence else None,
        acknowledged=sum(each.acknowledged for each in judged),
        lost=sum(each.lost for each in judged),
        unseen=sum(each.unseen for each in judged),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    """Of one partition."""

    evidence: list[LogEvidence]
    reason: str | None = None
    acknowledged: int
    lost: int = 0
    unseen: int


def _check_partition(
    operations: Sequence[LogOperation], model: LogModel, *, compacted: bool
) -> _Judgement:
    seen = Observations(operations, model)
    evidence: list[LogEvidence] = []
    reason: str | None = None
    if seen.repeated_value is not None:
        reason = f"value {seen.repeated_value} is appended twice: values must be unique"
    else:
        # Positions mean something only where all answers agree.
        evidence = seen.contradictions(compacted=compacted)
        evidence = evidence or Order(operations, seen, model).contradictions()
        if model is LogModel.COMMITTED_PREFIX:
            reason = _not_covered(operations, seen)
    acks = _Acknowledged(operations)
    return _Judgement(
        evidence=evidence,
        reason=_told_where(reason, operations[0]),
        acknowledged=acks.count,
        lost=0 if model.acks_bind else acks.lost(seen),
        unseen=acks.unseen,
    )


class _Acknowledged:
    """The records of a partition that clients were told are written, and who read them."""

    def __init__(self, operations: Sequence[LogOperation]) -> None:
        acks = [each for each in operations if not each.is_read and each.status is Status.OK]
        reads = [each for each in operations if each.is_read and each.status is Status.OK]
        read = {value for each in reads for value in each.values}
        self.count = sum(each.count for each in acks)
        self.unseen = sum(value not in read for each in acks for value in each.values)
        self._acks = acks
        self._final_reads = [each for each in reads if each.f == FINAL_READ]

    def lost(self, seen: Observations) -> int:
        """With acks1; `seen` knows by reads alone what each offset holds."""
        ends = sorted(
            (each.t_invoke_ns, each.log_end_seen)
            for each in self._final_reads
            if each.log_end_seen is not None
        )
        times = [time_ns for time_ns, _ in ends]
        lost = 0
        unread_at: set[int] = set()
        for append in self._acks:
            offsets = append.record_offsets or ()
            # Final reads do not go back (R4), so the first one after it saw the shortest log.
            first = bisect_right(times, append.t_return_ns or 0)
            end = ends[first][1] if first < len(ends) else NEVER
            for value, offset in zip(append.values, offsets, strict=False):
                if seen.value_at.get(offset) == value:
                    continue
                overwritten = offset in seen.value_at or offset in seen.control
                if overwritten or end <= offset or offset in unread_at:
                    lost += 1
                else:
                    unread_at.add(offset)
        return lost


def _not_covered(operations: Sequence[LogOperation], seen: Observations) -> str | None:
    """Why the final reads do not settle what became of every acknowledged record."""
    final_reads = [each for each in operations if each.f == FINAL_READ and each.status is Status.OK]
    if not final_reads:
        return None
    begin_ns = min(each.t_invoke_ns for each in final_reads)
    ranges = _merged(sorted((each.start_offset, each.end_offset) for each in final_reads))
    starts = [start for start, _ in ranges]
    for each in operations:
        if each.is_read or each.status is not Status.OK or (each.t_return_ns or 0) >= begin_ns:
            continue
        for value in each.values:
            offset = seen.offset_of.get(value)
            at = -1 if offset is None else bisect_right(starts, offset) - 1
            if offset is None or at < 0 or ranges[at][1] <= offset:
                place = "at an offset not told" if offset is None else f"at offset {offset}"
                return f"no final read passed value {value}, acknowledged {place}"
    return None


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted ranges, end exclusive, those that touch made one."""
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _told_where(reason: str | None, operation: LogOperation) -> str | None:
    return None if reason is None else f"{operation.topic}-{operation.partition}: {reason}"
