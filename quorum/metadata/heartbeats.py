"""When the active controller last heard of each broker, and how far each has read.

This is soft state: it is not in the log, and a new active controller begins without it. It takes
every broker for just heard of, so it waits a full session before it fences anyone: the controller
before it may have extended a lease at the last moment.

A broker counts its lease from when it sent a heartbeat, the controller counts the session from
when it received it, so the lease is always over first.
"""

from dataclasses import dataclass

from quorum.metadata.commands import Answer, Heartbeat, HeartbeatAnswer, Refused
from quorum.metadata.image import MetadataImage
from quorum.metadata.records import RegisterBrokerRecord
from quorum.metadata.types import BrokerEpoch, BrokerId, MetadataOffset


@dataclass(slots=True)
class _Contact:
    broker_epoch: BrokerEpoch
    at_ms: int
    metadata_offset: MetadataOffset | None
    """None until it has said so to this controller."""


class Heartbeats:
    """Last contacts. Changed by `begin`, `received`, `answered` and `clear` alone."""

    def __init__(self, *, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._contacts: dict[BrokerId, _Contact] = {}
        self._began_ms = 0

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        """A new active controller: everybody registered might hold a lease from just now."""
        self._began_ms = now_ms
        self._contacts = {
            broker_id: _Contact(broker.epoch, now_ms, None)
            for broker_id, broker in image.brokers.items()
            if not broker.fenced
        }

    def clear(self) -> None:
        self._contacts = {}

    def received(self, image: MetadataImage, heartbeat: Heartbeat, now_ms: int) -> None:
        """Notes a heartbeat of the broker's current registration."""
        broker = image.brokers.get(heartbeat.broker_id)
        if broker is None or broker.broker_epoch != heartbeat.broker_epoch:
            return
        if not 0 <= heartbeat.metadata_offset <= image.offset:
            return
        offset = heartbeat.metadata_offset
        contact = self._contacts.get(heartbeat.broker_id)
        if contact is None or contact.broker_epoch != heartbeat.broker_epoch:
            self._contacts[heartbeat.broker_id] = _Contact(heartbeat.broker_epoch, now_ms, offset)
            return
        contact.at_ms = max(contact.at_ms, now_ms)
        # Heartbeats may overtake each other; what a broker once knew it still knows.
        contact.metadata_offset = max(contact.metadata_offset or MetadataOffset(0), offset)

    def answered(self, heartbeat: Heartbeat, answer: Answer | Refused) -> None:
        """A broker that was told to shut down has ended its session itself."""
        if isinstance(answer, HeartbeatAnswer) and answer.should_shut_down:
            self._contacts.pop(heartbeat.broker_id, None)

    def has_session(self, broker: RegisterBrokerRecord, now_ms: int) -> bool:
        """Whether this registration's process may still be alive, as far as we know."""
        contact = self._contacts.get(broker.broker_id)
        if contact is not None and contact.broker_epoch == broker.broker_epoch:
            return now_ms - contact.at_ms <= self.session_timeout_ms
        # Registered, unfenced and never heard of: counted from when we began.
        return not broker.fenced and now_ms - self._began_ms <= self.session_timeout_ms

    def knows(self, broker: RegisterBrokerRecord, offset: MetadataOffset) -> bool:
        """Whether a heartbeat has shown that this registration has read up to `offset`."""
        contact = self._contacts.get(broker.broker_id)
        if contact is None or contact.broker_epoch != broker.broker_epoch:
            return False
        return contact.metadata_offset is not None and contact.metadata_offset >= offset

    def expired(self, image: MetadataImage, now_ms: int) -> list[BrokerId]:
        """The brokers to fence: not fenced yet, and silent for longer than a session."""
        return [
            broker_id
            for broker_id in sorted(image.brokers)
            if not image.brokers[broker_id].fenced
            and not self.has_session(image.brokers[broker_id], now_ms)
        ]
