"""How a callable is timed: loops long enough for the clock, rounds that interleave the candidates.

The machine drifts while a benchmark runs (frequency, neighbours, caches). So each round times
every candidate once, in an order that rotates, and a ratio is taken within its round: what both
suffer cancels out.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Clock(StrEnum):
    """CPU time ignores what other processes do; wall time also counts waiting for IO."""

    CPU = "cpu"
    WALL = "wall"


_READ_NS: Mapping[Clock, Callable[[], int]] = {
    Clock.CPU: time.process_time_ns,
    Clock.WALL: time.perf_counter_ns,
}
_MAX_LOOPS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to measure: `rounds` samples of each candidate, each at least `sample_ms` long."""

    rounds: int = 15
    sample_ms: float = 20.0


QUICK = Effort(rounds=3, sample_ms=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median and quartiles: a benchmark's samples have outliers, and means follow them."""

    median: float
    q1: float
    q3: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Spread":
        if len(samples) == 1:
            return cls(median=samples[0], q1=samples[0], q3=samples[0])
        q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median=median, q1=q1, q3=q3)


def interleave(
    candidates: Mapping[str, Callable[[], object]], *, effort: Effort, clock: Clock
) -> dict[str, list[float]]:
    """Nanoseconds per call of every candidate, one sample per round."""
    read_ns = _READ_NS[clock]
    loops = {name: _loops(call, effort, read_ns) for name, call in candidates.items()}
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    for _ in range(effort.rounds):
        for name in order:
            elapsed = _timed(candidates[name], loops[name], read_ns)
            samples[name].append(elapsed / loops[name])
        order.append(order.pop(0))
    return samples


def _loops(call: Callable[[], object], effort: Effort, read_ns: Callable[[], int]) -> int:
    """Double the loops until a sample is long enough; this also warms the candidate up."""
    wanted_ns = effort.sample_ms * 1e6
    loops = 1
    while loops < _MAX_LOOPS and _timed(call, loops, read_ns) < wanted_ns:
        loops *= 2
    return loops


def _timed(call: Callable[[], object], loops: int, read_ns: Callable[[], int]) -> int:
    """As `timeit`: the collector is off, or its pauses land on whoever happens to run."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        repeat = range(loops)
        start = read_ns()
        for _ in repeat:
            call()
        return read_ns() - start
    finally:
        if was_enabled:
            gc.enable()
