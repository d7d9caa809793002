"""The phases of a test run: times per area, and phases that have no tests yet.

`make test` runs pytest twice (what can run in parallel, then the live tests) and wants one table
at the end, so each run appends what it saw to a file. `tests.support.times_report` prints it.
"""

import json
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

FOUNDATIONS = "foundations"
AREAS = ("wire", "log", "quorum", "broker", "admin", "groups", "spark", "verify")
_AREA_OF_FOLDER = {"jepsen_style": "verify"}

# Phases that select by a marker: a run without tests is fine as long as none carries it.
_MARKER_OF_PHASE = {"live": "live", "soak": "soak"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("floodmark")
    group.addoption("--phase", default="all", help="name of this run in the table of times")
    group.addoption("--times-file", type=Path, help="append the times of this run to this file")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the controller of xdist sees every report
        config.pluginmanager.register(_Phase(config), "floodmark_phase")


def area_of(node_id: str) -> str:
    parts = Path(node_id.partition("::")[0]).parts
    folder = parts[1] if len(parts) > 2 and parts[0] == "tests" else ""
    area = _AREA_OF_FOLDER.get(folder, folder)
    return area if area in AREAS else FOUNDATIONS


class _Phase:
    def __init__(self, config: pytest.Config) -> None:
        self._name: str = config.getoption("--phase")
        self._file: Path | None = config.getoption("--times-file")
        self._workers = int(config.getoption("numprocesses", default=None) or 1)
        self._started = time.perf_counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: Counter[str] = Counter()
        self._marked = 0

    @pytest.hookimpl(tryfirst=True)  # before -m deselects
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        marker = _MARKER_OF_PHASE.get(self._name)
        for item in items:
            excluded = marker == "live" and item.get_closest_marker("soak") is not None
            if marker and item.get_closest_marker(marker) is not None and not excluded:
                self._marked += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        area = area_of(report.nodeid)
        self._seconds[area] += report.duration
        self._tests[area] += report.when == "call"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        nothing_ran = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if nothing_ran and self._name in _MARKER_OF_PHASE and self._marked == 0:
            session.exitstatus = pytest.ExitCode.OK
        if self._file is not None:
            self._append(self._file)

    def _append(self, file: Path) -> None:
        phases = json.loads(file.read_text()) if file.exists() else []
        areas = {
            area: {"tests": self._tests[area], "seconds": self._seconds[area]}
            for area in sorted(self._seconds)
        }
        wall = time.perf_counter() - self._started
        phases.append(
            {"phase": self._name, "workers": self._workers, "wall_s": wall, "areas": areas}
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(phases, indent=2))
