"""Registers whose written values are unique, in n log n (Gibbons and Korach, 1997).

If every value is written at most once, each read names its write. A write and its reads form a
cluster, and a linearization lays the clusters end to end. Cluster A must begin before cluster B
if some operation of A returned before some operation of B was invoked, which is to say if
`first_return(A) < last_invoke(B)`. The history is linearizable if and only if no read returned
before its write was invoked and no two clusters must each begin before the other.

A cluster with `first_return < last_invoke` is a *forward zone*: the register certainly held its
value all that time. Two clusters exclude each other if two forward zones overlap, or if a forward
zone covers all of another cluster's time; neither can happen between two that are not forward. So
it is enough to look at neighbours.
"""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jepsen_style.operations import Operation, Status

_Time = float  # a time in ns, exact as long as it is an int, or plus or minus infinity
_NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Zones:
    """What the zones say; the conflict is empty if and only if the history is linearizable.

    It is a handful of operations that are not linearizable by themselves.
    """

    conflict: tuple[Operation, ...] = ()

    @property
    def is_linearizable(self) -> bool:
        return not self.conflict


def judge_zones(operations: Sequence[Operation], initial: Hashable) -> Zones | None:
    """Judge the operations of one key, or None where the rule does not apply.

    It does not apply where there is a cas, or where a value was written twice, the initial value
    having been written before the history began.
    """
    clusters = _clusters(operations, initial)
    if clusters is None:
        return None
    for cluster in clusters:
        if cluster.write is None and not cluster.is_initial:
            return Zones(conflict=(cluster.reads[0],))
        for read in cluster.reads:
            if cluster.write is not None and _returned_ns(read) < cluster.write.t_invoke_ns:
                return Zones(conflict=(read, cluster.write))
    pair = _exclusive_pair(clusters)
    return Zones() if pair is None else Zones(conflict=_told(*pair))


@dataclass(slots=True, kw_only=True)
class _Cluster:
    write: Operation | None = None
    is_initial: bool = False
    reads: list[Operation] = field(default_factory=list)
    first_return: _Time = _NEVER
    last_invoke: _Time = -_NEVER

    def add(self, operation: Operation) -> None:
        self.first_return = min(self.first_return, _returned_ns(operation))
        self.last_invoke = max(self.last_invoke, operation.t_invoke_ns)

    @property
    def is_forward(self) -> bool:
        return self.first_return < self.last_invoke


def _clusters(operations: Sequence[Operation], initial: Hashable) -> list[_Cluster] | None:
    """By value. Writes of unknown outcome that nobody read are left out: they need not be."""
    clusters: dict[Hashable, _Cluster] = {
        initial: _Cluster(is_initial=True, first_return=-_NEVER),
    }
    for operation in operations:
        if operation.f == "write":
            cluster = clusters.setdefault(operation.value, _Cluster())
            if cluster.write is not None or cluster.is_initial:
                return None
            cluster.write = operation
            cluster.add(operation)
        elif operation.f != "read":
            return None
        elif operation.status is Status.OK:
            cluster = clusters.setdefault(operation.output, _Cluster())
            cluster.reads.append(operation)
            cluster.add(operation)
    return [
        cluster
        for cluster in clusters.values()
        if cluster.reads or (cluster.write is not None and cluster.write.status is Status.OK)
    ]


def _exclusive_pair(clusters: Sequence[_Cluster]) -> tuple[_Cluster, _Cluster] | None:
    """Two clusters each of which must begin before the other, if there are any."""
    forward = sorted(
        (cluster for cluster in clusters if cluster.is_forward),
        key=lambda cluster: (cluster.first_return, cluster.last_invoke),
    )
    for one, other in pairwise(forward):
        if _exclude(one, other):
            return one, other
    # From here on the forward zones are apart: of those that begin in time, the last ends last.
    begins = [cluster.first_return for cluster in forward]
    for cluster in clusters:
        if not cluster.is_forward:
            index = bisect_left(begins, cluster.last_invoke) - 1
            if index >= 0 and _exclude(forward[index], cluster):
                return forward[index], cluster
    return None


def _exclude(one: _Cluster, other: _Cluster) -> bool:
    return one.first_return < other.last_invoke and other.first_return < one.last_invoke


def _told(one: _Cluster, other: _Cluster) -> tuple[Operation, ...]:
    """Of each cluster its write, what returned first and what was invoked last."""
    told: list[Operation] = []
    for cluster in (one, other):
        members = [*([cluster.write] if cluster.write is not None else []), *cluster.reads]
        for operation in (
            cluster.write,
            min(members, key=_returned_ns),
            max(members, key=lambda each: each.t_invoke_ns),
        ):
            if operation is not None and operation not in told:
                told.append(operation)
    return tuple(sorted(told, key=lambda each: each.t_invoke_ns))


def _returned_ns(operation: Operation) -> _Time:
    if operation.status is not Status.OK or operation.t_return_ns is None:
        return _NEVER
    return operation.t_return_ns
