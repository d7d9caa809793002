"""Placement does what Kafka documents of its StripedReplicaPlacer."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import Refused
from quorum.metadata.placement import Randomness, UsableBroker, place

SEEDS = st.integers(0, 2**64)


def brokers(*specification: tuple[int, str | None, bool]) -> list[UsableBroker]:
    return [
        UsableBroker(broker_id=b, rack=rack, fenced=fenced) for b, rack, fenced in specification
    ]


def live(count: int) -> list[UsableBroker]:
    return brokers(*((broker_id, None, False) for broker_id in range(count)))


def placed(
    usable: list[UsableBroker], partitions: int, factor: int, seed: int = 1
) -> tuple[tuple[int, ...], ...]:
    replicas = place(usable, partitions=partitions, replication_factor=factor, seed=seed)
    assert not isinstance(replicas, Refused), replicas
    return replicas


@given(seed=SEEDS)
def test_without_racks_each_partition_starts_one_broker_further(seed: int) -> None:
    replicas = placed(live(5), 5, 3, seed)
    start = replicas[0][0]
    assert replicas == tuple(
        tuple((start + partition + replica) % 5 for replica in range(3)) for partition in range(5)
    )


@given(seed=SEEDS)
def test_start_depends_on_the_seed_and_on_nothing_else(seed: int) -> None:
    assert placed(live(7), 20, 3, seed) == placed(live(7), 20, 3, seed)


def test_different_seeds_start_at_different_brokers() -> None:
    assert {placed(live(5), 1, 1, seed)[0][0] for seed in range(100)} == set(range(5))


@given(seed=SEEDS, count=st.integers(1, 8), rounds=st.integers(1, 5), data=st.data())
def test_leaders_are_spread_evenly_in_every_round(
    seed: int, count: int, rounds: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, count))
    replicas = placed(live(count), count * rounds, factor, seed)
    assert set(Counter(r[0] for r in replicas).values()) == {rounds}


@given(seed=SEEDS, data=st.data())
def test_replicas_are_on_distinct_brokers_and_on_as_many_racks_as_there_are(
    seed: int, data: st.DataObject
) -> None:
    racks = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=9))
    usable = brokers(*((b, rack, False) for b, rack in enumerate(racks)))
    factor = data.draw(st.integers(1, len(usable)))
    of = dict(enumerate(racks))
    sizes = Counter(racks)
    for replicas in placed(usable, 12, factor, seed):
        assert len(set(replicas)) == factor
        assert len({of[b] for b in replicas}) >= min(factor, len(sizes))


@given(seed=SEEDS, data=st.data())
def test_fenced_broker_is_never_first_and_only_taken_when_its_rack_has_no_other(
    seed: int, data: st.DataObject
) -> None:
    fenced = data.draw(st.lists(st.booleans(), min_size=1, max_size=7).filter(lambda f: not all(f)))
    usable = brokers(*((b, None, is_fenced) for b, is_fenced in enumerate(fenced)))
    factor = data.draw(st.integers(1, len(usable)))
    alive = fenced.count(False)
    for replicas in placed(usable, 10, factor, seed):
        assert not fenced[replicas[0]]
        assert sum(fenced[b] for b in replicas) == max(0, factor - alive)


def test_single_live_broker_takes_every_partition() -> None:
    usable = brokers((0, None, False), (1, None, True), (2, None, True))
    assert placed(usable, 3, 1) == ((0,), (0,), (0,))


def test_after_a_full_round_the_order_is_shuffled() -> None:
    replicas = placed(live(6), 600, 2)
    followers = {leader: set[int]() for leader in range(6)}
    for leader, follower in replicas:
        followers[leader].add(follower)
    assert all(len(seen) == 5 for seen in followers.values())


@pytest.mark.parametrize(
    ("usable", "factor"),
    [(live(2), 3), (live(2), 0), (live(2), -1), ([], 1), (brokers((0, None, True)), 1)],
)
def test_impossible_factor_is_refused(usable: list[UsableBroker], factor: int) -> None:
    refused = place(usable, partitions=1, replication_factor=factor, seed=1)
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_random_numbers_are_the_same_everywhere() -> None:
    """The first outputs of SplitMix64 for seed 1234567, as published with the algorithm."""
    randomness = Randomness(1234567)
    assert [randomness.below(2**64) for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
