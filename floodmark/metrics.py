"""Metrics: plain numbers where things happen, read when somebody scrapes.

Whoever counts does `self.bytes_in += n` and knows nothing of Prometheus. A `Metrics` is told how
to read each number:

    metrics.counter("kafka_server_brokertopicmetrics_bytesin_total", "...", lambda: broker.bytes_in)
    metrics.gauge("kafka_log_log_size", "...", sizes, labels=("topic", "partition"))

A function without labels returns a number (or None: there is nothing to tell now); one with labels
returns numbers by label values. They are called on the thread that scrapes. Where a distribution
matters, `Histogram` counts into buckets for the price of a search among a dozen numbers.
"""

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

logger = logging.getLogger(__name__)

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

LATENCY_BUCKETS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_TOTAL: Final = "_total"
_ERRORS: Final = "floodmark_metrics_read_errors_total"

Read: TypeAlias = Callable[[], float | None]
ReadLabelled: TypeAlias = Callable[[], Mapping[tuple[str, ...], float]]
_Family: TypeAlias = Callable[[], Metric]


class Histogram:
    """Counts of observations by upper bound. One thread observes; any may read."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BUCKETS_S) -> None:
        if not bounds or any(a >= b for a, b in pairwise(bounds)):
            raise ValueError("the bounds of a histogram must rise")
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def sum(self) -> float:
        return self._sum

    def cumulative(self) -> list[tuple[str, float]]:
        """How many observations were at most each bound, as Prometheus wants them."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*self._bounds, float("inf")), list(self._counts), strict=True):
            total += count
            found.append(("+Inf" if bound == float("inf") else str(bound), total))
        return found


class Metrics(Collector):
    """All metrics of a process, and the page that shows them."""

    def __init__(self, *, process: bool = True) -> None:
        """With `process` also the memory, processor time and open files of this process."""
        self._families: dict[str, _Family] = {}
        self._errors_count = 0
        self._registry = CollectorRegistry(auto_describe=False)
        if process:
            for collector in (ProcessCollector, PlatformCollector, GCCollector):
                collector(registry=self._registry)
        self._registry.register(self)
        self.counter(_ERRORS, "Metrics that could not be read.", lambda: self._errors_count)

    def counter(self, name: str, doc: str, read: Read) -> None:
        """A number that only grows; its name ends in `_total`."""
        bare = _bare(name)
        self._add(name, lambda: _with_value(CounterMetricFamily(bare, doc), read()))

    def counters(self, name: str, doc: str, read: ReadLabelled, *, labels: Sequence[str]) -> None:
        bare = _bare(name)
        self._add(name, lambda: _with_values(CounterMetricFamily(bare, doc, labels=labels), read()))

    def gauge(self, name: str, doc: str, read: Read) -> None:
        """A number that goes up and down."""
        self._add(name, lambda: _with_value(GaugeMetricFamily(name, doc), read()))

    def gauges(self, name: str, doc: str, read: ReadLabelled, *, labels: Sequence[str]) -> None:
        self._add(name, lambda: _with_values(GaugeMetricFamily(name, doc, labels=labels), read()))

    def histogram(self, name: str, doc: str, histogram: Histogram) -> None:
        def family() -> Metric:
            found = HistogramMetricFamily(name, doc)
            found.add_metric([], buckets=histogram.cumulative(), sum_value=histogram.sum)
            return found

        self._add(name, family)

    def collect(self) -> Iterable[Metric]:
        """Every family that can be read. One that cannot is logged and counted, and does not
        take the others away from whoever is looking for the cause."""
        for name, family in self._families.items():
            if name != _ERRORS:
                try:
                    yield family()
                except Exception:
                    self._errors_count += 1
                    logger.exception("metric %s cannot be read", name)
        yield self._families[_ERRORS]()  # last, so that it tells of this very scrape

    def exposition(self) -> bytes:
        """The page, in Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self._registry)

    def _add(self, name: str, family: _Family) -> None:
        if name in self._families:
            raise ValueError(f"there is a metric {name} already")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a metric")
        self._families[name] = family


def _bare(name: str) -> str:
    if not name.endswith(_TOTAL):
        raise ValueError(f"the counter {name} must end in {_TOTAL}")
    return name.removesuffix(_TOTAL)


def _with_value(family: CounterMetricFamily | GaugeMetricFamily, value: float | None) -> Metric:
    if value is not None:
        family.add_metric([], value)
    return family


def _with_values(
    family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[tuple[str, ...], float]
) -> Metric:
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
