"""Evidence: from a history that is not linearizable to the few operations that contradict.

Each cut keeps what is left a contradiction of its own: a linearizable history stays linearizable
under every one of them, and what is left is refuted by a search.

1. What was invoked after the culprit returned is dropped: the search got stuck there.
2. What returned before some moment is dropped, and the object may then be in any state. Windows
   are tried from short to long.
3. Groups of operations that the model calls separable are dropped, in ever smaller lots, and then
   single operations that change nothing.

An operation that is under way where cut 1 or 2 is made may have happened on either side, so it is
*undecided*: one that changes the state counts as of unknown outcome, and one that does not is
dropped, since its answer may be about the other side.

Cut 3 is also tried without cut 2, from the initial state: that shows where a value came from, and
is preferred unless it needs more operations.

A cut that the budget does not allow is not made: the evidence is then larger, never wrong.
"""

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from jepsen_style.checkers.model import Effect, Model, State, Symbol
from jepsen_style.checkers.search import Outcome, Search
from jepsen_style.checkers.verdict import Evidence
from jepsen_style.operations import Operation, Status

MAX_MEMORY_BYTES = 1 << 28
FIRST_WINDOW = 4


def explain(
    operations: Sequence[Operation],
    model: Model,
    search: Search,
    *,
    key: Hashable,
    max_steps: int,
) -> Evidence:
    """The evidence of a search that found the operations of a key not linearizable."""
    whole = until(search.culprit, operations, model)
    shrinker = _Shrinker(model, max_steps // 2)
    case = shrinker.shrink(shrinker.begin_late(whole) or whole)
    shrinker = _Shrinker(model, max_steps // 2)
    from_the_beginning = shrinker.shrink(whole)
    if len(from_the_beginning.counted) <= len(case.counted) + 1:
        case = from_the_beginning
    final = _Shrinker(model, max_steps).refute(case) or search
    told = sorted(
        zip(case.originals, case.counted, strict=True), key=lambda pair: pair[0].t_invoke_ns
    )
    return Evidence(
        key=key,
        culprit=final.culprit,
        conflict=tuple(original for original, _ in told),
        counted=tuple(counted for _, counted in told),
        initial_state=None if case.from_any_state else model.describe_state(model.initial),
        possible_states=tuple(model.describe_state(state) for state in final.possible_states),
        remarks=tuple(model.remarks(final.culprit, operations)),
    )


def refutes_itself(
    operations: Sequence[Operation], model: Model, culprit: Operation, *, max_steps: int
) -> bool:
    """Whether a window that ends with the culprit is a contradiction whatever came before.

    If it is, so is the whole, and a search that is lost in what came before can be given up.
    """
    shrinker = _Shrinker(model, max_steps)
    return shrinker.begin_late(until(culprit, operations, model)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A part of a history: the operations as they were and, one for one, as they count here."""

    originals: list[Operation]
    counted: list[Operation]
    initial: State
    from_any_state: bool = False

    def without(self, indexes: AbstractSet[int]) -> "Case":
        kept = [index for index in range(len(self.counted)) if index not in indexes]
        return replace(
            self,
            originals=[self.originals[index] for index in kept],
            counted=[self.counted[index] for index in kept],
        )

    def with_undecided(self, indexes: AbstractSet[int], model: Model) -> "Case":
        """These may have happened on the other side of a cut."""
        symbols = model.encode(self.counted)
        counted = [
            _of_unknown_outcome(each) if index in indexes else each
            for index, each in enumerate(self.counted)
        ]
        unchanging = {index for index in indexes if _changes_nothing(model, symbols[index])}
        return replace(self, counted=counted).without(unchanging)


def until(culprit: Operation, operations: Sequence[Operation], model: Model) -> Case:
    """Cut 1: what was invoked before the culprit returned."""
    last_ns = culprit.t_return_ns or 0
    prefix = [
        each
        for each in operations
        if each.t_invoke_ns <= last_ns and each.status is not Status.FAIL
    ]
    case = Case(originals=prefix, counted=prefix, initial=model.initial)
    return case.with_undecided(
        {
            index
            for index, each in enumerate(prefix)
            if each.status is Status.OK and (each.t_return_ns or 0) > last_ns
        },
        model,
    )


def window(case: Case, start_ns: int, model: Model, anything: State) -> Case:
    """Cut 2: what can matter from a moment on, if nothing is known of the state at that moment."""
    late = replace(case, initial=anything, from_any_state=True).without(
        {
            index
            for index, each in enumerate(case.counted)
            if each.status is Status.OK and (each.t_return_ns or 0) < start_ns
        }
    )
    return late.with_undecided(
        {
            index
            for index, each in enumerate(late.counted)
            if each.status is Status.OK and each.t_invoke_ns < start_ns
        },
        model,
    )


class _Shrinker:
    """Makes cuts as long as the steps last."""

    def __init__(self, model: Model, max_steps: int) -> None:
        self._model = model
        self._steps_left = max_steps

    def refute(self, case: Case) -> Search | None:
        """The search that proves the case contradictory, or None if it is not or takes too long."""
        if self._steps_left <= 0:
            return None
        search = Search(case.counted, self._model, initial=case.initial)
        outcome = search.run(max_steps=self._steps_left, max_memory_bytes=MAX_MEMORY_BYTES)
        self._steps_left -= max(search.steps, len(case.counted))
        return search if outcome is Outcome.NOT_LINEARIZABLE else None

    def shrink(self, case: Case) -> Case:
        case = self.without_groups(case)
        case = self.without_unchanging(case)
        return self.without_groups(case)

    def begin_late(self, case: Case) -> Case | None:
        """A window at the end, twice as long each time, until it contradicts itself."""
        anything = self._model.anything
        if anything is None:
            return None
        starts = sorted({each.t_invoke_ns for each in case.counted})
        length = FIRST_WINDOW
        while length < 2 * len(starts):
            start_ns = starts[max(0, len(starts) - length)]
            late = window(case, start_ns, self._model, anything)
            if self.refute(late) is not None:
                return late
            length *= 2
        return None

    def without_groups(self, case: Case) -> Case:
        while True:
            groups = self._model.separable(case.counted)
            smaller = self._without(case, groups)
            if len(smaller.counted) == len(case.counted):
                return case
            case = smaller

    def without_unchanging(self, case: Case) -> Case:
        symbols = self._model.encode(case.counted)
        return self._without(
            case,
            [
                [index]
                for index, symbol in enumerate(symbols)
                if _changes_nothing(self._model, symbol)
            ],
        )

    def _without(self, case: Case, groups: list[list[int]]) -> Case:
        """Drop lots of groups: all at first, then halves, down to single ones."""
        dropped: set[int] = set()
        lot = len(groups)
        while lot:
            begin = 0
            while begin < len(groups) and self._steps_left > 0:
                trial = dropped.union(*groups[begin : begin + lot])
                if self.refute(case.without(trial)) is not None:
                    dropped = trial
                    del groups[begin : begin + lot]
                else:
                    begin += lot
            lot //= 2
        return case.without(dropped)


def _changes_nothing(model: Model, symbol: Symbol | None) -> bool:
    return symbol is None or model.effect(symbol) is Effect.PURE


def _of_unknown_outcome(operation: Operation) -> Operation:
    return replace(operation, status=Status.INFO, t_return_ns=None, output=None)
