"""Record batches: whatever a producer sends, or a broker stored."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.fuzz.run import run

if __name__ == "__main__":
    run("fuzz_records", "record_seeds")
