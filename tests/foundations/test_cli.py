"""The `floodmark` command: what it prints, how it exits, and what it does not import."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
import yaml

import floodmark
from floodmark.cli import main
from floodmark.cli.guard import guarded
from floodmark.cli.run import run_command
from floodmark.cli.table import GROUP, command_table, summary
from floodmark.errors import ExitCode, UserError

COMMAND = Path(sys.executable).with_name("floodmark")


def run(*arguments: str, program: str = "floodmark") -> subprocess.CompletedProcess[str]:
    path = Path(sys.executable).with_name(program)
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False)


def assert_one_line_error(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == ExitCode.ERROR
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_help_lists_every_command_with_its_summary() -> None:
    done = run("--help")
    assert done.returncode == 0
    for entry in entry_points(group=GROUP):
        assert summary(entry), f"{entry.module} needs a docstring whose first line is a summary"
        assert f"  {entry.name}" in done.stdout
        assert summary(entry) in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], [], ["no-such-command"]])
def test_top_level_imports_neither_typer_nor_rich_nor_a_command(arguments: list[str]) -> None:
    modules = [entry.module for entry in entry_points(group=GROUP)]
    code = (
        "import sys; from floodmark.cli import main\n"
        f"main({arguments!r})\n"
        f"print([m for m in ['typer', 'rich', 'yaml', 'admin', *{modules!r}] if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_command_prints_the_help_as_an_error() -> None:
    done = run()
    assert done.returncode == ExitCode.ERROR
    assert done.stdout == ""
    assert "Commands:" in done.stderr


def test_unknown_command_suggests_the_nearest() -> None:
    done = run("versoin")
    assert_one_line_error(done)
    assert "did you mean 'version'?" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bad"],
        ["nothing-like-it"],
        ["version", "--bad"],
        ["version", "-o", "xml"],
        ["version", "extra"],
        ["up"],
        ["up", "--brokers", "3", "--json"],
    ],
)
def test_usage_and_environment_errors_are_one_line_and_exit_3(arguments: list[str]) -> None:
    assert_one_line_error(run(*arguments))


@pytest.mark.parametrize("program", ["floodmark-broker"])
def test_a_binary_that_is_not_built_says_so(program: str) -> None:
    done = run(program=program)
    assert_one_line_error(done)
    assert done.stderr.startswith(f"{program}: ")
    module = subprocess.run(
        [sys.executable, "-m", program.removeprefix("floodmark-")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert_one_line_error(module)


def test_command_help_exits_0() -> None:
    done = run("version", "--help")
    assert done.returncode == 0
    assert "--output" in done.stdout


def test_version_option_and_module_agree() -> None:
    assert run("--version").stdout == f"floodmark {floodmark.__version__}\n"
    module = subprocess.run(
        [sys.executable, "-m", "floodmark", "--version"], capture_output=True, text=True, check=True
    )
    assert module.stdout == f"floodmark {floodmark.__version__}\n"


def test_version_prints_the_same_document_in_json_and_yaml() -> None:
    document = json.loads(run("version", "-o", "json").stdout)
    assert document == yaml.safe_load(run("version", "-o", "yaml").stdout)
    assert document["floodmark"] == floodmark.__version__
    assert document["dependencies"]["typer"]


def test_version_wide_adds_columns_to_the_table() -> None:
    table, wide = (run("version", "-o", output).stdout.splitlines() for output in ("table", "wide"))
    assert table[0].split() == ["COMPONENT", "VERSION"]
    assert wide[0].split() == ["COMPONENT", "VERSION", "PART", "REQUIRED"]
    assert len(table) == len(wide)


def test_reader_that_goes_away_is_no_error_and_no_verdict() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        done = subprocess.run(
            [COMMAND, "version"], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.BROKEN_PIPE
    assert done.stderr == ""


def test_full_disk_is_an_environment_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [COMMAND, "version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.ERROR
    assert done.stderr.count("\n") == 1


def test_interrupt_exits_130_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    assert guarded("floodmark", interrupted) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == ""


def test_bug_is_no_verdict_and_keeps_its_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken() -> int:
        raise LookupError("two\nlines")

    assert guarded("floodmark", broken) == ExitCode.INTERNAL
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    (crash,) = tmp_path.iterdir()
    assert str(crash) in error
    assert "LookupError: two\nlines" in crash.read_text()


def test_operating_system_error_names_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    def missing() -> int:
        Path("/no/such/file").read_text()
        return 0

    assert guarded("floodmark", missing) == ExitCode.ERROR
    assert capsys.readouterr().err == (
        "floodmark: /no/such/file: No such file or directory; check the path\n"
    )


COMMAND_MODULE = '''\
"""A command of the tests."""
import typer
app = typer.Typer(add_completion=False)

@app.command()
def verdict(code: int) -> int:
    return code

@app.command()
def leave(code: int) -> None:
    raise typer.Exit(code)
'''


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EntryPoint:
    (tmp_path / "planted_command.py").write_text(COMMAND_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "planted_command", raising=False)
    return EntryPoint(name="planted", value="planted_command:app", group=GROUP)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["verdict", "0"], 0), (["verdict", "1"], 1), (["verdict", "2"], 2), (["leave", "2"], 2)],
)
def test_command_sets_its_exit_code(
    planted: EntryPoint, arguments: Sequence[str], code: int
) -> None:
    assert run_command("planted", planted, arguments) == code


@pytest.mark.parametrize("arguments", [[], ["verdict"], ["verdict", "x"], ["verdcit", "1"]])
def test_usage_error_of_a_nested_command_points_to_its_help(
    planted: EntryPoint, arguments: Sequence[str]
) -> None:
    with pytest.raises(UserError, match=r"see 'floodmark planted.* --help'"):
        run_command("planted", planted, arguments)


def test_summary_is_read_without_importing(planted: EntryPoint) -> None:
    assert summary(planted) == "A command of the tests."
    assert "planted_command" not in sys.modules


def test_missing_dependency_names_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_spark.py").write_text("import pyspark.nothing_of_this_name\n")
    (tmp_path / "pyspark.py").write_text("")  # a module without submodules: the import fails
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    entry = EntryPoint(name="needs", value="needs_spark:app", group=GROUP)
    with pytest.raises(UserError, match=r"needs pyspark; run: pip install 'floodmark\[spark\]'"):
        run_command("needs", entry, [])


def test_command_table_is_sorted_and_complete() -> None:
    names = list(command_table())
    assert names == sorted(names)
    assert {"up", "version"} <= set(names)


def test_main_returns_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"floodmark {floodmark.__version__}\n"
