"""Which leader epoch began at which offset (KIP-101, KIP-279).

A follower that comes back asks the leader where an epoch ended, and cuts its log there. So the
answer must never be invented: an epoch that this log has not seen is answered with the next lower
one that it has, and an epoch from the future with nothing.
"""

from bisect import bisect_right
from typing import NamedTuple

from floodmark.invariant import invariant
from kafka_wire.types import LeaderEpoch, Offset
from log.errors import DamagedFileError
from log.text_file import decode_rows, encode_rows, number_of

_KIND = "not a leader epoch checkpoint"


class EpochEntry(NamedTuple):
    """An epoch and the offset of its first batch."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The end of an epoch: the start of the next one, or the end of the log."""

    epoch: LeaderEpoch
    end_offset: Offset


class LeaderEpochs:
    """The epochs of a log in ascending order. Both numbers of an entry only grow."""

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self._entries = entries or []

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> LeaderEpoch | None:
        return self._entries[-1].epoch if self._entries else None

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Takes note of a batch's epoch; returns whether it was a new one."""
        if self._entries:
            latest = self._entries[-1]
            if epoch == latest.epoch:
                return False
            invariant(
                epoch > latest.epoch and start_offset >= latest.start_offset,
                "leader epochs and their start offsets never go back",
                epoch=epoch,
                start_offset=start_offset,
                latest=latest,
            )
            if start_offset == latest.start_offset:
                # The epoch before was empty: nothing was written in it.
                self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_of(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEnd | None:
        """Where the largest epoch not above `epoch` ends; None for one from the future."""
        if not self._entries or epoch > self._entries[-1].epoch:
            return None
        if epoch == self._entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        higher = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if higher == 0:
            # Older than all that is left: nothing of it is here, so it ends where we begin.
            return EpochEnd(epoch, self._entries[0].start_offset)
        return EpochEnd(self._entries[higher - 1].epoch, self._entries[higher].start_offset)

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        """The epoch that the batch at an offset was written in."""
        found = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[found - 1].epoch if found else None

    def truncate_end(self, end_offset: Offset) -> bool:
        """Forgets epochs that begin at or after the log's new end; returns whether any did."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        changed = len(kept) < len(self._entries)
        self._entries = kept
        return changed

    def truncate_start(self, start_offset: Offset) -> bool:
        """Forgets epochs that ended before the log's new start; returns whether any changed."""
        found = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if found == 0 or self._entries[found - 1].start_offset == start_offset == 0:
            return False
        first = EpochEntry(self._entries[found - 1].epoch, start_offset)
        if found == 1 and self._entries[0] == first:
            return False
        self._entries = [first, *self._entries[found:]]
        return True

    def clear(self) -> None:
        self._entries = []


def encode_epochs(entries: tuple[EpochEntry, ...]) -> bytes:
    """The text of `leader-epoch-checkpoint`: version, count, a line per epoch."""
    return encode_rows([f"{epoch} {offset}" for epoch, offset in entries])


def decode_epochs(data: bytes, path: str) -> list[EpochEntry]:
    entries: list[EpochEntry] = []
    for row in decode_rows(data, path, kind=_KIND, columns=2):
        epoch, offset = (number_of(field, path, kind=_KIND) for field in row)
        entry = EpochEntry(LeaderEpoch(epoch), Offset(offset))
        if min(entry) < 0 or (entries and not _follows(entry, entries[-1])):
            raise DamagedFileError(path, f"{_KIND}: '{epoch} {offset}' does not follow")
        entries.append(entry)
    return entries


def _follows(entry: EpochEntry, before: EpochEntry) -> bool:
    return entry.epoch > before.epoch and entry.start_offset > before.start_offset
