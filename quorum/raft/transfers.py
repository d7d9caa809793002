"""Snapshots on the wire: sent in chunks by a leader, put together again by a follower.

The sender keeps a window of unacknowledged chunks. The receiver takes chunks in order only, and
answers each with how far it has come; whatever is lost, doubled or late, the next answer puts the
sender right. A sender that hears nothing starts again from the last answer.
"""

from dataclasses import dataclass

from quorum.raft.frames import SNAPSHOT_CHUNK_BYTES, SnapshotAnswer, SnapshotChunk

WINDOW_BYTES = 4 * SNAPSHOT_CHUNK_BYTES
MAX_SNAPSHOT_BYTES = 1 << 30


@dataclass(slots=True)
class Sending:
    """One snapshot on its way to one follower."""

    index: int
    data: bytes
    progress_ms: int
    sent: int = 0
    acknowledged: int = 0

    def chunks(self, *, term: int, now_ms: int, patience_ms: int) -> list[SnapshotChunk]:
        """What may be sent now."""
        size_bytes = len(self.data)
        if now_ms - self.progress_ms > patience_ms:
            # The chunks are lost; or all of them arrived, and then the follower was: the last
            # chunk, sent again, makes it say so.
            if self.acknowledged == size_bytes:
                self.acknowledged = max(0, size_bytes - SNAPSHOT_CHUNK_BYTES)
            self.sent = self.acknowledged
            self.progress_ms = now_ms
        chunks = []
        while self.sent < size_bytes and self.sent - self.acknowledged < WINDOW_BYTES:
            data = self.data[self.sent : self.sent + SNAPSHOT_CHUNK_BYTES]
            chunks.append(
                SnapshotChunk(
                    term=term,
                    index=self.index,
                    size_bytes=size_bytes,
                    position=self.sent,
                    data=data,
                )
            )
            self.sent += len(data)
        return chunks

    def answered(self, answer: SnapshotAnswer, *, now_ms: int) -> None:
        if answer.index != self.index:
            return
        if answer.position > self.acknowledged:
            self.progress_ms = now_ms
        # A position below what it had before: the follower has lost the beginning (a restart).
        self.acknowledged = min(answer.position, len(self.data))
        self.sent = max(self.sent, self.acknowledged)
        if answer.position == 0:
            self.sent = 0


@dataclass(slots=True)
class Receiving:
    """One snapshot on its way from the leader of a term."""

    term: int
    index: int
    size_bytes: int
    data: bytearray

    @classmethod
    def begin(cls, chunk: SnapshotChunk) -> "Receiving":
        return cls(chunk.term, chunk.index, chunk.size_bytes, bytearray())

    def is_of(self, chunk: SnapshotChunk) -> bool:
        return (self.term, self.index, self.size_bytes) == (
            chunk.term,
            chunk.index,
            chunk.size_bytes,
        )

    def take(self, chunk: SnapshotChunk) -> None:
        """Takes a chunk that goes on where the last one ended; ignores any other."""
        if chunk.position == len(self.data) and chunk.position + len(chunk.data) <= self.size_bytes:
            self.data += chunk.data

    @property
    def is_complete(self) -> bool:
        return len(self.data) == self.size_bytes
