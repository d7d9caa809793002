"""Where two logs part: by leader epochs alone (KIP-101, KIP-279; rule 7).

Two logs that both hold a batch of an epoch at an offset are equal up to there, because an epoch
has one leader. So a follower that names its last epoch and its end tells the leader enough.
"""

from broker.replica.events import DivergingEpoch, FollowerFetch
from broker.replica.ports import ReplicaLog
from kafka_wire.types import LeaderEpoch, Offset


def divergence_of(log: ReplicaLog, fetch: FollowerFetch) -> DivergingEpoch | None:
    """What a leader answers to a fetch that its log does not continue; None if it does."""
    epoch = fetch.last_fetched_epoch
    if epoch is None:
        # The follower's log is empty. That it begins further on than ours ends is all that can
        # be wrong.
        if fetch.fetch_offset <= log.log_end_offset:
            return None
        return DivergingEpoch(epoch=log.epochs.latest, end_offset=log.log_end_offset)
    end = log.end_of_epoch(epoch)
    if end is None:
        # We have never seen an epoch as new as that: what we share ends with our log.
        return DivergingEpoch(epoch=log.epochs.latest, end_offset=log.log_end_offset)
    if end.epoch < epoch or end.end_offset < fetch.fetch_offset:
        return DivergingEpoch(epoch=end.epoch, end_offset=end.end_offset)
    return None


def truncation_offset(log: ReplicaLog, diverging: DivergingEpoch) -> Offset:
    """Where a follower cuts its log: at the end of the leader's epoch, or of its own, if lower."""
    if diverging.epoch is None:
        return diverging.end_offset
    end = log.end_of_epoch(diverging.epoch)
    if end is None:
        # Our log is older than the leader's epoch, and yet it went on further.
        return min(diverging.end_offset, log.log_end_offset)
    return min(diverging.end_offset, end.end_offset)


def last_fetched_epoch(log: ReplicaLog) -> LeaderEpoch | None:
    """The epoch of the last batch, which is not that of the last leadership: nothing may have been
    written in it."""
    if log.log_end_offset == log.log_start_offset:
        return None
    return log.epochs.epoch_at(Offset(log.log_end_offset - 1))
