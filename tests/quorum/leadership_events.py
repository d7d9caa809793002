"""Who led when, as the voters' own records say, laid beside what was done to them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from tests.quorum.fleet import Deed, Fault, Fleet


class LeadershipEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A voter says that it became the active leader of a term, or that it is not."""

    t_ns: int
    """The host's monotonic clock."""
    pid: int
    voter_id: int
    term: int
    is_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """What the records say of the kills."""

    total: int
    of_leaders: int


def count_kills(faults: Iterable[Fault], events: Sequence[LeadershipEvent]) -> Kills:
    """A kill hit the leader if the process had said that it is the active leader, had not taken it
    back, and nobody had said so of a later term."""
    kills = [fault for fault in faults if fault.deed is Deed.KILL]
    return Kills(total=len(kills), of_leaders=sum(_led(kill, events) for kill in kills))


def _led(kill: Fault, events: Sequence[LeadershipEvent]) -> bool:
    before = [event for event in events if event.t_ns < kill.t_ns]
    own = [event for event in before if event.pid == kill.pid and event.voter_id == kill.voter_id]
    if not own or not own[-1].is_active:
        return False
    return own[-1].term == max(event.term for event in before if event.is_active)


def newest_leader(events: Iterable[LeadershipEvent], fleet: Fleet) -> int | None:
    """The voter that became active last, unless it is down or paused."""
    active = [event for event in events if event.is_active]
    if not active:
        return None
    newest = max(active, key=lambda event: event.term)
    is_there = fleet.pid(newest.voter_id) == newest.pid and newest.voter_id not in fleet.paused
    return newest.voter_id if is_there else None
