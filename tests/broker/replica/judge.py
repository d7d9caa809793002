"""What was promised to whom, and whether it was kept. Knows everything; the replicas do not."""

from dataclasses import dataclass, field

from jepsen_style.sim.world import Violation
from kafka_wire.records import iter_batches, iter_records
from kafka_wire.types import LeaderEpoch, Offset
from log.partition_log import PartitionLog

SURVIVE = "committed records survive"
EQUAL = "logs are equal up to the high watermark"
ONE_LEADER = "one leader in an epoch"
MONOTONIC = "a leader's high watermark never goes back"
LINEARIZABLE = "a read sees what was acknowledged before it began"
LIVE = "the partition comes back once the faults are over"


def values_below(log: PartitionLog, end: int, start: int = 0) -> list[bytes]:
    """The values of the offsets from `start` to `end`."""
    values: list[bytes] = []
    offset = Offset(start)
    while offset < end:
        part = log.read(offset, max_bytes=1_000_000, end_offset=log.log_end_offset)
        if part is None:
            break
        for header, batch in iter_batches(part.read()):
            values += [
                record.value or b""
                for record in iter_records(batch)
                if start <= record.offset < end
            ]
            offset = header.next_offset
    return values


@dataclass
class Judge:
    """The committed records, in order, and what every reader must see by now."""

    committed: list[bytes] = field(default_factory=list)
    must: int = 0
    """Readers that begin now must see the records below this offset."""
    acknowledged: int = 0
    reads: int = 0
    leaders: dict[LeaderEpoch, tuple[int, int]] = field(default_factory=dict)
    high_watermarks: dict[LeaderEpoch, int] = field(default_factory=dict)
    compared: dict[tuple[int, int], int] = field(default_factory=dict)

    def leads(self, who: tuple[int, int], epoch: LeaderEpoch, log: PartitionLog | None) -> None:
        """A process has become leader: it is the only one; and it has everything, unless its epoch
        was over before it began."""
        other = self.leaders.setdefault(epoch, who)
        if other != who:
            raise Violation(ONE_LEADER, f"{other} and {who} lead in epoch {epoch}")
        if log is not None:
            self.holds_everything(who, log)

    def holds_everything(self, who: tuple[int, int], log: PartitionLog) -> None:
        have = values_below(log, len(self.committed))
        if have != self.committed:
            raise Violation(SURVIVE, f"{who} has {have[-5:]}, committed is {self.committed[-5:]}")

    def high_watermark(
        self,
        who: tuple[int, int],
        log: PartitionLog,
        high_watermark: int,
        leader_epoch: LeaderEpoch | None,
    ) -> None:
        """A replica says that everything below is committed."""
        if leader_epoch is not None:
            before = self.high_watermarks.get(leader_epoch, 0)
            if high_watermark < before:
                raise Violation(MONOTONIC, f"{who}: from {before} to {high_watermark}")
            self.high_watermarks[leader_epoch] = high_watermark
        start = min(self.compared.get(who, 0), high_watermark)
        self.compared[who] = high_watermark
        for offset, value in enumerate(values_below(log, high_watermark, start), start):
            self._is_committed(who, offset, value)

    def truncated(self, who: tuple[int, int], end_offset: int) -> None:
        self.compared[who] = min(self.compared.get(who, 0), end_offset)

    def acknowledges(self, who: tuple[int, int], offset: int, value: bytes) -> None:
        """A producer was told that its record is committed at an offset."""
        if offset >= len(self.committed) or self.committed[offset] != value:
            raise Violation(SURVIVE, f"{who} acknowledged {value!r} at {offset}: it is not there")
        self.must = max(self.must, offset + 1)
        self.acknowledged += 1

    def reads_until(
        self, who: tuple[int, int], must: int, high_watermark: int, values: list[bytes]
    ) -> None:
        """A reader that began when it had to see `must` was shown this."""
        if high_watermark < must:
            raise Violation(LINEARIZABLE, f"{who} shows {high_watermark} records, not {must}")
        if values != self.committed[: len(values)]:
            raise Violation(EQUAL, f"{who} shows {values[-5:]}")
        self.must = max(self.must, high_watermark)
        self.reads += 1

    def _is_committed(self, who: tuple[int, int], offset: int, value: bytes) -> None:
        if offset < len(self.committed):
            if self.committed[offset] != value:
                raise Violation(
                    EQUAL,
                    f"{who} has {value!r} at {offset}, committed is {self.committed[offset]!r}",
                )
        else:
            self.committed.append(value)
