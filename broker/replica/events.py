"""What happens to a replica. Requests carry an id of the driver's, under which they are answered.

Deadlines are on the same clock as the `now_ms` of `step`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NewType, TypeAlias

from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import LeaderEpoch, Offset
from log.partition_log import Origin
from quorum.metadata.records import PartitionRecord
from quorum.metadata.types import BrokerEpoch, BrokerId, PartitionEpoch

RequestId = NewType("RequestId", int)
ProposalId = NewType("ProposalId", int)
FetchId = NewType("FetchId", int)
"""Of a follower's fetch, within its leader epoch."""


class Acks(Enum):
    """Whose copy a producer waits for."""

    NONE = auto()
    LEADER = auto()
    ALL = auto()


class Isolation(Enum):
    READ_UNCOMMITTED = auto()
    READ_COMMITTED = auto()


# ----------------------------------------------------------------------------------- metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker that replicates the partition, according to the metadata."""

    broker_epoch: BrokerEpoch
    is_eligible: bool
    """Neither fenced nor shutting down: the controller would let it join an ISR (KIP-841)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChanged:
    """The partition, and the brokers that replicate it, in one and the same metadata image."""

    partition: PartitionRecord
    brokers: Mapping[BrokerId, BrokerState]


# ------------------------------------------------------------------------- the partition's log


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushCompleted:
    """The flush that `RequestFlush` asked for is done, and the log knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFailed:
    """The log went offline: this replica neither leads nor follows any more."""


# ------------------------------------------------------------------------ requests to a leader


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """A produced batch. The core hands the bytes to the log and does not look at them."""

    request_id: RequestId
    batch: bytearray | memoryview
    acks: Acks
    deadline_ms: int
    leader_epoch: LeaderEpoch | None = None
    """What the sender takes for the leader epoch, where it says so."""
    origin: Origin = Origin.CLIENT


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """A follower asks for records, and says so that it has flushed everything below."""

    request_id: RequestId
    replica_id: BrokerId
    broker_epoch: BrokerEpoch
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch | None
    max_bytes: int
    deadline_ms: int | None = None
    """Until when it waits for news; None: not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A consumer asks for records."""

    request_id: RequestId
    fetch_offset: Offset
    max_bytes: int
    leader_epoch: LeaderEpoch | None = None
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    deadline_ms: int | None = None
    """Until when it waits for the first batch; None: not at all."""
    from_follower: bool = False
    """The consumer is content with a committed prefix (KIP-392)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLatest:
    """ListOffsets: where does the partition end for a reader?"""

    request_id: RequestId
    leader_epoch: LeaderEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRead:
    """Nobody waits for this read any more."""

    request_id: RequestId


# --------------------------------------------------------------------- answers of the controller


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAltered:
    """AlterPartition was committed: the answer left only after that (rule 12)."""

    proposal_id: ProposalId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    effective_min_isr: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRefused:
    proposal_id: ProposalId
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrUnknown:
    """Nobody knows what became of the proposal."""

    proposal_id: ProposalId


# ---------------------------------------------------------------------- answers of the leader


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergingEpoch:
    """The largest epoch of the leader's that is not above the follower's, and where it ends."""

    epoch: LeaderEpoch | None
    """None: the leader's log is empty."""
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswered:
    """What the leader answered to `FetchFromLeader` of this epoch and id."""

    leader_epoch: LeaderEpoch
    fetch_id: FetchId
    high_watermark: Offset | None = None
    log_start_offset: Offset | None = None
    records: memoryview | None = None
    diverging: DivergingEpoch | None = None
    error: ErrorCode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailed:
    """No answer came, and none will."""

    leader_epoch: LeaderEpoch
    fetch_id: FetchId


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """`deadline_ms` has come."""


Event: TypeAlias = (
    MetadataChanged
    | FlushCompleted
    | StorageFailed
    | Append
    | FollowerFetch
    | Read
    | ReadLatest
    | CancelRead
    | IsrAltered
    | IsrRefused
    | IsrUnknown
    | FetchAnswered
    | FetchFailed
    | Tick
)
