"""How far a follower has come, as its leader knows."""

from quorum.raft.frames import AppendAnswer
from quorum.raft.port import VoterStatus
from quorum.raft.transfers import Sending


class Progress:
    """What a leader keeps of one follower while it leads."""

    __slots__ = (
        "_seen",
        "attempt",
        "caught_up_ms",
        "counted_index",
        "fetch_ms",
        "match_index",
        "sending",
    )

    def __init__(self) -> None:
        self.match_index = 0
        self.counted_index = 0
        """As `match_index`, of what may be counted for a majority."""
        self.attempt = 0
        self.sending: Sending | None = None
        self.fetch_ms: int | None = None
        self.caught_up_ms: int | None = None
        self._seen: tuple[int, int] = (0, 0)
        """The end of the leader's log at the follower's last answer, and when that was."""

    def answered(self, answer: AppendAnswer, *, last_index: int, now_ms: int) -> None:
        self.fetch_ms = now_ms
        if not answer.success:
            return
        self.match_index = max(self.match_index, answer.next_index - 1)
        if answer.counts:
            self.counted_index = max(self.counted_index, answer.next_index - 1)
        if self.match_index >= last_index:
            self.caught_up_ms = now_ms
        elif self.match_index >= self._seen[0] > 0:
            self.caught_up_ms = self._seen[1]
        self._seen = (last_index, now_ms)

    def status(self, voter_id: int) -> VoterStatus:
        return VoterStatus(
            voter_id=voter_id,
            log_end_index=self.match_index + 1,
            last_fetch_ms=self.fetch_ms,
            last_caught_up_ms=self.caught_up_ms,
        )
