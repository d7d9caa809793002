"""Bugs that other logs have had, planted here: each must die, by the invariant it breaks.

The true log passes the same examples (the machine's examples are derived from its source, so the
same ones are drawn for the true code and for each mutant).
"""

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kafka_wire.types import Offset
from log import recovery
from log.filesystem.memory import MemoryFileSystem
from log.flush import FlushTicket
from log.index import IndexEntry
from log.segment import Segment
from tests.log.crash_machine import CrashMachine
from tests.log.test_crash_machine import MACHINE_SETTINGS

SAME_EXAMPLES = settings(
    MACHINE_SETTINGS,
    max_examples=400,
    derandomize=True,
    database=None,
    # Shrinking a failure takes long and is of no interest here.
    phases=[Phase.generate],
    print_blob=False,
)

Plant = Callable[[pytest.MonkeyPatch], None]


def flush_is_reported_before_it_happened(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushTicket, "run", lambda _: None)


def directory_is_not_synced_after_a_rename(patch: pytest.MonkeyPatch) -> None:
    true_rename = MemoryFileSystem.rename
    true_sync = MemoryFileSystem.sync_directory
    renamed: set[int] = set()

    def rename(self: MemoryFileSystem, old: str, new: str) -> None:
        true_rename(self, old, new)
        renamed.add(id(self))

    def sync_directory(self: MemoryFileSystem, path: str) -> None:
        if id(self) in renamed:
            renamed.discard(id(self))
            return
        true_sync(self, path)

    patch.setattr(MemoryFileSystem, "rename", rename)
    patch.setattr(MemoryFileSystem, "sync_directory", sync_directory)


def new_files_are_not_synced_in_their_directory(patch: pytest.MonkeyPatch) -> None:
    true_sync = MemoryFileSystem.sync_directory

    def sync_directory(self: MemoryFileSystem, path: str) -> None:
        if path == "/":
            true_sync(self, path)

    patch.setattr(MemoryFileSystem, "sync_directory", sync_directory)


def index_is_trusted_without_a_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segment, "_is_true", lambda _, entry: isinstance(entry, IndexEntry))
    patch.setattr("log.index._is_ascending", lambda _: True)


def recovery_cuts_at_the_first_bad_batch_below_the_recovery_point(
    patch: pytest.MonkeyPatch,
) -> None:
    true_open = recovery.open_log

    def open_log(*arguments: object, recovery_point: Offset, **more: object) -> object:
        return true_open(*arguments, recovery_point=Offset(0), **more)  # type: ignore[arg-type]

    patch.setattr("tests.log.crash_machine.open_log", open_log)


def checksums_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    from kafka_wire.records import parse_header

    patch.setattr("log.check.validate_batch", parse_header)
    patch.setattr("log.segment.validate_batch", parse_header)


MUTANTS: list[tuple[Plant, str]] = [
    (flush_is_reported_before_it_happened, "flushed-is-there|epochs-agree"),
    (directory_is_not_synced_after_a_rename, "flushed-is-there|epochs-agree"),
    (new_files_are_not_synced_in_their_directory, "flushed-is-there|indexes-agree"),
    (index_is_trusted_without_a_check, "indexes-agree"),
    (recovery_cuts_at_the_first_bad_batch_below_the_recovery_point, "damage-is-told"),
    (checksums_are_not_compared, "damage-is-told"),
]


def run() -> None:
    run_state_machine_as_test(CrashMachine, settings=SAME_EXAMPLES)


def test_true_log_passes_the_same_examples() -> None:
    run()


@pytest.mark.parametrize(
    ("plant", "invariant"), MUTANTS, ids=[plant.__name__ for plant, _ in MUTANTS]
)
def test_planted_bug_dies_by_its_invariant(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, invariant: str
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=invariant):
        run()
