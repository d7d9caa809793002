"""Whether batches on disk can be what was written: the judgement of recovery."""

from typing import NamedTuple

from kafka_wire.errors import WireError
from kafka_wire.records import BatchHeader, parse_header, validate_batch
from kafka_wire.records.batch import HEADER_SIZE_BYTES
from kafka_wire.types import LeaderEpoch, Offset
from log.epochs import LeaderEpochs
from log.segment import Segment


class Bad(NamedTuple):
    """Where a segment stops making sense, and why."""

    position: int
    reason: str


class BatchCheck:
    """Follows a log batch by batch, and finds the first that cannot follow those before it.

    The checksum covers neither a batch's offset nor its epoch. An offset must be the one that is
    expected next (or a later one, where compaction leaves gaps). An epoch must not go back, and
    must be the one that was written down for that offset, where that was synced.
    """

    def __init__(
        self, *, start: Offset, gaps: bool, known_epochs: LeaderEpochs, known_end: Offset
    ) -> None:
        self.expected = start
        """The offset that the next batch should have: up to here all is well."""
        self._gaps = gaps
        self._known_epochs = known_epochs
        self._known_end = known_end
        self._epoch: LeaderEpoch | None = None

    def first_bad(self, segment: Segment) -> Bad | None:
        """The first bad batch of the next segment."""
        # Compaction leaves gaps within a file, never between two: that is what a crash leaves.
        if segment.base_offset != self.expected:
            return Bad(0, f"the segment before ends at offset {self.expected}")
        position = 0
        while position < segment.size_bytes:
            try:
                header = parse_header(segment.file.read(HEADER_SIZE_BYTES, position))
                if header.size_bytes > segment.size_bytes - position:
                    return Bad(position, "the last batch is torn")
                validate_batch(segment.file.read(header.size_bytes, position))
            except WireError as error:
                return Bad(position, str(error))
            reason = self._objection(header)
            if reason is not None:
                return Bad(position, reason)
            self._epoch = header.leader_epoch
            self.expected = header.next_offset
            position += header.size_bytes
        return None

    def _follows(self, offset: Offset) -> bool:
        return offset == self.expected or (self._gaps and offset > self.expected)

    def _objection(self, header: BatchHeader) -> str | None:
        if not self._follows(header.base_offset):
            return f"offset {header.base_offset} follows where {self.expected} should"
        epoch = header.leader_epoch
        if epoch is None or (self._epoch is not None and epoch < self._epoch):
            return f"leader epoch {epoch} follows {self._epoch}"
        if header.base_offset < self._known_end:
            known = self._known_epochs.epoch_at(header.base_offset)
            if known is not None and known != epoch:
                return f"leader epoch {epoch} stands where {known} was written"
        return None
