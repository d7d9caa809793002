"""What the replication core calls: the log of its partition, and the broker's lease.

Nothing here waits. `log.PartitionLog` is a `ReplicaLog` as it stands.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from kafka_wire.types import LeaderEpoch, Offset
from log.epochs import EpochEnd, LeaderEpochs
from log.partition_log import Appended, Origin
from log.segment import Slice

Lease: TypeAlias = Callable[[], bool]
"""Whether the broker's lease holds, by a clock that is read in the call (CLOCK_BOOTTIME, rule 18).

It is a call and not an event, because the order counts: the high watermark is taken first and the
lease checked after it (rule 15). A time that was read before the step would turn this around.
"""


class ReplicaLog(Protocol):
    """The log of one partition, as far as replication needs it."""

    @property
    def log_start_offset(self) -> Offset: ...
    @property
    def log_end_offset(self) -> Offset: ...
    @property
    def durable_end_offset(self) -> Offset:
        """What may be acknowledged: flushed, or written if `log.flush.mode` is os."""
        ...

    @property
    def high_watermark(self) -> Offset: ...
    @property
    def last_stable_offset(self) -> Offset: ...
    @property
    def epochs(self) -> LeaderEpochs: ...

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: Origin = ...,
    ) -> Appended: ...
    def append_as_follower(self, data: memoryview, *, now_ms: int) -> Offset: ...
    def read(self, offset: Offset, *, max_bytes: int, end_offset: Offset) -> Slice | None: ...
    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd | None: ...
    def set_high_watermark(self, high_watermark: Offset) -> None: ...
    def truncate_to(self, end_offset: Offset) -> None: ...
    def truncate_fully_and_start_at(self, offset: Offset) -> None: ...
    def advance_log_start(self, offset: Offset) -> int: ...
