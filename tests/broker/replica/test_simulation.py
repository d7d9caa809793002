"""The true code keeps its promises in every seed, and each planted bug breaks a named one."""

import pytest

from jepsen_style.sim.world import Violation
from tests.broker.replica.mutants import MUTANTS, Mutant
from tests.broker.replica.simulation import Simulation

SEEDS = range(80)
BLOCK = 10


def simulate(seed: int) -> Simulation:
    simulation = Simulation(seed)
    try:
        simulation.run()
    except BaseException:
        print(f"seed {seed}; its story ends so:", *simulation.world.story[-40:], sep="\n")
        raise
    return simulation


@pytest.mark.parametrize("first", SEEDS[::BLOCK])
def test_promises_hold_under_faults(first: int) -> None:
    done = [simulate(seed) for seed in range(first, first + BLOCK)]
    # Otherwise nothing was put to the test.
    assert sum(simulation.judge.acknowledged for simulation in done) > 50 * BLOCK
    assert sum(simulation.judge.reads for simulation in done) > 50 * BLOCK
    assert sum(len(simulation.judge.leaders) for simulation in done) > 2 * BLOCK


def test_same_seed_tells_the_same_story() -> None:
    assert simulate(5).world.story == simulate(5).world.story


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bug_dies_by_its_invariant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The true code passes the seeds of every mutant: without the mutant they run here too."""
    simulate(mutant.seed)
    mutant.plant(monkeypatch)
    with pytest.raises(Violation) as caught:
        Simulation(mutant.seed).run()
    assert caught.value.invariant in mutant.dies_by
