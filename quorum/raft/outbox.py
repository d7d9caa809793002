"""Persist before send: promises wait until the disk has what they rest on."""

from collections import deque

from quorum.raft import frames
from quorum.raft.frames import AnyMessage
from quorum.raft.journal import Journal
from quorum.raft.ports import Network


class Outbox:
    """Frames that may leave only once the journal is durable up to a position."""

    def __init__(self, journal: Journal, network: Network) -> None:
        self._journal = journal
        self._network = network
        self._held: deque[tuple[int, int, bytes]] = deque()

    def send(self, voter_id: int, message: AnyMessage) -> None:
        frame = frames.encode(message)
        if message.is_promise and self._journal.position > self._journal.durable:
            self._held.append((self._journal.position, voter_id, frame))
        else:
            self._network.send(voter_id, frame)

    def release(self) -> None:
        """Sends what has become true on disk."""
        while self._held and self._held[0][0] <= self._journal.durable:
            _, voter_id, frame = self._held.popleft()
            self._network.send(voter_id, frame)
