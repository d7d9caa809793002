"""What every test runs under: no silent skips, times per area, hypothesis without a clock."""

import os

import pytest
from hypothesis import settings

from tests.skips import ALLOWED_SKIPS
from tests.support.no_skips import NoSkips

pytest_plugins = ["pytester", "tests.support.phases"]

# No deadline: a test never fails because the machine was busy. The blob replays a failure.
settings.register_profile("floodmark", deadline=None, print_blob=True)
settings.load_profile("floodmark")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("REQUIRE_ALL") == "1":
        config.pluginmanager.register(NoSkips(ALLOWED_SKIPS), "no_skips")
