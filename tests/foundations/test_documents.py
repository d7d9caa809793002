"""The documents say what is there."""

import re
from pathlib import Path

import pytest

from bench.tables import PAGE, generate
from tests.support.repository import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MAKE_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)
MAKE_CALL = re.compile(r"(?:^|`)make ([a-z|]+)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def make_targets() -> set[str]:
    return set(MAKE_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))


def test_readme_names_the_two_commands() -> None:
    calls = MAKE_CALL.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {"up", "test"} <= set(calls)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_in_documents_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = {target for call in MAKE_CALL.findall(text) for target in call.split("|")}
    assert named <= make_targets()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for record in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert record.name in index


def test_benchmark_tables_are_what_the_results_give() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == generate(page), "run: python -m bench.tables"
