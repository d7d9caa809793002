"""What a replica wants done. The driver runs them in their order.

Nothing needs to wait for the disk here: whatever may be said only after a flush is an effect of
`FlushCompleted`, not of the append before it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from broker.replica.events import DivergingEpoch, FetchId, ProposalId, RequestId
from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch, Offset
from log.segment import Slice
from quorum.metadata.commands import IsrMember
from quorum.metadata.types import BrokerId, PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFlush:
    """Flush the log, then say `FlushCompleted` (or `StorageFailed`). One at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceAnswered:
    """With acks=0 too, where the driver has nobody to tell but may have a connection to close."""

    request_id: RequestId
    error: ErrorCode | None = None
    message: str | None = None
    base_offset: Offset | None = None
    log_append_time_ms: int | None = None
    log_start_offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetchAnswered:
    request_id: RequestId
    error: ErrorCode | None = None
    records: Slice | None = None
    diverging: DivergingEpoch | None = None
    high_watermark: Offset | None = None
    log_start_offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None
    leader: BrokerId | None = None
    """Who leads now, as far as we know: the asker need not wait for its metadata (KIP-951)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswered:
    """For `Read`; also for `ReadLatest`, which has no records."""

    request_id: RequestId
    error: ErrorCode | None = None
    records: Slice | None = None
    high_watermark: Offset | None = None
    last_stable_offset: Offset | None = None
    log_start_offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None
    leader: BrokerId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Send AlterPartition, and say `IsrAltered`, `IsrRefused` or `IsrUnknown`."""

    proposal_id: ProposalId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    new_isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced:
    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFromLeader:
    """Ask the leader for records from `fetch_offset` on, everything below which is flushed.

    The driver answers with exactly one `FetchAnswered` or `FetchFailed`, unless the epoch is over.
    """

    fetch_id: FetchId
    leader: BrokerId
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """The follower has cut its log, and forced that to disk; to be logged."""

    end_offset: Offset
    diverging: DivergingEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChanged:
    """To be logged; and the fetcher forgets what it knew of this partition."""

    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    is_leader: bool


Effect: TypeAlias = (
    RequestFlush
    | ProduceAnswered
    | FollowerFetchAnswered
    | ReadAnswered
    | ProposeIsr
    | HighWatermarkAdvanced
    | FetchFromLeader
    | Truncated
    | RoleChanged
)
