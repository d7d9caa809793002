"""The in-sync replicas as their leader knows them: what is confirmed, and what may be.

    confirmed --propose--> in flight --altered--> confirmed (a newer partition epoch)
                             |
                             +--refused, unknown--> may be proposed again, after a while

Between a proposal and the news of a newer partition epoch nobody but the controller knows the ISR.
So there are two views, and each is used where it is the careful one:

- the maximal ISR, which is the confirmed one and everybody proposed since, holds the high watermark
  back (rule 2);
- the confirmed ISR is counted against the min ISR (rule 10).

A refusal and an unknown outcome take nobody out of the maximal ISR: the same request may still be
on its way a second time, and be accepted then (rule 11). Only a newer partition epoch does, or a
newer registration of the proposed broker, since the controller compares broker epochs (KIP-903)
and metadata comes in order: had the proposal been accepted before, we would know.
"""

from collections.abc import Mapping

from broker.replica.events import BrokerState, IsrAltered, ProposalId
from floodmark.invariant import invariant
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerEpoch, BrokerId, PartitionEpoch


class IsrState:
    """Lives as long as the leader epoch."""

    def __init__(self, partition: PartitionRecord) -> None:
        self.committed: tuple[BrokerId, ...] = partition.isr
        self.partition_epoch: PartitionEpoch = partition.partition_epoch
        self.min_isr: int = partition.effective_min_isr
        self.is_recovering: bool = partition.is_recovering
        self.retry_at_ms: int | None = None
        """After a refusal nothing is proposed before."""
        self.in_flight: ProposalId | None = None
        self._proposed: dict[BrokerId, BrokerEpoch] = {}
        self._last_proposal = 0
        self.maximal: tuple[BrokerId, ...] = self.committed

    @property
    def is_below_min(self) -> bool:
        """Rule 10: by the confirmed ISR, and the min ISR of the same partition epoch."""
        return len(self.committed) < self.min_isr

    @property
    def proposed(self) -> tuple[BrokerId, ...]:
        """Who may have joined."""
        return tuple(sorted(self._proposed))

    def may_propose(self, now_ms: int) -> bool:
        return self.in_flight is None and (self.retry_at_ms is None or now_ms >= self.retry_at_ms)

    def propose(self, joining: Mapping[BrokerId, BrokerEpoch]) -> ProposalId:
        """From now on whoever joins counts as a member."""
        invariant(self.in_flight is None, "one proposal at a time", in_flight=self.in_flight)
        self._last_proposal += 1
        self.in_flight = ProposalId(self._last_proposal)
        self.retry_at_ms = None
        self._proposed.update(joining)
        self._find_maximal()
        return self.in_flight

    def altered(self, answer: IsrAltered) -> bool:
        """A committed answer; returns whether it was news. Metadata may have overtaken it."""
        if self.in_flight == answer.proposal_id:
            self.in_flight = None
        return self._confirm(
            partition_epoch=answer.partition_epoch,
            isr=answer.isr,
            min_isr=answer.effective_min_isr,
            is_recovering=False,
        )

    def learned(self, partition: PartitionRecord) -> bool:
        """Metadata of this leader epoch; returns whether it was news."""
        return self._confirm(
            partition_epoch=partition.partition_epoch,
            isr=partition.isr,
            min_isr=partition.effective_min_isr,
            is_recovering=partition.is_recovering,
        )

    def not_altered(self, proposal_id: ProposalId, *, retry_at_ms: int) -> None:
        """Refused, or unknown: nothing is rolled back (rule 11)."""
        if self.in_flight == proposal_id:
            self.in_flight = None
            self.retry_at_ms = retry_at_ms

    def learned_brokers(self, brokers: Mapping[BrokerId, BrokerState]) -> bool:
        """Drops proposals that can never be accepted; returns whether there were any."""
        dead = [
            broker_id
            for broker_id, broker_epoch in sorted(self._proposed.items())
            if broker_id in brokers and brokers[broker_id].broker_epoch > broker_epoch
        ]
        for broker_id in dead:
            del self._proposed[broker_id]
        self._find_maximal()
        return bool(dead)

    def _confirm(
        self,
        *,
        partition_epoch: PartitionEpoch,
        isr: tuple[BrokerId, ...],
        min_isr: int,
        is_recovering: bool,
    ) -> bool:
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self.committed = isr
        self.min_isr = min_isr
        self.is_recovering = is_recovering
        # What was proposed on top of an older partition epoch is refused from now on (rule 5).
        self._proposed.clear()
        self.in_flight = None
        self.retry_at_ms = None
        self._find_maximal()
        return True

    def _find_maximal(self) -> None:
        self.maximal = tuple(sorted({*self.committed, *self._proposed}))
