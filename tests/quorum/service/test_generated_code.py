"""The generated modules are the ones that the proto file makes."""

from quorum.api import generate
from tests.support.repository import ROOT


def test_generated_modules_are_up_to_date() -> None:
    folder = ROOT / "quorum" / "api"
    for name, text in generate.generate(ROOT).items():
        found = (folder / name).read_text(encoding="utf-8")
        assert found == text, f"{name} is stale: run python -m quorum.api.generate"
