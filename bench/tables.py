"""The tables in `docs/benchmarks.md`, generated from `bench/results/*.json`.

A table stands between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`. `python -m bench.tables`
writes them; a test fails if they differ from what the results give.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.results import OURS, RESULTS_DIR, ROOT, Comparison, Measurement, Results

PAGE = ROOT / "docs" / "benchmarks.md"
_MARKED = re.compile(
    r"(?P<open><!-- bench:(?P<name>[a-z0-9_]+) -->\n).*?(?P<close><!-- /bench:(?P=name) -->)",
    re.DOTALL,
)
_NOT_MEASURED = "Not measured yet.\n"


class TableError(Exception):
    """Results and markers do not belong together."""


def generate(page: str, results_dir: Path = RESULTS_DIR) -> str:
    """The page with every marked table replaced by what the results give."""
    results = {file.stem: Results.read(file) for file in sorted(results_dir.glob("*.json"))}
    marked = {found["name"] for found in _MARKED.finditer(page)}
    unmarked = sorted(results.keys() - marked)
    if unmarked:
        raise TableError(f"{PAGE.name} has no <!-- bench:{unmarked[0]} --> marker")

    def replace(found: re.Match[str]) -> str:
        name = found["name"]
        body = render_table(results[name]) if name in results else _NOT_MEASURED
        return f"{found['open']}{body}{found['close']}"

    return _MARKED.sub(replace, page)


def render_table(results: Results) -> str:
    """One results file as Markdown."""
    machine = results.machine
    state = " with uncommitted changes" if results.dirty else ""
    peers = ", ".join(f"{name} {version}" for name, version in sorted(results.peers.items()))
    lines = [
        f"`{results.command}` at {results.commit[:12]}{state}, {results.date}; {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['python']}" + (f"; {peers}." if peers else "."),
        "",
    ]
    if results.comparisons:
        lines += [
            "| what | ours | peers | ratio to each peer (quartiles) | target | met |",
            "|---|---:|---:|---:|---|---|",
            *map(_comparison_row, results.comparisons),
            "",
        ]
    if results.measurements:
        lines += [
            "| what | median (quartiles) | target | met |",
            "|---|---:|---|---|",
            *map(_measurement_row, results.measurements),
            "",
        ]
    return "\n".join(lines)


def _comparison_row(item: Comparison) -> str:
    peers = "<br>".join(
        f"{name} {_duration(times['median'])}"
        for name, times in item["times_ns"].items()
        if name != OURS
    )
    ratios = "<br>".join(_spread(numbers) for numbers in item["ratios"].values())
    own = _duration(item["times_ns"][OURS]["median"])
    return f"| {item['label']} | {own} | {peers} | {ratios} | {_target(item)} |"


def _measurement_row(item: Measurement) -> str:
    value = _spread(item["value"])
    return f"| {item['label']} | {value} {item['unit']} | {_target(item)} |"


def _target(item: Comparison | Measurement) -> str:
    met = {True: "yes", False: "**no**", None: "-"}[item["met"]]
    return f"{item['target'] or '-'} | {met}"


def _spread(numbers: Mapping[str, float]) -> str:
    return f"{numbers['median']:.3g} ({numbers['q1']:.3g} to {numbers['q3']:.3g})"


def _duration(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(generate(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
