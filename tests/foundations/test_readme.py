"""The README's programs run as they stand there."""

import re

import pytest

from tests.support.fake_broker import FakeBroker
from tests.support.repository import ROOT

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_readme_has_the_programs_that_are_run_here() -> None:
    assert ["Client(" in snippet for snippet in SNIPPETS] == [True, False, False]
    assert "DataDirectory" in SNIPPETS[2]


def test_client_of_the_readme_works(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker(topics={"events": 1}) as broker:
        assert '"localhost:9092"' in SNIPPETS[0]
        exec(SNIPPETS[0].replace("localhost:9092", broker.address), {})
    assert "value=b'v'" in capsys.readouterr().out


@pytest.mark.parametrize("number", [1, 2])
def test_libraries_of_the_readme_work(number: int) -> None:
    names: dict[str, object] = {}
    exec(SNIPPETS[number], names)
    assert names.get("request") is not None or names.get("found") is not None
