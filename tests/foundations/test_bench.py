"""The benchmark harness: what it records and what it judges. Nothing here asserts a time."""

import json
from pathlib import Path

import pytest

from bench.harness import Limit, Ratio, Speedup, Suite, python_ms
from bench.tables import TableError, generate
from bench.timing import Clock, Effort, Spread, interleave

TINY = Effort(rounds=3, sample_ms=0.05)
PAGE = "# Page\n<!-- bench:demo -->\nold\n<!-- /bench:demo -->\nend\n"


def fast() -> int:
    return 1


def slow() -> int:
    return sum(range(2000))


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite("demo", arguments=[], effort=TINY, results_dir=tmp_path)


def test_rounds_interleave_and_rotate() -> None:
    calls: list[str] = []
    one_loop = Effort(rounds=3, sample_ms=0.0)
    candidates = {name: lambda name=name: calls.append(name) for name in "abc"}
    samples = interleave(candidates, effort=one_loop, clock=Clock.WALL)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab"  # warm-up, then three rounds
    assert {name: len(values) for name, values in samples.items()} == {"a": 3, "b": 3, "c": 3}


def test_ratio_is_our_time_by_the_peers(suite: Suite) -> None:
    result = suite.compare("x", ours=fast, peers={"peer": slow})
    assert result["ratios"]["peer"]["median"] < 1


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (Ratio(at_most=1000.0, peer="slow"), True),
        (Ratio(at_most=0.0, peer="slow"), False),
        (Speedup(at_least=0.0, peer="slow"), True),
        (Speedup(at_least=1e9, peer="slow"), False),
        (None, None),
    ],
)
def test_targets_are_judged_and_missed_ones_fail(
    suite: Suite, target: Ratio | Speedup | None, met: bool | None
) -> None:
    assert suite.compare("x", ours=fast, peers={"slow": slow}, target=target)["met"] is met
    assert suite.finish() == (1 if met is False else 0)


def test_without_a_peer_the_target_means_the_fastest(suite: Suite) -> None:
    result = suite.compare(
        "x", ours=fast, peers={"slow": slow, "fast": fast}, target=Ratio(at_most=1000.0)
    )
    assert result["target"] == "at most 1000x the time of fast"


def test_target_against_an_unknown_peer_is_refused(suite: Suite) -> None:
    with pytest.raises(ValueError, match="not compared"):
        suite.compare("x", ours=fast, peers={"slow": slow}, target=Ratio(at_most=1.0, peer="kio"))


def test_limit_is_shown_and_not_judged(suite: Suite) -> None:
    result = suite.measure("import", python_ms("pass"), target=Limit(at_most=-1.0))
    assert result["met"] is False
    assert suite.finish() == 0


def test_results_hold_all_it_takes_to_judge_them(suite: Suite, tmp_path: Path) -> None:
    suite.compare("x", ours=fast, peers={"pytest": slow}, target=Speedup(at_least=1.0))
    suite.measure("number", lambda: 4.5, unit="MB")
    suite.finish()
    written = json.loads((tmp_path / "demo.json").read_text())
    assert written["command"] == "python -m bench.demo"
    assert written["commit"]
    assert written["peers"] == {"pytest": pytest.__version__}
    assert set(written["machine"]) == {"cpu", "cores", "system", "python"}
    assert written["comparisons"][0]["samples_ns"].keys() == {"floodmark", "pytest"}
    assert len(written["comparisons"][0]["samples_ns"]["pytest"]) == TINY.rounds
    assert written["measurements"][0]["value"]["median"] == 4.5


def test_quick_run_writes_nothing(tmp_path: Path) -> None:
    suite = Suite("demo", arguments=["--quick"], results_dir=tmp_path)
    suite.compare("x", ours=fast, peers={"slow": slow})
    suite.finish()
    assert list(tmp_path.iterdir()) == []


def test_table_is_generated_between_its_markers(suite: Suite, tmp_path: Path) -> None:
    suite.compare("decode", ours=fast, peers={"slow": slow}, target=Ratio(at_most=1000.0))
    suite.finish()
    page = generate(PAGE, tmp_path)
    assert page.startswith("# Page\n<!-- bench:demo -->\n`python -m bench.demo`")
    assert "| decode |" in page
    assert page.endswith("<!-- /bench:demo -->\nend\n")
    assert generate(page, tmp_path) == page


def test_table_without_results_says_so(tmp_path: Path) -> None:
    assert "Not measured yet." in generate(PAGE, tmp_path)


def test_results_without_a_table_are_an_error(suite: Suite, tmp_path: Path) -> None:
    suite.finish()
    with pytest.raises(TableError, match="bench:demo"):
        generate("# Page without markers\n", tmp_path)


def test_spread_is_median_and_quartiles() -> None:
    assert Spread.of([1, 2, 3, 4, 100]) == Spread(median=3, q1=2, q3=4)
    assert Spread.of([7]) == Spread(median=7, q1=7, q3=7)
