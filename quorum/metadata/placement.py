"""Where the replicas of new partitions go: rack-aware round robin, as Kafka's StripedReplicaPlacer.

Brokers are lists by rack. The first replica of every partition, its preferred leader, comes from
the next rack that has a live broker; the others follow rack by rack, so that replicas are spread
over as many racks as there are. From partition to partition the start moves on by a rack, and
within each rack by a broker; live brokers come before fenced ones, and only a live one can be
first. After as many partitions as there are live brokers everything is shuffled, so that the same
brokers do not always share partitions.

Randomness comes in as a seed; the numbers made of it are the same on every machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from floodmark.invariant import invariant
from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import Refused
from quorum.metadata.image import MetadataImage
from quorum.metadata.types import BrokerId

_MASK: Final = 2**64 - 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableBroker:
    """A broker that can take replicas."""

    broker_id: BrokerId
    rack: str | None
    fenced: bool


def usable_brokers(image: MetadataImage) -> list[UsableBroker]:
    """All registered brokers but those that are shutting down."""
    return [
        UsableBroker(broker_id=broker_id, rack=broker.rack, fenced=broker.fenced)
        for broker_id, broker in sorted(image.brokers.items())
        if not broker.in_controlled_shutdown
    ]


def place(
    brokers: Iterable[UsableBroker],
    *,
    partitions: int,
    replication_factor: int,
    seed: int,
) -> tuple[tuple[BrokerId, ...], ...] | Refused:
    """The replicas of each of so many partitions, leaders first."""
    racks = _RackList(brokers, Randomness(seed))
    if replication_factor < 1:
        return _refused("a replication factor is at least 1")
    if replication_factor > racks.total:
        return _refused(
            f"the replication factor is {replication_factor} and only {racks.total} brokers are "
            "registered"
        )
    if racks.unfenced == 0:
        return _refused("no broker is alive")
    return tuple(racks.place(replication_factor) for _ in range(partitions))


class Randomness:
    """SplitMix64 (Steele, Lea, Flood 2014): a seed makes the same numbers everywhere."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, bound: int) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % bound

    def shuffle(self, items: list[T]) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


class _BrokerList:
    """Brokers taken round robin; each new round starts one further on."""

    def __init__(self, brokers: list[BrokerId], randomness: Randomness) -> None:
        self._brokers = sorted(brokers)
        self._offset = randomness.below(len(brokers)) if brokers else 0
        self._taken = 0
        self._round = 0

    def next(self, round_number: int) -> BrokerId | None:
        """The next broker of this round; None when all were taken in it."""
        count = len(self._brokers)
        if count == 0:
            return None
        if self._round != round_number:
            self._round = round_number
            self._taken = 0
            self._offset = (self._offset + 1) % count
        if self._taken >= count:
            return None
        broker_id = self._brokers[(self._offset + self._taken) % count]
        self._taken += 1
        return broker_id

    def shuffle(self, randomness: Randomness) -> None:
        randomness.shuffle(self._brokers)


class _Rack:
    def __init__(self, brokers: list[UsableBroker], randomness: Randomness) -> None:
        fenced = [broker.broker_id for broker in brokers if broker.fenced]
        unfenced = [broker.broker_id for broker in brokers if not broker.fenced]
        self._fenced = _BrokerList(fenced, randomness)
        self._unfenced = _BrokerList(unfenced, randomness)

    def next_unfenced(self, round_number: int) -> BrokerId | None:
        return self._unfenced.next(round_number)

    def next(self, round_number: int) -> BrokerId | None:
        unfenced = self._unfenced.next(round_number)
        return self._fenced.next(round_number) if unfenced is None else unfenced

    def shuffle(self, randomness: Randomness) -> None:
        self._fenced.shuffle(randomness)
        self._unfenced.shuffle(randomness)


class _RackList:
    def __init__(self, brokers: Iterable[UsableBroker], randomness: Randomness) -> None:
        by_rack: dict[str, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack or "", []).append(broker)
        self.total = sum(map(len, by_rack.values()))
        self.unfenced = sum(not broker.fenced for rack in by_rack.values() for broker in rack)
        self._racks = [_Rack(by_rack[name], randomness) for name in sorted(by_rack)]
        self._randomness = randomness
        self._round = 0
        self._offset = randomness.below(len(self._racks)) if self._racks else 0

    def place(self, replication_factor: int) -> tuple[BrokerId, ...]:
        """The replicas of one more partition."""
        if self._round == self.unfenced and self.unfenced > 1:
            self._randomness.shuffle(self._racks)
            for rack in self._racks:
                rack.shuffle(self._randomness)
            self._round = 0
        if self._offset == len(self._racks):
            self._offset = 0
        first_rack, leader = self._first()
        replicas = [leader, *self._followers(replication_factor - 1, skip=first_rack)]
        self._round += 1
        self._offset += 1
        return tuple(replicas)

    def _first(self) -> tuple[int, BrokerId]:
        for step in range(len(self._racks)):
            at = (self._offset + step) % len(self._racks)
            leader = self._racks[at].next_unfenced(self._round)
            if leader is not None:
                return at, leader
        invariant(False, "a live broker is in some rack", unfenced=self.unfenced)
        raise LookupError

    def _followers(self, count: int, *, skip: int) -> list[BrokerId]:
        """Rack by rack; the leader's rack is passed over once, it has its replica."""
        followers: list[BrokerId] = []
        at, skipped = self._offset, False
        while len(followers) < count:
            if at == skip and not skipped:
                skipped = True
            else:
                follower = self._racks[at].next(self._round)
                if follower is not None:
                    followers.append(follower)
            at = (at + 1) % len(self._racks)
        return followers


def _refused(message: str) -> Refused:
    return Refused(code=ErrorCode.INVALID_REPLICATION_FACTOR, message=message)
