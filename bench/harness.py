"""The harness of all benchmarks: comparisons with peers in one run, judged by ratios.

    def main() -> int:
        suite = Suite("wire")
        suite.compare(
            "Produce decode, 1x1x16 KB",
            ours=decode_ours,
            peers={"kio": decode_kio},
            target=Ratio(at_most=2.0, peer="kio"),
        )
        suite.measure("import", python_ms("import kafka_wire"), target=Limit(at_most=150))
        return suite.finish()

    if __name__ == "__main__":
        sys.exit(main())

`finish()` prints the table and writes `bench/results/NAME.json`: commit, command, machine, peer
versions, date, raw samples, medians, ratios and targets. Only ratios are judged: it returns 1 if a
`Ratio` or `Speedup` is missed. A `Limit` on a plain measurement depends on the machine, so it is
shown and not judged. With `--quick` the effort is small and nothing is written.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.results import (
    OURS,
    RESULTS_DIR,
    Comparison,
    Measurement,
    Results,
    peer_versions,
    provenance,
)
from bench.tables import render_table
from bench.timing import QUICK, Clock, Effort, Spread, interleave

__all__ = ["Clock", "Effort", "Limit", "Ratio", "Speedup", "Suite", "python_ms", "wall_ms"]

_MEASUREMENT_SAMPLES = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Our time is at most so many times the peer's. Without `peer`, the fastest peer's."""

    at_most: float
    peer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """We are at least so many times faster than the peer. Without `peer`, than the fastest."""

    at_least: float
    peer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bound on a plain measurement, in its unit. Shown, not judged."""

    at_most: float


class Suite:
    """One benchmark file: it compares and measures, then `finish()` reports."""

    def __init__(
        self,
        name: str,
        *,
        distributions: Mapping[str, str] | None = None,
        arguments: Sequence[str] | None = None,
        effort: Effort | None = None,
        results_dir: Path = RESULTS_DIR,
    ) -> None:
        """`distributions` maps a peer's label to its distribution, where the two differ."""
        given = list(sys.argv[1:] if arguments is None else arguments)
        self._quick = "--quick" in given
        self._effort = effort or (QUICK if self._quick else Effort())
        self._results_dir = results_dir
        self._distributions = dict(distributions or {})
        self._name = name
        self._command = " ".join(["python -m", f"bench.{name}", *given])
        self._comparisons: list[Comparison] = []
        self._measurements: list[Measurement] = []
        self._missed: list[str] = []

    def compare(
        self,
        label: str,
        *,
        ours: Callable[[], object],
        peers: Mapping[str, Callable[[], object]],
        target: Ratio | Speedup | None = None,
        clock: Clock = Clock.CPU,
    ) -> Comparison:
        """Time ours and the peers in interleaved rounds and take the ratios within each round."""
        if not peers or OURS in peers:
            raise ValueError(f"{label}: peers must not be empty nor contain {OURS!r}")
        candidates = {OURS: ours, **peers}
        samples = interleave(candidates, effort=self._effort, clock=clock)
        ratios = {
            peer: Spread.of([a / b for a, b in zip(samples[OURS], samples[peer], strict=True)])
            for peer in peers
        }
        against = _resolve_peer(label, target, samples, peers)
        met = None
        if target is not None and against is not None:
            met = _is_met(target, ratios[against].median)
            if not met:
                self._missed.append(label)
        result = Comparison(
            label=label,
            clock=clock.value,
            samples_ns=samples,
            times_ns={name: asdict(Spread.of(values)) for name, values in samples.items()},
            ratios={peer: asdict(spread) for peer, spread in ratios.items()},
            target=_target_text(target, against),
            met=met,
        )
        self._comparisons.append(result)
        return result

    def measure(
        self,
        label: str,
        sample: Callable[[], float],
        *,
        unit: str = "ms",
        target: Limit | None = None,
        samples: int = _MEASUREMENT_SAMPLES,
    ) -> Measurement:
        """Record a plain number: `sample()` measures once and returns it in `unit`."""
        count = min(samples, QUICK.rounds) if self._quick else samples
        values = [sample() for _ in range(count)]
        spread = Spread.of(values)
        result = Measurement(
            label=label,
            unit=unit,
            samples=values,
            value=asdict(spread),
            target=f"at most {target.at_most:g} {unit}" if target is not None else None,
            met=spread.median <= target.at_most if target is not None else None,
        )
        self._measurements.append(result)
        return result

    def finish(self) -> int:
        """Print the table, write the results, and return 1 if a ratio is missed, else 0."""
        peers = sorted({peer for item in self._comparisons for peer in item["ratios"]})
        results = Results(
            name=self._name,
            **provenance(self._command),
            peers=peer_versions(peers, self._distributions),
            comparisons=self._comparisons,
            measurements=self._measurements,
        )
        sys.stdout.write(render_table(results) + "\n")
        if not self._quick:
            results_file = self._results_dir / f"{self._name}.json"
            results.write(results_file)
            sys.stdout.write(f"written: {results_file.name}\n")
        for label in self._missed:
            sys.stdout.write(f"missed: {label}\n")
        return 1 if self._missed else 0


def python_ms(code: str) -> Callable[[], float]:
    """A measurement: wall milliseconds of `code` in a fresh interpreter, without its start-up."""
    script = (
        "import time; start = time.perf_counter_ns()\n"
        f"{code}\n"
        "print((time.perf_counter_ns() - start) / 1e6)"
    )

    def sample() -> float:
        done = subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True
        )
        return float(done.stdout.split()[-1])

    return sample


def wall_ms(arguments: Sequence[str]) -> Callable[[], float]:
    """A measurement: wall milliseconds of a whole process."""

    def sample() -> float:
        start = time.perf_counter_ns()
        subprocess.run(list(arguments), check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter_ns() - start) / 1e6

    return sample


def _resolve_peer(
    label: str,
    target: Ratio | Speedup | None,
    samples: Mapping[str, Sequence[float]],
    peers: Mapping[str, object],
) -> str | None:
    if target is None:
        return None
    if target.peer is None:
        return min(peers, key=lambda peer: Spread.of(samples[peer]).median)
    if target.peer not in peers:
        raise ValueError(f"{label}: the target's peer {target.peer!r} is not compared")
    return target.peer


def _is_met(target: Ratio | Speedup, ratio: float) -> bool:
    match target:
        case Ratio():
            return ratio <= target.at_most
        case Speedup():
            return 1 / ratio >= target.at_least


def _target_text(target: Ratio | Speedup | None, peer: str | None) -> str | None:
    match target:
        case None:
            return None
        case Ratio():
            return f"at most {target.at_most:g}x the time of {peer}"
        case Speedup():
            return f"at least {target.at_least:g}x faster than {peer}"
