"""Messages: whatever a peer sends as the body of a request or a response."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.fuzz.run import run

if __name__ == "__main__":
    run("fuzz_message", "message_seeds")
