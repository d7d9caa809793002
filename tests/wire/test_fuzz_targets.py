"""The fuzz targets with a fixed budget and without atheris: `make fuzz` runs them for longer."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.messages import ApiVersionsRequest
from kafka_wire.records import reader
from tests.fuzz import targets
from tests.support.repository import ROOT
from tests.wire.samples import EVERY_VERSION

Target = Callable[[bytes], None]

TARGETS: dict[str, tuple[Target, Callable[[], Iterator[bytes]]]] = {
    "messages": (targets.fuzz_message, targets.message_seeds),
    "records": (targets.fuzz_records, targets.record_seeds),
    "frames": (targets.fuzz_frames, targets.frame_seeds),
}
every_target = pytest.mark.parametrize("name", TARGETS)


def test_every_target_has_a_script() -> None:
    scripts = {file.stem for file in (ROOT / "tests" / "fuzz").glob("fuzz_*.py")}
    assert scripts == {f"fuzz_{name}" for name in TARGETS}


@every_target
def test_targets_accept_their_seeds(name: str) -> None:
    target, seeds = TARGETS[name]
    for seed in seeds():
        target(seed)


@every_target
def test_targets_accept_damaged_seeds(name: str) -> None:
    target, seeds = TARGETS[name]
    inputs = list(seeds())

    @settings(max_examples=150)
    @given(
        st.sampled_from(inputs),
        st.integers(0, 2**16),
        st.binary(max_size=6),
        st.integers(0, 6),
    )
    def damage(seed: bytes, at: int, new: bytes, removed: int) -> None:
        at %= len(seed)
        target(seed[:at] + new + seed[at + removed :])

    damage()


@every_target
def test_targets_accept_random_bytes(name: str) -> None:
    target, _ = TARGETS[name]
    settings(max_examples=100)(given(st.binary(max_size=80))(target))()


def test_a_message_that_changes_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    version = ApiVersionsRequest.versions.last
    choice = EVERY_VERSION.index((ApiVersionsRequest, version))
    data = choice.to_bytes(2, "big") + bytes.fromhex("02 61 02 62 00")
    targets.fuzz_message(data)

    def forgetful(value: ApiVersionsRequest) -> list[bytes]:
        return [bytes.fromhex("02 63 02") + value.client_software_name.encode() + b"\0"]

    monkeypatch.setitem(ApiVersionsRequest.encoders, version, forgetful)
    with pytest.raises(AssertionError, match=r"ApiVersionsRequest v\d changes"):
        targets.fuzz_message(data)


def test_an_exception_of_another_type_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*_: object) -> None:
        raise KeyError("unknown tag")

    (first, *_) = targets.record_seeds()
    monkeypatch.setattr(reader, "decompress", careless)
    with pytest.raises(KeyError):
        targets.fuzz_records(first)


def test_targets_are_importable_without_atheris() -> None:
    """And with nothing but atheris beside our own dependencies: `make fuzz` installs no more."""
    absent = "{'atheris', 'hypothesis', 'pytest', 'kio'}"
    code = f"import sys, tests.fuzz.targets, tests.fuzz.run; assert not {absent} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
