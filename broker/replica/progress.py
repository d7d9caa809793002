"""What a leader knows of one follower, from its fetches of this leader epoch alone."""

from kafka_wire.types import Offset
from quorum.metadata.types import BrokerEpoch, BrokerId


class FollowerProgress:
    """Begins with nothing: what a follower had in an earlier epoch may be cut by now (rule 9)."""

    def __init__(self, broker_id: BrokerId, *, now_ms: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch: BrokerEpoch | None = None
        """The newest registration that we have heard of, by a fetch or by metadata."""
        self.log_end_offset: Offset | None = None
        """Everything below is flushed there, and equal to ours. None: it has not said."""
        self.high_watermark_sent: Offset | None = None
        self.caught_up_ms = now_ms
        """When it had last read up to what was then our log's end."""
        self._fetched_ms = now_ms
        self._end_offset_at_fetch: Offset | None = None

    def registered(self, broker_epoch: BrokerEpoch) -> None:
        """A newer process: what an older one had is of no account (rule 9, KIP-903)."""
        if self.broker_epoch is None or broker_epoch > self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.log_end_offset = None
            self.high_watermark_sent = None
            self._end_offset_at_fetch = None

    def is_old_incarnation(self, broker_epoch: BrokerEpoch) -> bool:
        return self.broker_epoch is not None and broker_epoch < self.broker_epoch

    def fetched(self, fetch_offset: Offset, *, leader_end_offset: Offset, now_ms: int) -> None:
        """Credits a fetch that the leader has found to be of its epoch and not to diverge."""
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif self._end_offset_at_fetch is not None and fetch_offset >= self._end_offset_at_fetch:
            # It has all that there was when it last asked: under steady load nobody ever reads
            # up to the very end.
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end_offset = fetch_offset
        self._fetched_ms = now_ms
        self._end_offset_at_fetch = leader_end_offset

    def is_lagging(self, *, leader_end_offset: Offset, lag_time_max_ms: int, now_ms: int) -> bool:
        """Kafka's rule: a follower that has everything does not lag, however long ago it asked."""
        if self.log_end_offset is not None and self.log_end_offset >= leader_end_offset:
            return False
        return now_ms - self.caught_up_ms > lag_time_max_ms
