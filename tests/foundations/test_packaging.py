"""What is installed: our packages, all of them, nothing else, and under names that are ours."""

import importlib.util
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.repository import ROOT, our_packages, pyproject

EXPECTED = {
    "floodmark", "quorum", "broker", "log", "admin", "spark_io", "jepsen_style", "kafka_wire",
}  # fmt: skip


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.xdist_group("wheel")
def test_wheel_contains_exactly_our_packages(wheel_names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names}
    info = {top for top in tops if top.endswith(".dist-info")}
    assert len(info) == 1
    assert tops - info == EXPECTED == set(our_packages())


@pytest.mark.xdist_group("wheel")
def test_wheel_contains_every_module_and_the_licence(wheel_names: list[str]) -> None:
    shipped = {
        str(file.relative_to(ROOT))
        for package in our_packages()
        for file in (ROOT / package).rglob("*")
        if file.suffix in {".py", ".typed", ".proto", ".html"} and "__pycache__" not in file.parts
    }
    assert shipped <= set(wheel_names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)


@pytest.mark.parametrize("package", sorted(EXPECTED))
def test_package_is_typed_and_ours(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin == str(ROOT / package / "__init__.py")


def test_no_other_distribution_owns_our_names() -> None:
    owners = metadata.packages_distributions()
    foreign = {name: set(owners.get(name, [])) - {"floodmark"} for name in our_packages()}
    assert not any(foreign.values()), foreign


def test_console_scripts_exist() -> None:
    scripts = {
        entry.name: entry.value
        for entry in metadata.distribution("floodmark").entry_points
        if entry.group == "console_scripts"
    }
    assert scripts == pyproject()["project"]["scripts"]
    for name in ("floodmark", "floodmark-quorum", "floodmark-broker"):
        assert name in scripts
        assert Path(sys.executable).with_name(name).is_file()


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", pin) for pin in pins), pins
    return {
        canonicalize_name(name): version for name, _, version in (p.partition("==") for p in pins)
    }


def installed_closure(extras: set[str]) -> dict[str, str]:
    """Every installed distribution that floodmark with these extras needs, with its version."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    queue = [("floodmark", extra) for extra in ("", *sorted(extras))]
    while queue:
        name, extra = queue.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # an extra that this environment does not have
        found[canonicalize_name(name)] = distribution.version
        for requirement in map(Requirement, distribution.requires or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                queue += [(requirement.name, wanted) for wanted in ("", *requirement.extras)]
    del found["floodmark"]
    return found


def test_constraints_pin_every_dependency_and_no_address() -> None:
    pins = constraints()
    installed = installed_closure(set(pyproject()["project"]["optional-dependencies"]))
    assert {"typer", "pyspark", "numba", "pytest", "grimp"} <= set(installed)
    assert {name: pins.get(name) for name in installed} == installed


def test_pandas_stays_below_3() -> None:
    assert constraints()["pandas"].startswith("2.")
