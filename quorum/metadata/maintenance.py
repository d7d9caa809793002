"""What the active controller does without being asked, apart from fencing the silent.

- It finishes what a controller before it began: a fenced broker that still leads something or is
  still in an ISR, a broker that shuts down and still leads something.
- It elects leaders for partitions that wait for one, where brokers or configs have changed.
- It brings reassignments on.
- From time to time it moves leaders back to the preferred replicas.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from immutables import Map

from quorum.metadata.elections import balance_leaders, elect_leaderless
from quorum.metadata.fencing import fence, shutdown_records
from quorum.metadata.heartbeats import Heartbeats
from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_change import in_batches
from quorum.metadata.partition_index import keys_of
from quorum.metadata.reassignment import advance
from quorum.metadata.records import Record, RegisterBrokerRecord
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.types import BrokerId, ConfigResource

Batches: TypeAlias = tuple[tuple[Record, ...], ...]
Task: TypeAlias = Callable[[MetadataImage], Batches]
"""Decides on the image that it is given, which holds what the tasks before it have proposed."""


class Maintenance:
    """Knows when what is due."""

    def __init__(self, settings: ControllerSettings, heartbeats: Heartbeats) -> None:
        self._settings = settings
        self._heartbeats = heartbeats
        self._last_balance_ms = 0
        self._elected_brokers: Map[BrokerId, RegisterBrokerRecord] | None = None
        self._elected_configs: Map[ConfigResource, Map[str, str]] | None = None

    def begin(self, now_ms: int) -> None:
        """A new active controller."""
        self._last_balance_ms = now_ms
        self._elected_brokers = None
        self._elected_configs = None

    def due(self, image: MetadataImage, now_ms: int) -> Iterator[Task]:
        for broker_id, broker in sorted(image.brokers.items()):
            if broker.fenced and image.index.is_involved(broker_id):
                yield partial(fence, broker_id=broker_id)
            elif broker.in_controlled_shutdown and broker_id in image.index.leads:
                yield partial(_move_leaders, broker_id=broker_id)
        if image.index.leaderless:
            yield self._elect
        if image.index.reassigning:
            yield partial(advance, heartbeats=self._heartbeats)
        if self._balance_is_due(now_ms):
            percentage = self._settings.leader_imbalance_percentage
            yield partial(balance_leaders, imbalance_percentage=percentage)

    def _elect(self, image: MetadataImage) -> Batches:
        """Looks at all partitions without a leader, but only if something has changed that could
        give them one: there may be many, and they may wait for long."""
        if image.brokers is self._elected_brokers and image.configs is self._elected_configs:
            return ()
        self._elected_brokers, self._elected_configs = image.brokers, image.configs
        return in_batches(elect_leaderless(image, keys_of(image.index.leaderless), image.is_active))

    def _balance_is_due(self, now_ms: int) -> bool:
        interval_ms = self._settings.leader_imbalance_check_interval_s * 1000
        if not self._settings.auto_leader_rebalance or now_ms - self._last_balance_ms < interval_ms:
            return False
        self._last_balance_ms = now_ms
        return True


def _move_leaders(image: MetadataImage, broker_id: BrokerId) -> Batches:
    return in_batches(shutdown_records(image, broker_id))
