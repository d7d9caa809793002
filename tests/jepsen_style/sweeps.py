"""Sweeps over seeded histories that yield whatever the register checker gets wrong.

The true checker yields nothing; a mutant of it must yield something. What is yielded is told in
words, so that a failure can be read.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from random import Random

import pytest

from jepsen_style.checkers import linearizability
from jepsen_style.checkers.evidence import Case, until, window
from jepsen_style.checkers.linearizability import check
from jepsen_style.checkers.register import Register, check_register
from jepsen_style.checkers.verdict import Evidence
from jepsen_style.operations import Operation, Status
from tests.jepsen_style.brute_force import is_linearizable, is_linearizable_from_some_state
from tests.jepsen_style.simulated_register import linearizable_history
from tests.jepsen_style.small_histories import small_histories, spoiled

MAX_BRUTE_FORCE = 14


def wrong_verdicts(*, small: int = 3_000, long: int = 300) -> Iterator[str]:
    """Small histories against the definition, and longer ones that are valid by construction."""
    for history in small_histories(7, small):
        verdict = check(history, Register())
        if verdict.valid != is_linearizable(history):
            yield told(f"wrongly {verdict.describe()}", history)
    for seed in range(long):
        history = linearizable_history(
            Random(seed), operations=60, processes=6, values=3, unknown_rate=0.4
        )
        if not check(history, Register()).valid:
            yield f"history of seed {seed} is refuted"


def wrong_verdicts_in_slices() -> Iterator[str]:
    """Every search is interrupted at once, so that windows decide wherever they can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linearizability, "STEPS_PER_TURN", 1)
        yield from wrong_verdicts(small=3_000, long=20)


def unsound_cuts(*, small: int = 500) -> Iterator[str]:
    """What the cuts leave of a linearizable history must be linearizable."""
    model = Register()
    for history in small_histories(8, small):
        if not is_linearizable(history):
            continue
        for culprit in (each for each in history if each.status is Status.OK):
            case = until(culprit, history, model)
            if not is_linearizable(case.counted):
                yield told(f"cut at the return of {culprit.describe()}", history)
            yield from _unsound_groups(case, history)
            for start_ns in {each.t_invoke_ns for each in history}:
                late = window(case, start_ns, model, model.anything)
                if not is_linearizable_from_some_state(late.counted):
                    yield told(f"cut at {start_ns} and at {culprit.describe()}", history)


def _unsound_groups(case: Case, history: Sequence[Operation]) -> Iterator[str]:
    groups = Register().separable(case.counted)
    unneeded = [
        index for index, symbol in enumerate(Register().encode(case.counted)) if symbol is None
    ]
    for group in (*groups, unneeded):
        if not is_linearizable(case.without(set(group)).counted):
            yield told(f"operations {group} cut", history)


def unproven_evidence(*, small: int = 2_000, long: int = 400) -> Iterator[str]:
    """Evidence must be refuted as a history of its own, from the state that it claims."""
    for history in chain(small_histories(9, small), spoiled_histories(long)):
        evidence = check_register(history).evidence
        if evidence is not None and (problem := _unproven(evidence, history)):
            yield told(f"{problem}: {evidence.describe()}", history)


def spoiled_histories(count: int) -> Iterator[list[Operation]]:
    """Long enough for the evidence to begin in the middle."""
    for seed in range(count):
        random = Random(seed)
        yield spoiled(random, linearizable_history(random, operations=40, values=5))


def _unproven(evidence: Evidence, history: Sequence[Operation]) -> str | None:
    if evidence.culprit not in evidence.counted:
        return "the culprit is not a part of the conflict"
    if any(each not in history for each in evidence.conflict):
        return "the conflict has operations that the history has not"
    for original, counted in zip(evidence.conflict, evidence.counted, strict=True):
        if counted not in (original, _of_unknown_outcome(original)):
            return f"{original.describe()} counts as something else"
    if len(evidence.counted) > MAX_BRUTE_FORCE:
        return None
    for part in (evidence.conflict, evidence.counted):
        if evidence.initial_state is None:
            explained = is_linearizable_from_some_state(part)
        else:
            explained = is_linearizable(part)
        if explained:
            return "the conflict is linearizable"
    return None


def _of_unknown_outcome(operation: Operation) -> Operation:
    return Operation(
        process=operation.process,
        f=operation.f,
        key=operation.key,
        value=operation.value,
        t_invoke_ns=operation.t_invoke_ns,
        status=Status.INFO,
    )


def told(problem: str, history: Sequence[Operation]) -> str:
    return "\n".join([problem, "of the history:", *(each.describe() for each in history)])
