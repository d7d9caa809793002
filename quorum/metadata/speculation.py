"""The image that the active controller decides on: what is committed plus what it has proposed."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from quorum.metadata.image import MetadataImage, apply_batch
from quorum.metadata.records import Record, encode_batch
from quorum.metadata.types import MetadataOffset

MAX_PENDING_BATCHES: Final = 20_000
"""More proposals than this are not on their way at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedBatch:
    """Bytes for raft, and the offset at which they count."""

    offset: MetadataOffset
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEntry:
    """What a committed entry did."""

    accepted: bool
    """It took effect. False: it was decided on a state that never came to be."""
    speculation_kept: bool
    """What was proposed and is not applied yet still stands."""


class SpeculativeState:
    """The committed image, and the batches proposed on top of it.

    Transitions: `propose` adds a batch and moves the speculative image on; `apply` moves the
    committed image on, and takes the batch off the list if it is the one that was expected there.
    If it is another one, the speculation was wrong: it is dropped, and none of the batches on the
    list will ever take effect, because each names the position that it was decided on. `reset`
    drops the speculation for a reason outside (leadership lost, a proposal refused).
    """

    def __init__(self, image: MetadataImage) -> None:
        self._committed = image
        self._pending: deque[tuple[ProposedBatch, MetadataImage]] = deque()

    @property
    def committed(self) -> MetadataImage:
        return self._committed

    @property
    def speculative(self) -> MetadataImage:
        """The image after the last proposal; images share what they have in common."""
        return self._pending[-1][1] if self._pending else self._committed

    @property
    def pending(self) -> int:
        return len(self._pending)

    def propose(self, records: tuple[Record, ...], *, epoch: int) -> ProposedBatch:
        """Takes it that the batch will be committed next."""
        base = self.speculative
        offset = MetadataOffset(base.offset + 1)
        data = encode_batch(records, offset=offset, chain=base.chain)
        batch = ProposedBatch(offset=offset, data=data)
        after = base.replay(records, offset=offset, epoch=epoch).chained(data)
        self._pending.append((batch, after))
        return batch

    def apply(self, data: bytes, *, offset: MetadataOffset, epoch: int) -> AppliedEntry:
        """Moves the committed image on by a raft entry, empty if the engine made it for itself."""
        had_proposals = bool(self._pending)
        if self._pending:
            expected, image = self._pending[0]
            if expected.offset == offset and expected.data == data and image.epoch == epoch:
                self._pending.popleft()
                self._committed = image
                return AppliedEntry(accepted=True, speculation_kept=True)
            self.reset()
        applied = apply_batch(self._committed, data, offset=offset, epoch=epoch)
        self._committed = applied.image
        return AppliedEntry(accepted=applied.accepted, speculation_kept=not had_proposals)

    def restore(self, image: MetadataImage) -> None:
        """Starts anew from a snapshot."""
        self.reset()
        self._committed = image

    def reset(self) -> None:
        """Drops back to the committed image."""
        self._pending.clear()
