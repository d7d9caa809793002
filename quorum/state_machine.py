"""The state that the raft log is applied to: the committed metadata image of one voter.

Every voter has one. The engine's thread applies entries here, and nobody else changes the image;
other threads read it, since it is immutable and published by assignment. The event loop (the feed
of metadata, the active controller) hears of each entry through the inbox, in order. What cannot be
decoded or does not fit the image was agreed on and must not be passed over: it raises, and the
engine stops the voter.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from floodmark.invariant import invariant
from quorum.loop_inbox import LoopInbox
from quorum.metadata.image import EMPTY_IMAGE, MetadataImage, apply_batch
from quorum.metadata.snapshot import decode_snapshot, encode_snapshot
from quorum.metadata.types import MetadataOffset
from quorum.raft.port import Entry, Leadership


class CommittedListener(Protocol):
    """Who on the loop follows what is committed here."""

    def entry_applied(self, entry: Entry) -> None: ...

    def image_restored(self, image: MetadataImage) -> None:
        """A snapshot replaced everything; the next entry is the one after the image's."""

    def leadership_changed(self, leadership: Leadership, image: MetadataImage) -> None:
        """`image` is the committed one at the moment of the change: every entry that is applied
        later is told of later."""


class MetadataStateMachine:
    """Both ports of the engine: its state machine, and its observer.

    One object for both, because who leads matters only together with what was applied when.
    """

    def __init__(self, inbox: LoopInbox) -> None:
        self._inbox = inbox
        self._listeners: tuple[CommittedListener, ...] = ()
        self._image = EMPTY_IMAGE

    def follow(self, *listeners: CommittedListener) -> None:
        """Before the engine starts: who is to hear of everything from the beginning."""
        self._listeners += listeners

    @property
    def image(self) -> MetadataImage:
        """The committed image, from any thread."""
        return self._image

    def apply(self, entry: Entry) -> None:
        applied = apply_batch(
            self._image, entry.data, offset=MetadataOffset(entry.index), epoch=entry.term
        )
        self._image = applied.image
        self._tell(lambda listener: listener.entry_applied(entry))

    def capture(self) -> Callable[[], Iterable[bytes]]:
        image = self._image
        return lambda: encode_snapshot(image)

    def restore(self, snapshot: bytes, *, index: int, term: int) -> None:
        image = decode_snapshot(snapshot)
        invariant(
            image.offset == index and image.epoch == term,
            "a snapshot is of the entry that the engine says it is of",
            offset=image.offset,
            epoch=image.epoch,
            index=index,
            term=term,
        )
        self._image = image
        self._tell(lambda listener: listener.image_restored(image))

    def leadership_changed(self, leadership: Leadership) -> None:
        image = self._image
        self._tell(lambda listener: listener.leadership_changed(leadership, image))

    def _tell(self, what: Callable[[CommittedListener], None]) -> None:
        def on_loop() -> None:
            for listener in self._listeners:
                what(listener)

        self._inbox.post(on_loop)
