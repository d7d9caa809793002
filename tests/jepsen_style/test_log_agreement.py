"""The log checker and the brute-force search say the same, of every model, in both directions."""

from collections import Counter

import pytest

from jepsen_style.checkers.log import check_log
from jepsen_style.checkers.log_history import LogModel
from jepsen_style.checkers.log_verdict import LogAnomaly
from tests.jepsen_style.log_brute_force import fewest_lost
from tests.jepsen_style.log_histories import small_histories
from tests.jepsen_style.log_sweeps import cases, few_cases, unproven_evidence, wrong_verdicts


@pytest.mark.parametrize("seed", range(5))
def test_verdicts_agree_with_brute_force(seed: int) -> None:
    assert list(wrong_verdicts(cases(seed, 1_100))) == []


def test_verdicts_agree_with_brute_force_on_the_cases_that_mutants_die_of() -> None:
    assert list(wrong_verdicts(few_cases())) == []


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 180))
def test_verdicts_agree_with_brute_force_for_long(seed: int) -> None:
    assert list(wrong_verdicts(cases(seed, 1_100))) == []


def test_evidence_is_a_contradiction_of_its_own() -> None:
    assert list(unproven_evidence(few_cases())) == []


def test_a_log_that_behaves_is_never_refuted() -> None:
    simulated = [case for case in few_cases() if case.is_simulated]
    assert len(simulated) >= 1_500
    assert all(case.is_explained for case in simulated)


def test_small_histories_have_every_anomaly_many_times() -> None:
    """Lest the tests above be true of nothing."""
    found: Counter[tuple[LogModel, LogAnomaly]] = Counter()
    for case in few_cases():
        verdict = check_log(case.history, case.model, compacted=case.compacted)
        found.update((case.model, each.anomaly) for each in verdict.evidence)
    for anomaly in LogAnomaly:
        assert sum(found[model, anomaly] for model in LogModel) >= 10, anomaly
    refuted = sum(not case.is_explained for case in few_cases())
    assert len(few_cases()) // 5 < refuted < len(few_cases()) * 4 // 5


def test_no_more_losses_are_counted_than_the_kindest_order_has() -> None:
    """A final read settles a loss by definition only, so histories with one are left out."""
    counted = 0
    for history in small_histories(21, 3_000, LogModel.ACKS1):
        verdict = check_log(history, LogModel.ACKS1)
        if verdict.valid and not any(each.f == "final_read" for each in history):
            counted += verdict.lost
            assert verdict.lost <= fewest_lost(history, LogModel.ACKS1)
    assert counted > 20
