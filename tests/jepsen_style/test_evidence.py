"""Evidence: what the checker shows is a contradiction of its own, small, and told in words."""

from random import Random

import pytest

from jepsen_style.checkers.linearizability import Budget, check
from jepsen_style.checkers.register import Register, check_register
from jepsen_style.checkers.verdict import Validity
from jepsen_style.operations import Status
from tests.jepsen_style.brute_force import is_linearizable
from tests.jepsen_style.simulated_register import linearizable_history, with_answer
from tests.jepsen_style.small_histories import op, small_histories
from tests.jepsen_style.sweeps import (
    MAX_BRUTE_FORCE,
    spoiled_histories,
    unproven_evidence,
    unsound_cuts,
)


def test_evidence_is_refuted_as_a_history_of_its_own() -> None:
    assert list(unproven_evidence()) == []


def test_cuts_leave_a_linearizable_history_linearizable() -> None:
    assert list(unsound_cuts()) == []


def test_spoiled_histories_have_evidence_of_every_kind() -> None:
    """Lest the tests above be true of nothing."""
    evidence = [
        verdict.evidence
        for verdict in map(check_register, spoiled_histories(200))
        if verdict.evidence is not None and len(verdict.evidence.counted) <= MAX_BRUTE_FORCE
    ]
    from_any_state = [each for each in evidence if each.initial_state is None]
    assert len(from_any_state) > 15
    assert len(evidence) - len(from_any_state) > 15
    assert sum(each.counted != each.conflict for each in evidence) > 5


def test_an_answer_given_after_the_culprit_returned_is_no_evidence() -> None:
    """It is explained by a write that was invoked later still, and that the evidence leaves out."""
    written = op("write", 0, 1, value=1)
    culprit = op("read", 3, 10, output=None)
    explained_later = [op("read", 5, 20, output=7), op("write", 12, 15, value=7)]
    verdict = check([written, culprit, *explained_later], Register())
    assert verdict.evidence is not None
    assert verdict.evidence.conflict == (written, culprit)
    assert verdict.evidence.counted == (written, culprit)


def test_a_cas_refused_after_the_culprit_returned_does_not_explain_the_culprit() -> None:
    """Were its outcome taken as unknown, it could have written the 2."""
    refused = op("cas", 2, 20, value=(1, 2), output=False)
    culprit = op("read", 3, 10, output=2)
    verdict = check([op("write", 0, 1, value=1), refused, culprit], Register())
    assert verdict.evidence is not None
    assert verdict.evidence.conflict == (culprit,)


def test_evidence_without_a_budget_is_larger_and_still_refuted() -> None:
    refuted = 0
    for history in small_histories(10, 900):
        evidence = check(history, Register(), budget=Budget(max_evidence_steps=0)).evidence
        if evidence is not None:
            refuted += 1
            assert evidence.culprit in evidence.counted
            assert not is_linearizable(evidence.counted)
    assert refuted > 100


def test_what_the_zones_refute_needs_no_budget() -> None:
    stale = [
        op("write", 0, 1, value=1),
        op("write", 2, 3, value=2),
        op("read", 4, 5, output=1),
    ]
    verdict = check_register(stale, budget=Budget(max_steps=0, max_memory_bytes=0))
    assert verdict.validity is Validity.INVALID
    assert verdict.evidence is not None
    assert verdict.evidence.culprit == stale[2]
    assert not is_linearizable(verdict.evidence.counted)


@pytest.mark.parametrize("seed", range(15))
def test_a_stale_read_is_refuted_with_a_short_conflict(seed: int) -> None:
    history = linearizable_history(
        Random(seed), operations=600, functions=("read", "write"), processes=4
    )
    reads = [i for i, each in enumerate(history) if each.f == "read" and each.status is Status.OK]
    target = reads[len(reads) * 3 // 4]
    begin = history[target].t_invoke_ns
    overwritten = [
        each
        for each in history
        if each.f == "write" and each.status is Status.OK and (each.t_return_ns or 0) < begin - 200
    ]
    stale = with_answer(history, target, overwritten[-1].value)
    by_zones, by_search = check_register(stale), check(stale, Register())
    assert by_zones.evidence is not None
    assert len(by_zones.evidence.conflict) <= 4
    assert by_search.evidence is not None
    assert len(by_search.evidence.conflict) <= 8


def test_evidence_tells_the_conflict_in_words() -> None:
    history = [
        op("write", 0, 1_000_000, value=1),
        op("write", 2_000_000, 3_000_000, value=2),
        *(op("read", 3_000_001 + i, 3_500_000 + i, output=2) for i in range(20)),
        op("read", 4_000_000, 5_000_000, output=1),
    ]
    verdict = check_register(history)
    assert verdict.evidence is not None
    assert [each.f for each in verdict.evidence.conflict] == ["write", "write", "read"]
    text = verdict.describe()
    assert "write 2, ok [2.000000 ms to 3.000000 ms]" in text
    assert "read returned 1 [4.000000 ms to 5.000000 ms]" in text
    assert "without it the state could be: 2" in text
    assert "the initial state was None" in text


def test_evidence_names_the_key() -> None:
    history = [
        op("write", 0, 1, value=1, key="a"),
        op("read", 2, 3, output=1, key="a"),
        op("read", 2, 3, output=1, key="b"),
    ]
    evidence = check_register(history).evidence
    assert evidence is not None
    assert evidence.key == "b"
