"""Leader epochs: where each began and ended (KIP-101, KIP-279), against a list of batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodmark.invariant import InvariantViolation
from kafka_wire.types import LeaderEpoch, Offset
from log.epochs import EpochEntry, LeaderEpochs, decode_epochs, encode_epochs
from log.errors import DamagedFileError


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, offset in entries:
        epochs.assign(LeaderEpoch(epoch), Offset(offset))
    return epochs


THREE = ((1, 0), (3, 10), (7, 25))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (0, (0, 0)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 25)),
        (4, (3, 25)),
        (6, (3, 25)),
        (7, (7, 40)),
        (8, None),
    ],
)
def test_end_of_an_epoch_is_that_of_the_largest_not_above_it(
    asked: int, expected: tuple[int, int] | None
) -> None:
    assert epochs_of(*THREE).end_of(LeaderEpoch(asked), Offset(40)) == expected


def test_log_without_epochs_answers_nothing() -> None:
    assert LeaderEpochs().end_of(LeaderEpoch(0), Offset(10)) is None
    assert LeaderEpochs().latest is None
    assert LeaderEpochs().epoch_at(Offset(0)) is None


def test_epoch_older_than_all_that_is_left_ends_where_the_log_begins() -> None:
    epochs = epochs_of(*THREE)
    epochs.truncate_start(Offset(12))
    assert [*epochs.entries] == [(3, 12), (7, 25)]
    assert epochs.end_of(LeaderEpoch(1), Offset(40)) == (1, 12)


def test_epoch_in_which_nothing_was_written_is_replaced() -> None:
    epochs = epochs_of((0, 0), (1, 5), (2, 5), (4, 5))
    assert [*epochs.entries] == [(0, 0), (4, 5)]


def test_epochs_and_offsets_never_go_back() -> None:
    for epoch, offset in [(6, 30), (8, 24), (2, 50)]:
        with pytest.raises(InvariantViolation):
            epochs_of(*THREE).assign(LeaderEpoch(epoch), Offset(offset))
    assert not epochs_of(*THREE).assign(LeaderEpoch(7), Offset(99))


@pytest.mark.parametrize(
    ("end", "kept"), [(0, 0), (1, 1), (10, 1), (11, 2), (25, 2), (26, 3), (99, 3)]
)
def test_epochs_that_begin_at_or_after_the_end_are_forgotten(end: int, kept: int) -> None:
    epochs = epochs_of(*THREE)
    assert epochs.truncate_end(Offset(end)) == (kept < 3)
    assert [*epochs.entries] == [*THREE[:kept]]


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(1, 0), (3, 10), (7, 25)]),
        (5, [(1, 5), (3, 10), (7, 25)]),
        (10, [(3, 10), (7, 25)]),
        (24, [(3, 24), (7, 25)]),
        (60, [(7, 60)]),
    ],
)
def test_epochs_that_ended_before_the_start_are_forgotten(
    start: int, left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of(*THREE)
    assert epochs.truncate_start(Offset(start)) == (left != [*THREE])
    assert [*epochs.entries] == left


@given(
    runs=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=8),
    cuts=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_every_answer_is_that_of_the_batches(
    runs: list[tuple[int, int]], cuts: tuple[float, float]
) -> None:
    """`runs`: by how much the epoch grows, and how many records are written in it."""
    by_offset: list[int] = []
    epochs, epoch = LeaderEpochs(), -1
    for step, count in runs:
        epoch += step
        for _ in range(count):
            epochs.assign(LeaderEpoch(epoch), Offset(len(by_offset)))
            by_offset.append(epoch)
    end = int(cuts[0] * len(by_offset))
    start = int(cuts[1] * end)
    epochs.truncate_end(Offset(end))
    epochs.truncate_start(Offset(start))
    left = list(enumerate(by_offset[:end]))[start:]
    assert [epochs.epoch_at(Offset(offset)) for offset, _ in left] == [epoch for _, epoch in left]
    for asked in range(epoch + 2):
        found = epochs.end_of(LeaderEpoch(asked), Offset(end))
        if left and asked <= left[-1][1]:
            lower = [epoch for _, epoch in left if epoch <= asked]
            higher = [offset for offset, epoch in left if epoch > asked]
            assert found == (lower[-1] if lower else asked, higher[0] if higher else end)
        elif left:
            assert found is None


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**12)), max_size=20))
def test_checkpoint_is_read_back(steps: list[tuple[int, int]]) -> None:
    entries, epoch, offset = [], -1, -1
    for more_epoch, more_offset in steps:
        epoch, offset = epoch + more_epoch, offset + more_offset
        entries.append(EpochEntry(LeaderEpoch(epoch), Offset(offset)))
    assert decode_epochs(encode_epochs(tuple(entries)), "path") == entries


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "1\n0\n",
        "0\n1\n",
        "0\n1\n1 2 3\n",
        "0\n2\n1 5\n1 6\n",
        "0\n2\n1 5\n2 5\n",
        "0\n1\n-1 0\n",
    ],
)
def test_checkpoint_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(DamagedFileError, match="leader-epoch"):
        decode_epochs(text.encode(), "leader-epoch")
