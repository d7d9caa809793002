"""The lease and the purgatory by themselves."""

from broker.replica import BrokerLease
from broker.replica.events import RequestId
from broker.replica.purgatory import SLACK, OffsetPurgatory
from kafka_wire.types import Offset


def test_lease_counts_from_when_the_heartbeat_was_sent_less_the_drift() -> None:
    lease = BrokerLease()
    assert not lease.holds(0)
    lease.acknowledged(sent_ms=1000, session_timeout_ms=3000)
    assert lease.holds(3849)
    assert not lease.holds(3850)


def test_late_answer_to_an_early_heartbeat_does_not_shorten_the_lease() -> None:
    lease = BrokerLease()
    lease.acknowledged(sent_ms=1000, session_timeout_ms=3000)
    lease.acknowledged(sent_ms=500, session_timeout_ms=3000)
    assert lease.holds(3849)
    lease.revoke()
    assert not lease.holds(1001)


def test_offset_takes_out_exactly_those_that_it_satisfies() -> None:
    purgatory: OffsetPurgatory[str] = OffsetPurgatory()
    for number, end_offset in enumerate((5, 3, 9)):
        purgatory.add(RequestId(number), Offset(end_offset), 100, f"to {end_offset}")
    assert [item for _, item in purgatory.reached(Offset(5))] == ["to 3", "to 5"]
    assert [item for _, item in purgatory.expired(100)] == ["to 9"]
    assert len(purgatory) == 0
    assert purgatory.deadline_ms() is None


def test_polls_that_come_and_go_leave_nothing_behind() -> None:
    purgatory: OffsetPurgatory[None] = OffsetPurgatory()
    for number in range(10 * SLACK):
        purgatory.add(RequestId(number), Offset(1), number, None)
        assert len(list(purgatory.expired(number))) == 1
    assert len(purgatory._by_offset) <= SLACK + 1
