"""Programs from outside Python that some tests call."""

import shutil
from pathlib import Path

import pytest


def require_program(name: str, *, debian: str | None = None) -> Path:
    """The path of the program, or a skip that says what to install."""
    found = shutil.which(name)
    if found is None:
        package = debian or name
        pytest.skip(f"{name} is not on the PATH; on Debian: apt-get install {package}")
    return Path(found)
