"""Sweeps over seeded histories that yield whatever the log checker gets wrong.

The true checker yields nothing; a mutant of it must yield something. What is yielded is told in
words, so that a failure can be read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from jepsen_style.checkers import log
from jepsen_style.checkers.log_history import LogModel, LogOperation
from jepsen_style.checkers.log_verdict import LogAnomaly, LogEvidence, LogVerdict
from jepsen_style.operations import Status
from tests.jepsen_style.log_brute_force import is_explained
from tests.jepsen_style.log_histories import append, read, small_histories

Check = Callable[..., LogVerdict]

BEFORE_EVERYTHING_NS = -1_000
NO_VERDICT = "no verdict but"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    history: list[LogOperation]
    model: LogModel
    compacted: bool
    is_explained: bool
    is_simulated: bool
    """Made by a log that behaves as the model says, and not spoiled."""


def cases(seed: int, count: int) -> Iterator[Case]:
    """So many for each model, and a quarter as many with compaction, judged by brute force."""
    for model in LogModel:
        for compacted, share in ((False, count), (True, count // 4)):
            histories = small_histories(seed, share, model, compacted=compacted)
            for number, history in enumerate(histories):
                yield Case(
                    history=history,
                    model=model,
                    compacted=compacted,
                    is_explained=is_explained(history, model, compacted=compacted),
                    is_simulated=number % 3 == 1,
                )


@cache
def few_cases() -> tuple[Case, ...]:
    """Enough to kill every mutant; judged once per process."""
    hard = (
        Case(
            history=history,
            model=model,
            compacted=False,
            is_explained=is_explained(history, model),
            is_simulated=False,
        )
        for history in hard_histories()
        for model in LogModel
    )
    return (*cases(11, 1_200), *hard)


def hard_histories() -> list[list[LogOperation]]:
    """What chance finds once in a hundred thousand: a session goes back from a final read that
    was told no end, so that what it must have seen follows only from an append before it."""
    final, back = read(1, t=(4, 5), final=True), read(end=1, t=(6, 7))
    return [
        [append(1, at=0, t=(0, 1)), append(2, at=1, t=(2, 3)), final, back],
        [append(1, at=0, t=(0, 1)), append(2, t=(2, 3)), final, back],
    ]


def wrong_verdicts(judged: Iterable[Case], check: Check = log.check_log) -> Iterator[str]:
    for case in judged:
        try:
            verdict = check(case.history, case.model, compacted=case.compacted)
        except (IndexError, ValueError) as error:
            yield told(f"{case.model.value}, {NO_VERDICT} {error!r}", case.history)
            continue
        if bool(verdict.evidence) == case.is_explained:
            yield told(f"{case.model.value}, wrongly {verdict.describe()}", case.history)


def unproven_evidence(judged: Iterable[Case]) -> Iterator[str]:
    """What the evidence shows must be a contradiction however little is known of the rest.

    Holes are exempt: what they contradict is the whole history. So are histories with control
    batches, since a reader that is not in the evidence may be the one that names them.
    """
    for case in judged:
        if any(each.control_offsets for each in case.history):
            continue
        verdict = log.check_log(case.history, case.model, compacted=case.compacted)
        for evidence in verdict.evidence:
            if evidence.anomaly in (LogAnomaly.HOLE, LogAnomaly.NO_PLACE):
                continue
            relaxed = _relaxed(case.history, evidence)
            if is_explained(relaxed, case.model, compacted=case.compacted):
                yield told(f"{case.model.value}: {evidence.describe()}", case.history)


def _relaxed(history: Sequence[LogOperation], evidence: LogEvidence) -> list[LogOperation]:
    """The history without other reads, in which other appends may have happened at any time."""
    shown = {id(each) for each in evidence.operations}
    return [
        each if id(each) in shown or each.status is Status.FAIL else _of_unknown_outcome(each)
        for each in history
        if id(each) in shown or not each.is_read
    ]


def _of_unknown_outcome(append: LogOperation) -> LogOperation:
    return replace(
        append,
        status=Status.INFO,
        t_invoke_ns=BEFORE_EVERYTHING_NS,
        t_return_ns=None,
        base_offset=None,
        offsets=None,
    )


def told(problem: str, history: Sequence[LogOperation]) -> str:
    return "\n".join([problem, "of the history:", *(each.describe() for each in history)])
