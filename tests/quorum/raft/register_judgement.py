"""What must hold of registers after chaos, by what clients were told and what voters hold.

The checker judges what clients could see. A write that was lost and then overwritten before anybody
read it is invisible to it, so the voters' states are judged too: they hold every value that a
register ever had, in order.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from jepsen_style.checkers.register import check_register
from jepsen_style.operations import Operation, Status

MAX_TOLD = 5

Writes = Mapping[str, Sequence[int]]
Name = tuple[Hashable, Hashable]
"""A register and a value, which is written at most once."""


def judge(history: Sequence[Operation], states: Mapping[int, Writes]) -> list[str]:
    """Everything that is wrong, in words; nothing if all is well."""
    problems: list[str] = []
    verdict = check_register(history)
    if not verdict.valid:
        problems.append(f"the history is {verdict.describe()}")
    for voter_id, writes in states.items():
        found = judge_writes(history, writes)
        problems += [f"voter {voter_id}: {problem}" for problem in found]
    first = next(iter(states.values()), {})
    if any(writes != first for writes in states.values()):
        problems.append(f"the voters {sorted(states)} do not hold the same")
    return problems


def judge_writes(history: Iterable[Operation], writes: Writes) -> list[str]:
    """A voter's state against what the writers were told."""
    attempts: dict[Name, Operation] = {(op.key, op.value): op for op in history if op.f == "write"}
    counts: Counter[Name] = Counter(
        (key, value) for key, values in writes.items() for value in values
    )
    acknowledged = [name for name, op in attempts.items() if op.status is Status.OK]
    failed = [name for name, op in attempts.items() if op.status is Status.FAIL]
    found: dict[str, list[Name]] = {
        "acknowledged and lost": [name for name in acknowledged if not counts[name]],
        "failed and there": [name for name in failed if counts[name]],
        "there twice": [name for name, count in counts.items() if count > 1],
        "there and never written": [name for name in counts if name not in attempts],
        "applied after a later one": _out_of_order(attempts, writes),
    }
    return [
        f"{len(names)} writes {problem}, such as {sorted(map(str, names))[:MAX_TOLD]}"
        for problem, names in found.items()
        if names
    ]


def _out_of_order(attempts: Mapping[Name, Operation], writes: Writes) -> list[Name]:
    """Writes that had returned before one that stands before them was even invoked."""
    wrong: list[Name] = []
    for key, values in writes.items():
        last_invoke_ns = 0
        for value in values:
            attempt = attempts.get((key, value))
            if attempt is None:
                continue
            is_ok = attempt.status is Status.OK and attempt.t_return_ns is not None
            if is_ok and (attempt.t_return_ns or 0) < last_invoke_ns:
                wrong.append((key, value))
            last_invoke_ns = max(last_invoke_ns, attempt.t_invoke_ns)
    return wrong
