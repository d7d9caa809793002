"""The repository that the tests stand in."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def our_packages() -> list[str]:
    """The explicit list of packages that the wheel is built from."""
    packages: list[str] = pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return packages
