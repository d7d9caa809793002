"""The import rules bite: a planted violation breaks the contract that forbids it."""

import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.support.repository import ROOT, our_packages, pyproject

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

# Sub-packages that are cores from the day they exist, beside the packages that are one already.
LATER_CORES = ("quorum.metadata", "broker.replica", "broker.coordinator")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in our_packages():
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--no-logo"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "200", "PATH": ""},
    )


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("kafka_wire.planted", "floodmark"),
        ("floodmark.planted", "kafka_wire"),
        ("log.planted", "quorum"),
        ("quorum.planted", "admin"),
        ("admin.planted", "broker"),
        ("broker.planted", "jepsen_style"),
        ("broker.planted", "spark_io"),
        ("spark_io.planted", "broker"),
        ("spark_io.planted", "log"),
        ("spark_io.planted", "floodmark"),
        ("kafka_wire.planted", "socket"),
        ("kafka_wire.planted", "asyncio"),
        ("log.planted", "os"),
        ("log.planted", "random"),
        ("quorum.planted", "pysyncobj"),
    ],
)
def test_forbidden_import_breaks_a_contract(copy: Path, module: str, imported: str) -> None:
    (copy / module.replace(".", "/")).with_suffix(".py").write_text(f"import {imported}\n")
    done = lint(copy)
    assert done.returncode == 1
    assert f"{module} -> {imported}" in done.stdout


def test_core_may_not_reach_io_through_another_module(copy: Path) -> None:
    (copy / "floodmark" / "planted.py").write_text("import socket\n")
    (copy / "log" / "planted.py").write_text("import floodmark.planted\n")
    done = lint(copy)
    assert done.returncode == 1
    assert "log.planted -> floodmark.planted" in done.stdout


def test_allowed_imports_keep_the_contracts(copy: Path) -> None:
    (copy / "log" / "filesystem.py").write_text("import os\n")
    (copy / "log" / "planted.py").write_text(
        "from typing import TYPE_CHECKING\nimport floodmark\nif TYPE_CHECKING:\n    import os\n"
    )
    (copy / "spark_io" / "planted.py").write_text("import socket, kafka_wire\n")
    (copy / "jepsen_style" / "planted.py").write_text("import spark_io, broker, admin, time\n")
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr


def test_codec_does_not_import_the_clients() -> None:
    """The contract 'cores' lets the clients do IO, so nothing else may come to it through them."""
    graph = grimp.build_graph("kafka_wire", exclude_type_checking_imports=True, cache_dir=None)
    clients = {name for name in graph.modules if f"{name}.".startswith("kafka_wire.client.")}
    importers = {
        importer
        for client in clients
        for importer in graph.find_modules_that_directly_import(client)
    }
    assert importers <= clients


def test_every_core_that_exists_is_under_contract() -> None:
    contracts = {item["id"]: item for item in pyproject()["tool"]["importlinter"]["contracts"]}
    listed = contracts["cores"]["source_modules"]
    for core in LATER_CORES:
        exists = (ROOT / core.replace(".", "/")).exists()
        assert not exists or core in listed, f"add {core} to the contract 'cores'"


def test_contracts_and_wheel_name_the_same_packages() -> None:
    assert sorted(pyproject()["tool"]["importlinter"]["root_packages"]) == sorted(our_packages())
