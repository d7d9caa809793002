"""Voters on the real engine in a simulated world: a thousand seeds, and bugs that must show.

A failing seed prints its number; `run_seed(NUMBER)` tells the same story again.
"""

import hashlib
import os
import subprocess
import sys

import pytest

from jepsen_style.sim.quorum_faults import run_seed
from jepsen_style.sim.world import Violation
from tests.quorum.raft.mutants import MUTANTS, Mutant
from tests.support.repository import ROOT

SEEDS = 1000
CHUNK = 25
SEEDS_TO_KILL = 150
SOAK_SEEDS = 20_000


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_no_promise_is_broken_in_any_seed(first: int) -> None:
    acknowledged = crashes = 0
    for seed in range(first, first + CHUNK):
        counts = _run(seed)
        acknowledged += counts["acknowledged"]
        crashes += counts["crashes"]
    assert acknowledged > 100 * CHUNK // 2, "the quorum hardly worked: nothing was tested"
    assert crashes > CHUNK


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS + 1, SEEDS + SOAK_SEEDS, 1000))
def test_no_promise_is_broken_for_long(first: int) -> None:
    for seed in range(first, first + 1000):
        _run(seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found_by_a_named_invariant(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The true code passes the same seeds: they are the first of the thousand above."""
    mutant.plant(monkeypatch)
    violation = next(filter(None, map(_violation, range(1, SEEDS_TO_KILL + 1))), None)
    assert violation is not None, f"it survived {SEEDS_TO_KILL} seeds"
    assert violation.invariant in mutant.caught_by, str(violation)


def test_a_seed_tells_the_same_story_under_any_hash_seed() -> None:
    stories = {
        subprocess.run(
            [sys.executable, "-c", f"import {__name__} as t; print(t.story_of(3), t.story_of(5))"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1", "4711")
    }
    assert len(stories) == 1


def story_of(seed: int) -> str:
    story = "\n".join(run_seed(seed).world.story)
    return hashlib.sha256(story.encode()).hexdigest()


def _violation(seed: int) -> Violation | None:
    try:
        run_seed(seed)
    except Violation as violation:
        return violation
    return None


def _run(seed: int) -> dict[str, int]:
    try:
        return run_seed(seed).counts
    except Violation as violation:
        pytest.fail(str(violation), pytrace=False)
