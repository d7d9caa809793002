"""Frames: whatever arrives on a connection, however it was split."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.fuzz.run import run

if __name__ == "__main__":
    run("fuzz_frames", "frame_seeds")
