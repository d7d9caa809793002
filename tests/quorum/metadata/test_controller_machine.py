"""The controller keeps its promises in every life that Hypothesis thinks of."""

from hypothesis import HealthCheck, settings

from tests.quorum.metadata.controller_machine import ControllerMachine

TestController = ControllerMachine.TestCase
TestController.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
