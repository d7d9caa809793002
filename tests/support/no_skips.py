"""Under `REQUIRE_ALL=1` a skipped test fails, unless it is on the list of allowed skips.

A test that skips on the machine that is meant to run everything is a test nobody runs.
"""

from collections.abc import Generator, Mapping

import pytest


class NoSkips:
    """A plugin that turns skips into failures where they happen, so it works under xdist too."""

    def __init__(self, allowed: Mapping[str, str]) -> None:
        self._allowed = allowed

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._judge(report)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        self._judge(report)
        return report

    def _judge(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        expected_failure = hasattr(report, "wasxfail")  # pytest reports it as skipped
        if report.skipped and not expected_failure and not is_allowed(report.nodeid, self._allowed):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            report.outcome = "failed"
            report.longrepr = f"REQUIRE_ALL=1 allows no skip of {report.nodeid}: {reason}"


def is_allowed(node_id: str, allowed: Mapping[str, str]) -> bool:
    return any(
        node_id == key
        or (node_id.startswith(key) and (key.endswith("/") or node_id[len(key)] in "/:["))
        for key in allowed
    )
