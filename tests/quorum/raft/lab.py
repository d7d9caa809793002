"""Clusters of both kinds that live in a time of the test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from quorum.raft.pysyncobj_engine import simulated_time
from tests.quorum.raft.clusters import Clock
from tests.quorum.raft.stock import StockCluster
from tests.quorum.raft.voters import Voters


class Lab:
    """Makes clusters, connected and with the first node as their leader."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def stock(self, *ids: int, **settings: Any) -> StockCluster:
        cluster = StockCluster(self.clock, ids, **settings)
        self._begin(cluster)
        return cluster

    def ours(self, *ids: int, **settings: Any) -> Voters:
        cluster = Voters(self.clock, ids, **settings)
        self._begin(cluster)
        return cluster

    def _begin(self, cluster: StockCluster | Voters) -> None:
        cluster.connect_all()
        cluster.elect(cluster.ids[0], cluster.ids)
        cluster.step(0.5)


@contextmanager
def open_lab() -> Iterator[Lab]:
    clock = Clock()
    with simulated_time(lambda: clock.now_s, Random(1)):
        yield Lab(clock)
