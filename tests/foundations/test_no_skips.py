"""`REQUIRE_ALL=1` fails on a skip that is not allowed, and on nothing else."""

import pytest

from tests.support.external import require_program
from tests.support.no_skips import is_allowed
from tests.support.repository import ROOT

TESTS = """
import pytest

def test_passes():
    pass

def test_skips():
    pytest.skip("kcat is not here")

@pytest.mark.skipif(True, reason="marked")
def test_is_marked():
    pass

@pytest.mark.xfail(reason="known", strict=True)
def test_expected_failure():
    assert False
"""

CONFTEST = """
from tests.support.no_skips import NoSkips

def pytest_configure(config):
    config.pluginmanager.register(NoSkips({allowed!r}))
"""

BOTH = {"test_it.py::test_skips": "no kcat", "test_it.py::test_is_marked": "why not"}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_it=TESTS)
    return pytester


@pytest.mark.parametrize("workers", ["0", "2"])
def test_skip_that_is_not_allowed_fails_the_run(project: pytest.Pytester, workers: str) -> None:
    project.makeconftest(CONFTEST.format(allowed={}))
    result = project.runpytest_subprocess("-n", workers)
    result.assert_outcomes(passed=1, failed=1, errors=1, xfailed=1)
    result.stdout.fnmatch_lines(["*REQUIRE_ALL=1 allows no skip of *test_skips*kcat is not here*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_allowed_skip_passes(project: pytest.Pytester) -> None:
    project.makeconftest(CONFTEST.format(allowed=BOTH))
    result = project.runpytest_subprocess()
    result.assert_outcomes(passed=1, skipped=2, xfailed=1)
    assert result.ret == pytest.ExitCode.OK


def test_module_that_skips_itself_fails_the_run(project: pytest.Pytester) -> None:
    project.makeconftest(CONFTEST.format(allowed=BOTH))
    project.makepyfile(test_other="import pytest; pytest.importorskip('no_such_module')")
    result = project.runpytest_subprocess()
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*REQUIRE_ALL=1 allows no skip of test_other.py*"])


def test_prefix_ends_where_a_name_ends() -> None:
    allowed = {"tests/wire/test_a.py::test_b": "reason", "tests/spark/": "reason"}
    assert is_allowed("tests/wire/test_a.py::test_b", allowed)
    assert is_allowed("tests/wire/test_a.py::test_b[1]", allowed)
    assert is_allowed("tests/spark/test_x.py::test_y", allowed)
    assert not is_allowed("tests/wire/test_a.py::test_bc", allowed)
    assert not is_allowed("tests/wire/test_a.py", allowed)


def test_missing_program_is_a_skip_that_says_what_to_install() -> None:
    with pytest.raises(pytest.skip.Exception, match="apt-get install the-package"):
        require_program("no-such-program", debian="the-package")


def test_program_on_the_path_is_found() -> None:
    assert require_program("sh").is_file()
