"""Run every benchmark, each in a process of its own, then generate the tables.

A benchmark is a module of this folder that has a `main()` and is not part of the harness. One with
an underscore in its name is a part of the one before it.
"""

import subprocess
import sys
from pathlib import Path

from bench import tables

_HARNESS = {"__init__", "__main__", "harness", "results", "tables", "timing"}


def benchmarks() -> list[str]:
    folder = Path(__file__).parent
    stems = (file.stem for file in folder.glob("*.py"))
    return sorted(stem for stem in stems if stem not in _HARNESS and "_" not in stem)


def main() -> int:
    failed = []
    for name in benchmarks():
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        done = subprocess.run([sys.executable, "-m", f"bench.{name}", *sys.argv[1:]], check=False)
        if done.returncode != 0:
            failed.append(name)
    tables.main()
    if failed:
        sys.stdout.write(f"a ratio was missed, or the benchmark failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
