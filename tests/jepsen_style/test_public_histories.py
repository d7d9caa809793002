"""Public histories of registers: the checker's verdicts are the published ones.

`TEST_HISTORIES_DIR` is a folder with Porcupine's and Knossos' histories and `verdicts.json`;
`.ci/run` sets it where it has one.
"""

import json
import os
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TypedDict

import pytest

from jepsen_style.checkers.histories import (
    HistoryError,
    read_edn,
    read_jepsen_log,
    read_key_value_text,
)
from jepsen_style.checkers.register import check_register
from jepsen_style.checkers.verdict import Validity
from jepsen_style.operations import Operation, Status

READERS = {"jepsen-log": read_jepsen_log, "edn": read_edn, "edn-lines": read_key_value_text}


class Listed(TypedDict):
    """A history as `verdicts.json` lists it."""

    file: str
    format: str
    model: str
    init: Hashable
    n_ops: int
    linearizable: bool


@pytest.fixture(scope="module")
def folder() -> Path:
    setting = os.environ.get("TEST_HISTORIES_DIR")
    if not setting:
        pytest.skip("TEST_HISTORIES_DIR names no folder with public histories; see .ci/run")
    return Path(setting)


@pytest.fixture(scope="module")
def histories(folder: Path) -> list[tuple[Listed, list[Operation]]]:
    listed: list[Listed] = json.loads((folder / "verdicts.json").read_text("utf-8"))["histories"]
    return [
        (each, READERS[each["format"]]((folder / each["file"]).read_text("utf-8")))
        for each in listed
    ]


def test_verdicts_of_public_register_histories_agree(
    histories: list[tuple[Listed, list[Operation]]],
) -> None:
    judged = 0
    wrong = []
    for listed, history in histories:
        if listed["model"] != "cas-register":
            continue
        judged += 1
        verdict = check_register(history, listed["init"])
        if verdict.validity is not (Validity.VALID if listed["linearizable"] else Validity.INVALID):
            wrong.append((listed["file"], verdict.describe()))
    assert judged > 50
    assert wrong == []


def test_public_histories_are_read_whole(
    histories: list[tuple[Listed, list[Operation]]],
) -> None:
    """What failed does not count as an operation in the list."""
    assert {listed["format"] for listed, _ in histories} == READERS.keys()
    for listed, history in histories:
        happened = [each for each in history if each.status is not Status.FAIL]
        assert len(happened) == listed["n_ops"], listed["file"]


@pytest.mark.parametrize(("file", "is_valid"), [("c01-ok.txt", True), ("c01-bad.txt", False)])
def test_key_value_text_of_a_single_client_can_be_replayed(
    folder: Path, file: str, is_valid: bool
) -> None:
    text = (folder / "porcupine" / "kv" / file).read_text("utf-8")
    history = read_key_value_text(text)
    assert {each.process for each in history} == {0}
    assert {each.f for each in history} == {"get", "put", "append"}
    assert _answers_are_those_of_a_dict(history) is is_valid


def _answers_are_those_of_a_dict(history: Sequence[Operation]) -> bool:
    held: defaultdict[Hashable, str] = defaultdict(str)
    for each in history:
        match each.f:
            case "put":
                held[each.key] = str(each.value)
            case "append":
                held[each.key] += str(each.value)
            case "get" if each.output != held[each.key]:
                return False
    return True


def test_key_value_text_has_keys_inputs_and_answers() -> None:
    text = (
        '{:process 0, :type :invoke, :f :append, :key "5", :value "x 0 0 y"}\n'
        '{:process 1, :type :invoke, :f :get, :key "5", :value nil}\n'
        '{:process 0, :type :ok, :f :append, :key "5", :value "x 0 0 y"}\n'
        '{:process 1, :type :ok, :f :get, :key "5", :value "x 0 0 y"}\n'
        '{:process 0, :type :invoke, :f :put, :key "6", :value ""}\n'
    )
    append, get, put = read_key_value_text(text)
    assert (append.key, append.value, append.output) == ("5", "x 0 0 y", None)
    assert (get.key, get.value, get.output) == ("5", None, "x 0 0 y")
    assert (get.t_invoke_ns, get.t_return_ns) == (1, 3)
    assert (put.key, put.value, put.status) == ("6", "", Status.INFO)


def test_a_refused_cas_of_a_log_is_an_answer() -> None:
    log = (
        "INFO  jepsen.util - 0\t:invoke\t:write\t1\nINFO  jepsen.util - 0\t:ok\t:write\t1\n"
        "INFO  jepsen.util - 0\t:invoke\t:cas\t[1 2]\nINFO  jepsen.util - 0\t:fail\t:cas\t[1 2]\n"
    )
    assert check_register(read_jepsen_log(log)).validity is Validity.INVALID


def test_edn_drops_what_failed_and_keeps_what_never_completed() -> None:
    text = (
        "[{:process 0, :type :invoke, :f :write, :value 1} ; a comment\n"
        " {:process 0, :type :fail, :f :write, :value 1}\n"
        " {:process :nemesis, :type :info, :f :start}\n"
        " #_ignored {:process 1, :type :invoke, :f :write, :value 2}]"
    )
    assert [each.status.value for each in read_edn(text)] == ["fail", "info"]


@pytest.mark.parametrize("text", ["[{:process 0", "{:process 0 :type}", "[1]", '["\\q"]', "]"])
def test_text_that_is_no_history_is_refused(text: str) -> None:
    with pytest.raises(HistoryError):
        read_edn(text)
