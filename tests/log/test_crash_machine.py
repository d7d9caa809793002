"""The log against its model, thousands of times; the machine is in `tests.log.crash_machine`."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.log.crash_machine import CrashMachine

EXAMPLES = 1000
SOAK_EXAMPLES = 50_000

MACHINE_SETTINGS = settings(
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("part", [1, 2], ids=["first", "second"])
def test_log_agrees_with_its_model_whenever_the_power_fails(part: int) -> None:
    """Two halves, so that two workers share the time: each draws examples of its own."""
    run_state_machine_as_test(
        CrashMachine, settings=settings(MACHINE_SETTINGS, max_examples=EXAMPLES)
    )


@pytest.mark.soak
def test_log_agrees_with_its_model_for_long() -> None:
    run_state_machine_as_test(
        CrashMachine, settings=settings(MACHINE_SETTINGS, max_examples=SOAK_EXAMPLES)
    )
