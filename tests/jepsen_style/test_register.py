"""The register checker: agrees with the definition, refutes what is spoiled, and says why."""

from collections import Counter
from collections.abc import Hashable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepsen_style.checkers import linearizability
from jepsen_style.checkers.evidence import refutes_itself
from jepsen_style.checkers.linearizability import Budget, check
from jepsen_style.checkers.model import Model
from jepsen_style.checkers.register import Register, check_register
from jepsen_style.checkers.verdict import Validity
from jepsen_style.checkers.zones import judge_zones
from jepsen_style.operations import Operation, Status
from tests.jepsen_style.brute_force import is_linearizable
from tests.jepsen_style.simulated_register import linearizable_history, with_answer
from tests.jepsen_style.small_histories import op
from tests.jepsen_style.sweeps import wrong_verdicts, wrong_verdicts_in_slices


@st.composite
def operations(draw: st.DrawFn, functions: tuple[str, ...] = ("read", "write", "cas")) -> Operation:
    f = draw(st.sampled_from(functions))
    small = st.integers(0, 2)
    begin = draw(st.integers(0, 12))
    end = draw(st.one_of(st.none(), st.integers(begin, 13)))
    value: Hashable = {"read": None, "write": draw(small), "cas": (draw(small), draw(small))}[f]
    answers: dict[str, Hashable] = {
        "read": draw(st.one_of(st.none(), small)),
        "write": None,
        "cas": draw(st.booleans()),
    }
    return op(f, begin, end, value=value, output=None if end is None else answers[f])


@settings(max_examples=150)
@given(st.lists(operations(), max_size=6))
def test_search_agrees_with_the_definition(history: list[Operation]) -> None:
    assert check(history, Register()).valid == is_linearizable(history)


def test_search_agrees_with_the_definition_on_thousands_of_histories() -> None:
    assert list(wrong_verdicts()) == []


def test_search_helped_by_windows_agrees_with_the_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided = 0

    def counted(
        operations: Sequence[Operation], model: Model, culprit: Operation, *, max_steps: int
    ) -> bool:
        nonlocal decided
        refuted = refutes_itself(operations, model, culprit, max_steps=max_steps)
        decided += refuted
        return refuted

    monkeypatch.setattr(linearizability, "refutes_itself", counted)
    assert list(wrong_verdicts_in_slices()) == []
    assert decided > 300


@settings(max_examples=150)
@given(st.lists(operations(("read", "write")), max_size=6))
def test_zones_agree_with_the_definition_where_they_apply(history: list[Operation]) -> None:
    zones = judge_zones(history, None)
    if zones is not None:
        assert zones.is_linearizable == is_linearizable(history)


def test_zones_agree_with_the_definition_on_thousands_of_histories() -> None:
    judged: Counter[bool] = Counter()
    for seed in range(2_000):
        random = Random(seed)
        history = linearizable_history(
            random, operations=8, processes=3, functions=("read", "write"), unknown_rate=0.2
        )
        told = [index for index, each in enumerate(history) if each.f == "read"]
        if told:  # half of them still valid: a value read at random may be the right one
            known = (None, *(each.value for each in history if each.f == "write"))
            history = with_answer(history, random.choice(told), random.choice(known))
        zones = judge_zones(history, None)
        assert zones is not None
        assert zones.is_linearizable == is_linearizable(history), seed
        assert zones.is_linearizable or not is_linearizable(zones.conflict), seed
        judged[zones.is_linearizable] += 1
    assert min(judged[True], judged[False]) > 300


@pytest.mark.parametrize("values", [None, 4])
@pytest.mark.parametrize("seed", range(15))
def test_what_a_register_does_is_valid(seed: int, values: int | None) -> None:
    history = linearizable_history(Random(seed), operations=400, keys=2, values=values)
    assert check_register(history).validity is Validity.VALID


def test_a_lost_write_is_refuted() -> None:
    verdict = check_register([op("write", 0, 1, value=7), op("read", 2, 3, output=None)])
    assert verdict.validity is Validity.INVALID


def test_a_cas_that_swaps_twice_is_refuted() -> None:
    history = [
        op("write", 0, 1, value=1),
        op("cas", 2, 3, value=(1, 2), output=True),
        op("cas", 4, 5, value=(1, 3), output=True),
    ]
    assert check_register(history).validity is Validity.INVALID


def test_a_failed_write_never_happened_and_an_unknown_one_may_happen_late() -> None:
    read_late = op("read", 50, 51, output=7)
    failed = op("write", 0, 1, value=7, status=Status.FAIL)
    assert check_register([failed, read_late]).validity is Validity.INVALID
    unknown = op("write", 0, None, value=7)
    early = op("read", 10, 11, output=None)
    assert check_register([unknown, early, read_late]).valid
    back = op("read", 60, 61, output=None)
    assert check_register([unknown, early, read_late, back]).validity is Validity.INVALID


def test_equal_times_are_concurrent() -> None:
    assert check_register([op("write", 0, 5, value=1), op("read", 5, 6, output=None)]).valid


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(max_steps=50), "out of steps"),
        (Budget(max_memory_bytes=5_000), "out of memory"),
    ],
)
def test_a_check_out_of_budget_is_unknown_and_says_why(budget: Budget, reason: str) -> None:
    history = linearizable_history(Random(1), operations=500, values=4)
    verdict = check_register(history, budget=budget)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.reason is not None
    assert reason in verdict.reason


def test_unknown_writes_that_nobody_saw_cost_nothing() -> None:
    seen = linearizable_history(Random(2), operations=1_000, unknown_rate=0.0, values=4)
    without_refusals = [each for each in seen if each.output is not False]
    unseen = [op("write", at, None, value=f"unseen {at}", key=0) for at in range(500)]
    alone = check(without_refusals, Register())
    together = check([*unseen, *without_refusals], Register())
    assert alone.valid
    assert together.valid
    assert together.steps == alone.steps


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(ValueError, match="not an operation of a register"):
        check_register([op("append", 0, 1, value=1), op("cas", 0, 1, value=(1, 2), output=True)])
