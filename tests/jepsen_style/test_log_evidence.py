"""Evidence of the log checker: the smallest window, told in words; faults in long histories."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from jepsen_style.checkers.log import check_log
from jepsen_style.checkers.log_history import LogModel, LogOperation
from jepsen_style.checkers.log_observations import Claim, closest_disagreement
from jepsen_style.checkers.log_verdict import LogAnomaly, window_ns
from jepsen_style.operations import Status
from tests.jepsen_style.log_histories import SimulatedLog, append, read

LONG = 4_000


def long_history(
    seed: int, *, model: LogModel = LogModel.STRICT_LOG, operations: int = LONG
) -> list[LogOperation]:
    simulated = SimulatedLog(
        random=Random(seed), model=model, operations=operations, processes=8, unknown_rate=0.02
    )
    history = simulated.run()
    simulated.read_to_the_end()
    return history


def test_a_stale_read_is_told_in_words() -> None:
    verdict = check_log(
        [
            append(7, at=0, t=(0, 1_000_000), process=1),
            append(8, 9, at=1, t=(2_000_000, 3_000_000), process=1),
            read(7, end=1, t=(4_000_000, 5_000_000), process=2),
        ]
    )
    assert verdict.describe() == (
        "invalid (3 operations, 3 records acknowledged, 0 lost, 2 never read)\n"
        "t-0: stale-read: when the earlier one returned the log reached to 3, and the later one"
        " was told that it ends at 1, invoked 1.000000 ms after that\n"
        "  process 1: append of 8, 9, at offsets 1 to 2 [2.000000 ms to 3.000000 ms]\n"
        "  process 2: read from 0, returned 7, at offset 0, high watermark 1"
        " [4.000000 ms to 5.000000 ms]"
    )


def test_a_read_that_shows_where_a_record_went_is_part_of_the_evidence() -> None:
    ahead = read(start=1, end=1, t=(0, 1))
    unknown = append(1, t=(2, None))
    witness = read(1, end=1, t=(3, 4))
    (evidence,) = check_log([ahead, unknown, witness]).evidence
    assert evidence.anomaly is LogAnomaly.READ_AHEAD
    assert evidence.operations == (ahead, unknown, witness)


def test_of_many_stale_reads_the_smallest_window_is_shown() -> None:
    stale = [read(end=0, t=(10 * n, 10 * n + 9 - n)) for n in range(1, 5)]
    first, second = append(1, at=0, t=(0, 1)), append(2, at=1, t=(12, 38))
    (evidence,) = check_log([first, second, *stale]).evidence
    assert evidence.operations == (first, stale[0])
    assert evidence.occurrences == 4
    assert evidence.window_ns == (0, 18)


def test_of_many_skips_the_smallest_window_is_shown() -> None:
    early, late = read(1, 2, 3, t=(2, 3)), read(1, 2, 3, t=(30, 31))
    slow, quick = (read(1, 3, offsets=(0, 2), t=t) for t in ((10, 19), (40, 41)))
    history = [append(1, 2, 3, at=0, t=(0, 1)), early, slow, late, quick]
    (evidence,) = check_log(history).evidence
    assert evidence.anomaly is LogAnomaly.SKIPPED_OFFSET
    assert evidence.operations == (late, quick)
    assert evidence.occurrences == 2


@pytest.mark.parametrize("seed", range(30))
def test_the_window_of_a_stale_read_is_the_smallest_of_all_pairs(seed: int) -> None:
    random = Random(seed)
    history = SimulatedLog(
        random=random,
        model=LogModel.STRICT_LOG,
        operations=200,
        processes=6,
        unknown_rate=0,
        control_rate=0,
    ).run()
    told = [i for i, each in enumerate(history) if (each.high_watermark or 0) > 30]
    for index in random.sample(told, 3):
        history = _with_end(history, index, (history[index].high_watermark or 0) - 30)
    (evidence,) = check_log(history).evidence
    assert evidence.anomaly is LogAnomaly.STALE_READ
    begin, end = evidence.window_ns
    assert end - begin == min(end - begin for begin, end in _stale_windows(history))


def _with_end(history: list[LogOperation], index: int, end: int) -> list[LogOperation]:
    """One read saw nothing, at an end of the log that was long past."""
    changed = list(history)
    changed[index] = replace(
        changed[index],
        high_watermark=end,
        base_offset=end,
        values=(),
        offsets=None,
        control_offsets=(),
    )
    return changed


def _stale_windows(history: Sequence[LogOperation]) -> Iterator[tuple[int, int]]:
    for later in history:
        if later.high_watermark is None:
            continue
        for earlier in history:
            if (earlier.t_return_ns or 0) < later.t_invoke_ns:
                if earlier.is_read:
                    end = earlier.high_watermark or earlier.end_offset
                else:
                    end = max(earlier.record_offsets or (-1,)) + 1
                if end > later.high_watermark:
                    yield window_ns((earlier, later))


@pytest.mark.parametrize("seed", range(200))
def test_the_closest_disagreement_is_the_smallest_of_all_pairs(seed: int) -> None:
    random = Random(seed)
    claims: list[Claim] = []
    for _ in range(random.randint(2, 12)):
        begin = random.randrange(50)
        claims.append((read(t=(begin, begin + random.randrange(30))), random.choice((1, 2, None))))
    claims.append((read(t=(20, 30)), 3))
    widths = [
        end - begin
        for one, other in combinations(claims, 2)
        if one[1] != other[1]
        for begin, end in [window_ns((one[0], other[0]))]
    ]
    begin, end = window_ns(operation for operation, _ in closest_disagreement(claims))
    assert end - begin == min(widths)


# ------------------------------------------------------------------ faults in long histories


@pytest.mark.parametrize("model", LogModel)
def test_a_long_history_of_a_log_that_behaves_is_valid(model: LogModel) -> None:
    verdict = check_log(long_history(1, model=model), model)
    assert verdict.valid, verdict.describe()
    assert verdict.acknowledged > LONG // 3
    assert (verdict.lost > 0) == (model is LogModel.ACKS1)


def _nth(history: list[LogOperation], f: str, share: float, *, least: int = 1) -> int:
    fitting = [
        index
        for index, each in enumerate(history)
        if each.f == f and each.status is Status.OK and each.count >= least
        if (each.base_offset if f == "append" else each.high_watermark) is not None
    ]
    return fitting[int(len(fitting) * share)]


def test_a_stale_read_is_found_in_a_long_history() -> None:
    history = long_history(2)
    index = _nth(history, "read", 0.7)
    planted = _with_end(history, index, 5)
    (evidence,) = check_log(planted).evidence
    assert evidence.anomaly is LogAnomaly.STALE_READ
    assert planted[index] in evidence.operations


def test_a_swap_is_found_in_a_long_history() -> None:
    history = long_history(3)
    index = _nth(history, "read", 0.5, least=2)
    one, two, *rest = history[index].values
    history[index] = replace(history[index], values=(two, one, *rest))
    found = {each.anomaly for each in check_log(history).evidence}
    assert found == {LogAnomaly.INCONSISTENT_OFFSETS, LogAnomaly.DUPLICATE}


def test_an_aborted_read_is_found_in_a_long_history() -> None:
    history = long_history(4)
    index = _nth(history, "append", 0.5)
    history[index] = replace(history[index], status=Status.FAIL, base_offset=None, offsets=None)
    (evidence,) = check_log(history).evidence
    assert evidence.anomaly is LogAnomaly.ABORTED_READ
    assert history[index] in evidence.operations


@pytest.mark.parametrize("model", [LogModel.STRICT_LOG, LogModel.COMMITTED_PREFIX])
def test_a_lost_tail_is_found_in_a_long_history(model: LogModel) -> None:
    """The last acknowledged record is gone, and nobody had read it."""
    history = [each for each in long_history(5, model=model) if each.f != "final_read"]
    end = max(each.high_watermark or each.end_offset for each in history if each.is_read)
    begin = max(each.t_return_ns or 0 for each in history) + 1
    tail = append(-1, at=end + 50, t=(begin, begin + 1))
    fillers = [append(-2 - n, t=(0, None)) for n in range(200)]
    final = read(start=end, t=(begin + 2, begin + 3), final=True, process=99)
    found = {each.anomaly for each in check_log([*history, tail, *fillers, final], model).evidence}
    assert LogAnomaly.LOST_WRITE in found


def test_the_verdict_does_not_depend_on_the_order_of_the_file() -> None:
    history = long_history(6)
    index = _nth(history, "read", 0.7)
    planted = _with_end(history, index, 5)
    shuffled = Random(1).sample(planted, len(planted))
    assert check_log(history).valid
    assert check_log(Random(1).sample(history, len(history))).valid
    one, other = check_log(planted).evidence, check_log(shuffled).evidence
    assert [each.describe() for each in one] == [each.describe() for each in other]
