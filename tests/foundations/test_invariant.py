"""Invariants hold in production too."""

import subprocess
import sys

import pytest

from floodmark.invariant import InvariantViolation, invariant


def test_condition_that_holds_is_silent() -> None:
    invariant(True, "never shown", value=1)


def test_violation_names_message_and_facts() -> None:
    with pytest.raises(InvariantViolation, match=r"^went back \(old=5, new=3\)$"):
        invariant(False, "went back", old=5, new=3)


def test_violation_without_facts_is_its_message() -> None:
    with pytest.raises(InvariantViolation, match=r"^impossible$"):
        invariant(False, "impossible")


def test_optimised_python_does_not_strip_it() -> None:
    code = "from floodmark.invariant import invariant; invariant(False, 'still here')"
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "InvariantViolation: still here" in done.stderr
