"""Bugs that replicated logs have had, planted by replacing a function; the product has no switch.

Each has the number that it has in our list of bugs that the tests must be able to catch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakSet

import pytest

from broker.replica import divergence, leader
from broker.replica.effects import Effect, FollowerFetchAnswered, Truncated
from broker.replica.events import Append, DivergingEpoch, FetchAnswered, FollowerFetch
from broker.replica.follower import PartitionFollower
from broker.replica.follower_fetches import FollowerFetches
from broker.replica.isr import IsrState
from broker.replica.leader import PartitionLeader
from broker.replica.leader_reads import LeaderReads
from broker.replica.ports import ReplicaLog
from broker.replica.produces import Produces
from broker.replica.settings import ReplicaSettings
from kafka_wire.types import Offset
from log.partition_log import PartitionLog
from quorum.metadata import isr
from quorum.metadata.commands import IsrMember
from quorum.metadata.image import MetadataImage
from quorum.metadata.records import PartitionRecord
from tests.broker.replica.judge import EQUAL, LINEARIZABLE, SURVIVE

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    name: str
    plant: Plant
    dies_by: tuple[str, ...]
    seed: int
    """The first one found that kills it."""


def truncates_to_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """1, KIP-101."""
    original = PartitionFollower.__init__

    def mutant(
        self: PartitionFollower,
        *,
        partition: PartitionRecord,
        log: ReplicaLog,
        settings: ReplicaSettings,
        emit: Callable[[Effect], None],
    ) -> None:
        log.truncate_to(log.high_watermark)
        emit(Truncated(end_offset=log.high_watermark, diverging=None))
        original(self, partition=partition, log=log, settings=settings, emit=emit)

    patch.setattr(PartitionFollower, "__init__", mutant)


def truncates_by_offset_of_next_epoch(patch: pytest.MonkeyPatch) -> None:
    """2, KIP-279: the leader names an offset without the epoch that ends there."""

    def divergence_of(log: ReplicaLog, fetch: FollowerFetch) -> DivergingEpoch | None:
        epoch = fetch.last_fetched_epoch
        end = None if epoch is None else log.end_of_epoch(epoch)
        end_offset = log.log_end_offset if end is None else end.end_offset
        if end_offset >= fetch.fetch_offset:
            return None
        return DivergingEpoch(epoch=epoch, end_offset=end_offset)

    patch.setattr(leader, "divergence_of", divergence_of)


def joins_before_epoch_start(patch: pytest.MonkeyPatch) -> None:
    """3, KAFKA-7128."""

    def mutant(self: PartitionLeader, log_end_offset: Offset) -> bool:
        return log_end_offset >= self._log.high_watermark

    patch.setattr(PartitionLeader, "_has_reached", mutant)


def broker_epochs_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """4, KIP-903: the controller lets a member join whatever registration was meant."""

    def mutant(image: MetadataImage, member: IsrMember, *, joins: bool) -> str | None:
        return None if image.is_active(member.broker_id) or not joins else "is not active"

    patch.setattr(isr, "_why_ineligible", mutant)


def unflushed_records_count(patch: pytest.MonkeyPatch) -> None:
    """5, KIP-966: what is in the page cache is acknowledged."""
    patch.setattr(PartitionLog, "durable_end_offset", property(lambda log: log.log_end_offset))


def new_leader_reads_at_once(patch: pytest.MonkeyPatch) -> None:
    """7, KAFKA-12619 (KIP-207)."""
    patch.setattr(LeaderReads, "is_readable", lambda _: True)


def raises_high_watermark_before_truncation(patch: pytest.MonkeyPatch) -> None:
    """8, KAFKA-14704."""
    original = PartitionFollower._take

    def diverges(self: FollowerFetches, request: FollowerFetch, diverging: DivergingEpoch) -> None:
        self._emit(
            FollowerFetchAnswered(
                request_id=request.request_id,
                diverging=diverging,
                high_watermark=self._log.high_watermark,
                leader_epoch=self._leader_epoch,
            )
        )

    raised: WeakSet[PartitionFollower] = WeakSet()

    def take(self: PartitionFollower, answer: FetchAnswered, now_ms: int) -> None:
        """The first time it takes the high watermark, the second time it cuts its log."""
        if answer.diverging is not None and self not in raised:
            raised.add(self)
            self._raise_high_watermark(answer)
        else:
            original(self, answer, now_ms)

    patch.setattr(FollowerFetches, "diverges", diverges)
    patch.setattr(PartitionFollower, "_take", take)


def diverging_fetch_is_credited(patch: pytest.MonkeyPatch) -> None:
    """9, KAFKA-13141."""
    original = PartitionLeader._follower_fetch

    def mutant(self: PartitionLeader, event: FollowerFetch, now_ms: int) -> None:
        progress = self._followers.get(event.replica_id)
        if progress is not None and divergence.divergence_of(self._log, event) is not None:
            end_offset = self._log.log_end_offset
            progress.registered(event.broker_epoch)
            fetched = min(event.fetch_offset, end_offset)
            progress.fetched(fetched, leader_end_offset=end_offset, now_ms=now_ms)
            self._advance_high_watermark()
            self._review_isr(now_ms)
        original(self, event, now_ms)

    patch.setattr(PartitionLeader, "_follower_fetch", mutant)


# ------------------------------------------------------------- more of the rules, left out


def small_isr_commits(patch: pytest.MonkeyPatch) -> None:
    """Rules 2 and 4, NOFREEZE."""
    patch.setattr(IsrState, "is_below_min", property(lambda _: False))


def reads_need_no_lease(patch: pytest.MonkeyPatch) -> None:
    """NOLEASE."""

    def mutant(self: LeaderReads, answer: Effect) -> None:
        self._emit(answer)

    patch.setattr(LeaderReads, "_emit_under_lease", mutant)


def acknowledges_at_append(patch: pytest.MonkeyPatch) -> None:
    """Rule 4, ACK_AT_APPEND."""
    original = Produces.append

    def mutant(self: Produces, event: Append, *, is_below_min: bool, now_ms: int) -> bool:
        grown = original(self, event, is_below_min=is_below_min, now_ms=now_ms)
        self.committed(self._log.log_end_offset)
        return grown

    patch.setattr(Produces, "append", mutant)


MUTANTS = (
    Mutant("1: KIP-101", truncates_to_high_watermark, (SURVIVE,), 0),
    Mutant("2: KIP-279", truncates_by_offset_of_next_epoch, (EQUAL, SURVIVE), 66),
    Mutant("3: KAFKA-7128", joins_before_epoch_start, (SURVIVE,), 3),
    Mutant("4: KIP-903", broker_epochs_are_not_compared, (SURVIVE,), 0),
    Mutant("5: KIP-966", unflushed_records_count, (SURVIVE,), 3),
    Mutant("7: KAFKA-12619", new_leader_reads_at_once, (LINEARIZABLE,), 0),
    Mutant("8: KAFKA-14704", raises_high_watermark_before_truncation, (EQUAL,), 0),
    Mutant("9: KAFKA-13141", diverging_fetch_is_credited, (EQUAL, SURVIVE), 181),
    Mutant("NOLEASE", reads_need_no_lease, (LINEARIZABLE,), 4),
    Mutant("NOFREEZE", small_isr_commits, (SURVIVE,), 5),
    Mutant("ACK_AT_APPEND", acknowledges_at_append, (SURVIVE,), 0),
)
