"""Linearizability: is there one order of the operations that explains every answer?

A history is linearizable if each operation that happened can be given one moment between its
invocation and its return, such that the object, taking the operations in the order of these
moments, gives the answers that the clients were given. An operation of unknown outcome may be
given a moment at any time after its invocation, or none; a failed one is given none.

The property is local: a history is linearizable if and only if the operations of each key are
(Herlihy and Wing, 1990). So keys are searched apart, a slice of steps each in turn, and a key that
is refuted quickly ends the check however hard the others are. A search that takes more than one
slice is helped: if a short window before the place where it is stuck contradicts itself from any
state, the key is refuted without exhausting everything before.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from jepsen_style.checkers.evidence import explain, refutes_itself
from jepsen_style.checkers.model import Model
from jepsen_style.checkers.search import Outcome, Search
from jepsen_style.checkers.verdict import Validity, Verdict
from jepsen_style.operations import Operation, Status

STEPS_PER_TURN = 50_000
STEPS_PER_WINDOW = 50_000
"""For finding a window that contradicts itself, each time that a search is stuck elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a check may take before it says `unknown`. Over all keys together."""

    max_steps: int = 30_000_000
    """Transitions tried; a million takes about a second."""
    max_memory_bytes: int = 1 << 30
    """Estimated, of the configurations remembered."""
    max_evidence_steps: int = 2_000_000
    """For making the evidence of an invalid history small; the verdict never depends on it."""


DEFAULT_BUDGET = Budget()


def check(
    operations: Iterable[Operation], model: Model, *, budget: Budget = DEFAULT_BUDGET
) -> Verdict:
    """Judge a history of any number of keys, each of which behaves as the model says."""
    keys = by_key(operations)
    judged = sum(len(each) for each in keys.values())
    waiting = deque((key, Search(each, model, initial=model.initial)) for key, each in keys.items())
    settled_steps = 0
    tried: dict[Hashable, Operation] = {}
    while waiting:
        key, search = waiting.popleft()
        others_bytes = sum(other.memory_bytes for _, other in waiting)
        others_steps = settled_steps + sum(other.steps for _, other in waiting)
        outcome = search.run(
            max_steps=min(search.steps + STEPS_PER_TURN, budget.max_steps - others_steps),
            max_memory_bytes=budget.max_memory_bytes - others_bytes,
        )
        steps = others_steps + search.steps
        if outcome is Outcome.OUT_OF_STEPS and search.culprit is not tried.get(key):
            tried[key] = search.culprit
            if refutes_itself(keys[key], model, search.culprit, max_steps=STEPS_PER_WINDOW):
                outcome = Outcome.NOT_LINEARIZABLE
        match outcome:
            case Outcome.LINEARIZABLE:
                settled_steps += search.steps
            case Outcome.NOT_LINEARIZABLE:
                evidence = explain(
                    keys[key], model, search, key=key, max_steps=budget.max_evidence_steps
                )
                return Verdict(
                    validity=Validity.INVALID, operations=judged, steps=steps, evidence=evidence
                )
            case Outcome.OUT_OF_STEPS if steps < budget.max_steps:
                waiting.append((key, search))
            case Outcome.OUT_OF_STEPS | Outcome.OUT_OF_MEMORY:
                return Verdict(
                    validity=Validity.UNKNOWN,
                    operations=judged,
                    steps=steps,
                    reason=f"the search of key {key!r} ran {outcome.value} after {steps} steps;"
                    " a larger budget, or fewer operations at once per key, may settle it",
                )
    return Verdict(validity=Validity.VALID, operations=judged, steps=settled_steps)


def by_key(operations: Iterable[Operation]) -> dict[Hashable, list[Operation]]:
    """The operations of each key that may have happened, keys in the order of appearance."""
    keys: dict[Hashable, list[Operation]] = {}
    for operation in operations:
        if operation.status is not Status.FAIL:
            keys.setdefault(operation.key, []).append(operation)
    return keys
