"""The phases of `make test`: exit codes of empty phases, and the table of times."""

import json

import pytest

from tests.support.phases import area_of
from tests.support.repository import ROOT
from tests.support.times_report import BUDGETS_S, Phase, report

CONFTEST = 'pytest_plugins = ["tests.support.phases"]\n'
INI = "[pytest]\nmarkers =\n    live\n    soak\n"
ONE = "def test_one(): pass\n"
LIVE = "import pytest\n@pytest.mark.live\ndef test_live(): pass\n"
SOAK = "import pytest\n@pytest.mark.live\n@pytest.mark.soak\ndef test_soak(): pass\n"
LIVE_PHASE = ("--phase", "live", "-m", "live and not soak")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    return pytester


def test_live_phase_without_live_tests_is_fine(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=ONE, test_soak=SOAK)
    assert project.runpytest_subprocess(*LIVE_PHASE).ret == pytest.ExitCode.OK


def test_live_phase_that_runs_none_of_its_tests_fails(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=LIVE)
    done = project.runpytest_subprocess(*LIVE_PHASE, "-k", "no_such_test")
    assert done.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_live_phase_with_a_broken_module_fails(project: pytest.Pytester) -> None:
    project.makepyfile(test_it="import no_such_module")
    assert project.runpytest_subprocess(*LIVE_PHASE).ret == pytest.ExitCode.INTERRUPTED


def test_other_phases_without_tests_fail(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=ONE)
    done = project.runpytest_subprocess("--phase", "parallel", "-m", "live")
    assert done.ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("workers", [0, 2])
def test_phases_add_up_in_one_file(project: pytest.Pytester, workers: int) -> None:
    (project.path / "tests" / "wire").mkdir(parents=True)
    (project.path / "tests" / "wire" / "test_a.py").write_text(ONE)
    (project.path / "tests" / "test_b.py").write_text(LIVE)
    times = ("--times-file", "build/times.json")
    project.runpytest_subprocess(*times, "--phase", "parallel", "-n", str(workers), "-m not live")
    project.runpytest_subprocess(*times, *LIVE_PHASE)
    parallel, live = json.loads((project.path / "build" / "times.json").read_text())
    assert (parallel["phase"], parallel["workers"]) == ("parallel", workers or 1)
    assert {area: times["tests"] for area, times in parallel["areas"].items()} == {"wire": 1}
    assert {area: times["tests"] for area, times in live["areas"].items()} == {"foundations": 1}
    assert live["wall_s"] > 0


@pytest.mark.parametrize(
    ("node_id", "area"),
    [
        ("tests/wire/test_a.py::test_b", "wire"),
        ("tests/wire/deep/test_a.py::test_b[x/y::z]", "wire"),
        ("tests/foundations/test_a.py::test_b", "foundations"),
        ("tests/jepsen_style/test_a.py::test_b", "verify"),
        ("tests/test_a.py::test_b", "foundations"),
        ("wire/test_a.py::test_b", "foundations"),
    ],
)
def test_area_is_the_directory(node_id: str, area: str) -> None:
    assert area_of(node_id) == area


def test_report_shows_times_against_budgets_and_marks_the_slow() -> None:
    slow = BUDGETS_S["log"] * 2.0 + 10
    phases: list[Phase] = [
        {
            "phase": "parallel",
            "workers": 2,
            "wall_s": 100.0,
            "areas": {
                "wire": {"tests": 7, "seconds": 20.0},
                "log": {"tests": 1, "seconds": slow},
            },
        },
        {
            "phase": "live",
            "workers": 1,
            "wall_s": 5.0,
            "areas": {"wire": {"tests": 1, "seconds": 5}},
        },
    ]
    lines = {line.split()[0]: line for line in report(phases).splitlines()}
    assert lines["wire"].split() == ["wire", "8", "25.0", "15.0", "60"]
    assert lines["log"].endswith("over")
    assert "phase live: 5.0 s" in report(phases)
