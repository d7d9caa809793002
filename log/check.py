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

    The checksum covers neither a batch's offset nor its epoch. An epoch must not go back, and must
    be the one that was written down for that offset, where that was synced.

    An offset must be the one that is expected next, or a later one: compaction leaves gaps, also
    in the logs of followers, and they stay when a topic is no longer compacted. A crash leaves no
    gaps within a file, but a flipped bit looks like one. So a later offset is believed only if
    what follows agrees with it, or if nothing follows, the recovery point.
    """

    def __init__(self, *, start: Offset, known_epochs: LeaderEpochs, known_end: Offset) -> None:
        self.expected = start
        """The offset that the next batch should have: up to here all is well."""
        self._known_epochs = known_epochs
        self._known_end = known_end
        self._epoch: LeaderEpoch | None = None

    def first_bad(self, segment: Segment, following: Segment | None) -> Bad | None:
        """The first bad batch of the next segment, which another one may follow."""
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
            if reason is None and header.base_offset > self.expected:
                reason = self._doubt(header, segment, position, following)
            if reason is not None:
                return Bad(position, reason)
            self._epoch = header.leader_epoch
            self.expected = header.next_offset
            position += header.size_bytes
        return None

    def _doubt(
        self, header: BatchHeader, segment: Segment, position: int, following: Segment | None
    ) -> str | None:
        """What speaks against a batch that lies behind a gap."""
        next_offset = None if following is None else following.base_offset
        end = position + header.size_bytes
        if end < segment.size_bytes:
            try:
                next_offset = parse_header(segment.file.read(HEADER_SIZE_BYTES, end)).base_offset
            except WireError:
                next_offset = None
        if next_offset is None:
            # Nothing follows. But the log has ended at the recovery point once.
            agrees = not self.expected < self._known_end < header.next_offset
        else:
            agrees = next_offset >= header.next_offset
        return None if agrees else self._out_of_place(header)

    def _out_of_place(self, header: BatchHeader) -> str:
        return f"offset {header.base_offset} follows where {self.expected} should"

    def _objection(self, header: BatchHeader) -> str | None:
        if header.base_offset < self.expected:
            return self._out_of_place(header)
        epoch = header.leader_epoch
        if epoch is None or (self._epoch is not None and epoch < self._epoch):
            return f"leader epoch {epoch} follows {self._epoch}"
        if header.base_offset < self._known_end:
            known = self._known_epochs.epoch_at(header.base_offset)
            if known is not None and known != epoch:
                return f"leader epoch {epoch} stands where {known} was written"
        return None
