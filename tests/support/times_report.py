"""Print the times per area that `tests.support.phases` collected, against their budgets.

Informational: no run fails because of its time.
"""

import json
import sys
from pathlib import Path
from typing import TypedDict

from tests.support.phases import AREAS, FOUNDATIONS

# Wall seconds on two cores, for the finished project.
BUDGETS_S = {
    "wire": 60,
    "log": 90,
    "quorum": 150,
    "broker": 240,
    "admin": 90,
    "groups": 120,
    "spark": 240,
    "verify": 300,
}


class AreaTimes(TypedDict):
    tests: int
    seconds: float


class Phase(TypedDict):
    phase: str
    workers: int
    wall_s: float
    areas: dict[str, AreaTimes]


def report(phases: list[Phase]) -> str:
    """One line per area that has tests, then one per phase.

    Areas share the workers, so no area has a wall time of its own in a parallel phase: its share
    is estimated as its test seconds divided by the workers. The wall time of a phase is measured.
    """
    lines = ["== times", f"{'area':<12}{'tests':>7}{'test s':>9}{'wall s*':>9}{'budget s':>10}"]
    for area in (*AREAS, FOUNDATIONS):
        seen = [(phase, phase["areas"][area]) for phase in phases if area in phase["areas"]]
        if not seen:
            continue
        tests = sum(times["tests"] for _, times in seen)
        seconds = sum(times["seconds"] for _, times in seen)
        wall = sum(times["seconds"] / phase["workers"] for phase, times in seen)
        budget = BUDGETS_S.get(area)
        over = "  over" if budget is not None and wall > budget else ""
        lines.append(f"{area:<12}{tests:>7}{seconds:>9.1f}{wall:>9.1f}{budget or '-':>10}{over}")
    lines += [
        f"phase {phase['phase']}: {phase['wall_s']:.1f} s of wall time, "
        f"{phase['workers']} worker(s)"
        for phase in phases
    ]
    lines.append("* estimate: test seconds divided by the workers of the phase; never a failure")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    (file,) = map(Path, arguments)
    if file.exists():
        sys.stdout.write(report(json.loads(file.read_text())) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
