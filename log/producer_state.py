"""What the log knows of its producers (KIP-98): sequences for idempotence, open transactions.

Two questions are answered from here. Is this batch new, a duplicate, or out of order? And up to
which offset is every transaction decided, so that a reader of committed records may go there?

* The last five batches of a producer are remembered, as many as a client may have in flight. A
  duplicate of one of them is answered with the offset that it got the first time.
* A transaction is open from its first batch until its marker. Until the high watermark has passed
  the marker it holds readers back all the same, for the marker could yet be lost.

The state is a function of the log: `update` in the order of the batches gives it, from nothing or
from a snapshot (`log.producer_snapshot`).
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.records import BatchHeader, EndTransactionMarker
from kafka_wire.types import Offset, ProducerEpoch, ProducerId, Sequence

BATCHES_KEPT: Final = 5
_LAST_SEQUENCE: Final = 2**31 - 1


class KnownBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch that a producer has written."""

    first_sequence: Sequence
    last_sequence: Sequence
    first_offset: Offset
    last_offset: Offset
    timestamp_ms: int | None


class CompletedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction and the offset of the marker that ended it."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class ProducerEntry:
    """One producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_timestamp_ms",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: deque[KnownBatch] = deque(maxlen=BATCHES_KEPT)
        self.coordinator_epoch: int | None = None
        self.last_timestamp_ms: int | None = None
        self.transaction_first_offset: Offset | None = None

    def duplicate_of(self, header: BatchHeader) -> KnownBatch | None:
        """The batch that was written before with the same epoch and sequences."""
        if header.producer_epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            if (
                batch.first_sequence == header.base_sequence
                and batch.last_sequence == header.last_sequence
            ):
                return batch
        return None

    def check_sequence(self, header: BatchHeader) -> None:
        """Refuses a batch of an old epoch, and one that leaves a gap."""
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch is None or sequence is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a producer id needs epoch and sequence")
        if epoch < self.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id} has epoch {self.producer_epoch}, got {epoch}",
            )
        if epoch > self.producer_epoch:
            expected = 0
        elif not self.batches:
            return  # All that is known of the producer is a marker.
        else:
            last = self.batches[-1].last_sequence
            expected = 0 if last == _LAST_SEQUENCE else last + 1
        if sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {self.producer_id}, epoch {epoch}: "
                f"expected sequence {expected}, got {sequence}",
            )


class ProducerState:
    """All producers of a partition."""

    def __init__(self) -> None:
        self._entries: dict[ProducerId, ProducerEntry] = {}
        self._open: dict[Offset, ProducerId] = {}
        """Open transactions by first offset; offsets only grow, so the first is the lowest."""
        self._undecided: dict[Offset, CompletedTransaction] = {}
        """Ended transactions whose markers are not below the high watermark yet."""

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def entry(self, producer_id: ProducerId) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def restore(self, entry: ProducerEntry) -> None:
        """Takes an entry from a snapshot, in ascending order of open transactions."""
        self._entries[entry.producer_id] = entry
        if entry.transaction_first_offset is not None:
            self._open[entry.transaction_first_offset] = entry.producer_id

    def check(self, header: BatchHeader) -> KnownBatch | None:
        """Whether a client's batch may be appended; a duplicate returns what it got before."""
        if header.producer_id is None:
            return None
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # The producer may have been forgotten after a long silence: any sequence will do.
            return None
        duplicate = entry.duplicate_of(header)
        if duplicate is not None:
            return duplicate
        entry.check_sequence(header)
        if entry.transaction_first_offset is not None and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction and wrote outside of it",
            )
        return None

    def update(self, header: BatchHeader) -> None:
        """Takes note of a batch that was appended; its offsets are final."""
        if header.producer_id is None or header.producer_epoch is None or header.is_control:
            return
        entry = self._entry_of_epoch(header.producer_id, header.producer_epoch)
        if header.base_sequence is not None and header.last_sequence is not None:
            entry.batches.append(
                KnownBatch(
                    header.base_sequence,
                    header.last_sequence,
                    header.base_offset,
                    header.last_offset,
                    header.max_timestamp_ms,
                )
            )
        entry.last_timestamp_ms = header.max_timestamp_ms
        if header.is_transactional and entry.transaction_first_offset is None:
            entry.transaction_first_offset = header.base_offset
            self._open[header.base_offset] = header.producer_id

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Refuses a marker of a fenced producer or of a deposed coordinator."""
        if header.producer_id is None or header.producer_epoch is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a marker needs a producer id and epoch")
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {entry.producer_epoch}, "
                f"the marker has {header.producer_epoch}",
            )
        known = entry.coordinator_epoch
        if known is not None and marker.coordinator_epoch < known:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator of epoch {known} has spoken, this one has "
                f"{marker.coordinator_epoch}",
            )

    def update_marker(
        self, header: BatchHeader, marker: EndTransactionMarker
    ) -> CompletedTransaction | None:
        """Takes note of a marker; returns the transaction that it ends, if one was open."""
        if header.producer_id is None or header.producer_epoch is None:
            return None
        entry = self._entry_of_epoch(header.producer_id, header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = header.max_timestamp_ms
        first_offset = entry.transaction_first_offset
        if first_offset is None:
            return None
        entry.transaction_first_offset = None
        del self._open[first_offset]
        completed = CompletedTransaction(
            header.producer_id, first_offset, header.base_offset, not marker.is_commit
        )
        self._undecided[first_offset] = completed
        return completed

    def on_high_watermark(self, high_watermark: Offset) -> None:
        """Markers below it are safe, and so are the transactions they ended."""
        if self._undecided:
            self._undecided = {
                first: completed
                for first, completed in self._undecided.items()
                if completed.last_offset >= high_watermark
            }

    @property
    def first_open_offset(self) -> Offset | None:
        """Where the oldest open transaction began."""
        return next(iter(self._open), None)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Where readers of committed records must stop, whatever the high watermark is."""
        if not self._open and not self._undecided:
            return None
        candidates = list(self._undecided)
        if self._open:
            candidates.append(next(iter(self._open)))
        return min(candidates)

    def expire(self, before_ms: int) -> int:
        """Forgets producers that are silent since before a time; returns how many."""
        idle = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.transaction_first_offset is None
            and entry.last_timestamp_ms is not None
            and entry.last_timestamp_ms < before_ms
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)

    def _entry_of_epoch(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch
    ) -> ProducerEntry:
        """The producer's entry; what it wrote in an earlier epoch no longer counts."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, producer_epoch)
        elif entry.producer_epoch != producer_epoch:
            entry.producer_epoch = producer_epoch
            entry.batches.clear()
        return entry
