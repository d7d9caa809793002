"""The sweeps find nothing wrong with the checker, and something wrong with every mutant of it."""

from collections.abc import Callable, Hashable, Iterator, Sequence

import pytest

from jepsen_style.checkers import evidence, linearizability, search
from jepsen_style.checkers.evidence import Case
from jepsen_style.checkers.model import Effect
from jepsen_style.checkers.register import Register
from jepsen_style.operations import Operation, Status
from tests.jepsen_style.sweeps import (
    unproven_evidence,
    unsound_cuts,
    wrong_verdicts,
    wrong_verdicts_in_slices,
)

Plant = Callable[[pytest.MonkeyPatch], None]
Sweep = Callable[[], Iterator[str]]


def memo_forgets_the_state(patch: pytest.MonkeyPatch) -> None:
    true = search.Search._is_new
    patch.setattr(
        search.Search, "_is_new", lambda self, key, used: true(self, (key[0], key[1], 0), used)
    )


def unknown_outcomes_never_happened(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(search.Search, "_unknown_outcomes", lambda _: [])


def writes_are_pure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Register, "effect", lambda *_: Effect.PURE)


def everything_is_blind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Register, "effect", lambda *_: Effect.BLIND)


def any_use_of_unknown_outcomes_dominates_any_other(patch: pytest.MonkeyPatch) -> None:
    true = search.Search._lay_out_counts

    def lay_out_counts(self: search.Search) -> None:
        true(self)
        self._guards = 0

    patch.setattr(search.Search, "_lay_out_counts", lay_out_counts)


def reads_are_always_legal(patch: pytest.MonkeyPatch) -> None:
    true = Register.step
    patch.setattr(
        Register,
        "step",
        lambda self, state, symbol: state if symbol[0] == "read" else true(self, state, symbol),
    )


def unknown_outcomes_are_dropped(patch: pytest.MonkeyPatch) -> None:
    def by_key(operations: list[Operation]) -> dict[Hashable, list[Operation]]:
        return {None: [each for each in operations if each.status is Status.OK]}

    patch.setattr(linearizability, "by_key", by_key)


def what_is_under_way_at_a_cut_keeps_its_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Case, "with_undecided", lambda self, *_: self)


def what_is_under_way_at_a_cut_never_happened(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Case, "with_undecided", lambda self, indexes, _: self.without(indexes))


def a_refused_cas_under_way_at_a_cut_may_have_swapped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evidence, "_changes_nothing", lambda _, symbol: symbol is None)


def windows_begin_with_a_known_value(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Register, "anything", property(lambda _: 0))


def every_operation_is_separable(patch: pytest.MonkeyPatch) -> None:
    def separable(_: Register, operations: Sequence[Operation]) -> list[list[int]]:
        return [[index] for index in range(len(operations))]

    patch.setattr(Register, "separable", separable)


def refused_cas_do_not_matter_to_groups(patch: pytest.MonkeyPatch) -> None:
    true = Register.separable

    def separable(self: Register, operations: Sequence[Operation]) -> list[list[int]]:
        rest = [
            index
            for index, each in enumerate(operations)
            if not (each.f == "cas" and each.output is False)
        ]
        groups = true(self, [operations[index] for index in rest])
        return [[rest[index] for index in group] for group in groups]

    patch.setattr(Register, "separable", separable)


MUTANTS: list[tuple[Plant, Sweep]] = [
    (memo_forgets_the_state, wrong_verdicts),
    (unknown_outcomes_never_happened, wrong_verdicts),
    (writes_are_pure, wrong_verdicts),
    (everything_is_blind, wrong_verdicts),
    (any_use_of_unknown_outcomes_dominates_any_other, wrong_verdicts),
    (reads_are_always_legal, wrong_verdicts),
    (unknown_outcomes_are_dropped, wrong_verdicts),
    (what_is_under_way_at_a_cut_keeps_its_answer, unsound_cuts),
    (what_is_under_way_at_a_cut_keeps_its_answer, wrong_verdicts_in_slices),
    (what_is_under_way_at_a_cut_never_happened, unsound_cuts),
    (what_is_under_way_at_a_cut_never_happened, wrong_verdicts_in_slices),
    (windows_begin_with_a_known_value, wrong_verdicts_in_slices),
    (windows_begin_with_a_known_value, unproven_evidence),
    (every_operation_is_separable, unsound_cuts),
    (refused_cas_do_not_matter_to_groups, unsound_cuts),
    (a_refused_cas_under_way_at_a_cut_may_have_swapped, unproven_evidence),
]


@pytest.mark.parametrize(("plant", "sweep"), MUTANTS, ids=lambda function: function.__name__)
def test_mutant_dies(plant: Plant, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert next(sweep(), None) is not None
