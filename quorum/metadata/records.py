"""The records of the metadata log, in KIP-631's vocabulary, and how a batch of them is written.

One raft entry is one batch: its records take effect together or not at all, and its raft index is
their metadata offset. A record is a msgpack array of its type's number, its version and its
fields. A record's version may be written only where the finalized `metadata.version` has reached
the level that the version needs; a reader that meets a record, a version or a field that it does
not know stops, because everything after it would be guesswork.

A batch names the position that it was decided on: the offset that it expects to get and a
checksum chained over all batches before it. The controller decides on an image that includes what
it has proposed but nobody has committed yet. Should one of these proposals fail, those after it
were decided on a state that never came to be; as every voter and every broker compares position
and state, all of them pass over such a batch alike (`image.apply_batch`).

Offsets are not known before raft has given them out. Where a record's meaning depends on its own
offset (a broker's epoch is the offset of its registration) the field is None and replay fills it
in; snapshots, which have no offsets of their own, carry the value.
"""

import zlib
from typing import Final, TypeAlias

import msgspec

from kafka_wire.types import LeaderEpoch, ProducerId
from quorum.metadata.types import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    MetadataOffset,
    PartitionEpoch,
    PartitionKey,
    ResourceType,
    TopicId,
)

MAX_BATCH_BYTES: Final = 900_000
"""A command that would need a larger batch is refused: raft's frames have a limit."""

BATCH_FORMAT: Final = 1


class MetadataFormatError(Exception):
    """Bytes of the metadata log or of a snapshot that this version cannot read. It must stop."""


class _Record(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, kw_only=True
):
    version: int = 0


class EndpointData(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    name: str
    host: str
    port: int
    security_protocol: str


class FeatureRange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    name: str
    min_level: int
    max_level: int


class RegisterBrokerRecord(_Record, frozen=True, tag=1, kw_only=True):
    """A broker's registration; also the form in which the image keeps it."""

    broker_id: BrokerId
    incarnation_id: bytes
    endpoints: tuple[EndpointData, ...]
    directories: tuple[DirectoryId, ...]
    rack: str | None = None
    features: tuple[FeatureRange, ...] = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False
    broker_epoch: BrokerEpoch | None = None
    """None in the log: the offset of the batch."""
    fencing_offset: MetadataOffset | None = None
    """Filled in by replay: where it was fenced or began to shut down, or where it lost a leadership
    or its place in an ISR since. Before it has read that far it is neither unfenced nor told to
    shut down: it might still take itself for a leader."""

    @property
    def epoch(self) -> BrokerEpoch:
        """The epoch of a registration that is in an image."""
        return BrokerEpoch(-1) if self.broker_epoch is None else self.broker_epoch

    @property
    def is_active(self) -> bool:
        """May lead partitions and join ISRs."""
        return not self.fenced and not self.in_controlled_shutdown


class UnregisterBrokerRecord(_Record, frozen=True, tag=2, kw_only=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class BrokerRegistrationChangeRecord(_Record, frozen=True, tag=3, kw_only=True):
    """What is None stays as it is."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None


class TopicRecord(_Record, frozen=True, tag=4, kw_only=True):
    topic_id: TopicId
    name: str


class PartitionRecord(_Record, frozen=True, tag=5, kw_only=True, gc=False):
    """The whole state of a partition; also the form in which the image keeps it."""

    topic_id: TopicId
    partition: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    effective_min_isr: int
    elr: tuple[BrokerId, ...] = ()
    """Eligible leader replicas (KIP-966): out of the ISR, and yet with every committed record."""
    last_known_elr: tuple[BrokerId, ...] = ()
    """Who was in ISR or ELR last when data was lost; asked first in an unclean election."""
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    directories: tuple[DirectoryId, ...] = ()
    """One for each replica; empty while none is assigned."""
    is_recovering: bool = False
    """Its leader was elected uncleanly and has not confirmed since (KIP-704)."""
    leader_epoch_offset: MetadataOffset | None = None
    """Filled in by replay: where the leader epoch began. Who has read that far knows it."""

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.topic_id, self.partition)

    @property
    def preferred_leader(self) -> BrokerId:
        return self.replicas[0]

    @property
    def target_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas once the reassignment under way, if any, is complete."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


class PartitionChangeRecord(_Record, frozen=True, tag=6, kw_only=True):
    """What changes in a partition; what is None stays as it is."""

    topic_id: TopicId
    partition: int
    partition_epoch: PartitionEpoch
    """The new one."""
    leader_epoch: LeaderEpoch | None = None
    has_leader: bool | None = None
    """None: the leader stays; False: there is none any more; True: it is `leader`."""
    leader: BrokerId | None = None
    isr: tuple[BrokerId, ...] | None = None
    elr: tuple[BrokerId, ...] | None = None
    last_known_elr: tuple[BrokerId, ...] | None = None
    replicas: tuple[BrokerId, ...] | None = None
    adding: tuple[BrokerId, ...] | None = None
    removing: tuple[BrokerId, ...] | None = None
    directories: tuple[DirectoryId, ...] | None = None
    effective_min_isr: int | None = None
    is_recovering: bool | None = None


class RemoveTopicRecord(_Record, frozen=True, tag=7, kw_only=True):
    topic_id: TopicId


class ConfigRecord(_Record, frozen=True, tag=8, kw_only=True):
    resource_type: ResourceType
    resource_name: str
    key: str
    value: str | None
    """None removes the key."""


class ProducerIdsRecord(_Record, frozen=True, tag=9, kw_only=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    next_producer_id: ProducerId
    """The first id that no block holds yet."""


class FeatureLevelRecord(_Record, frozen=True, tag=10, kw_only=True):
    name: str
    level: int
    """0 removes the feature."""


class RequestAnsweredRecord(_Record, frozen=True, tag=11, kw_only=True):
    """What a request was answered, so that a retry gets the same answer."""

    request_id: str
    kind: str
    """The answer's type."""
    answer: bytes
    sequence: int | None = None
    """Filled in by replay: requests are forgotten in this order."""


class NoOpRecord(_Record, frozen=True, tag=12, kw_only=True):
    """Changes nothing."""


Record: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | TopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | ConfigRecord
    | ProducerIdsRecord
    | FeatureLevelRecord
    | RequestAnsweredRecord
    | NoOpRecord
)

LEVEL_OF_VERSION: Final[dict[type[Record], tuple[int, ...]]] = {
    RegisterBrokerRecord: (1,),
    UnregisterBrokerRecord: (1,),
    BrokerRegistrationChangeRecord: (1,),
    TopicRecord: (1,),
    PartitionRecord: (1,),
    PartitionChangeRecord: (1,),
    RemoveTopicRecord: (1,),
    ConfigRecord: (1,),
    ProducerIdsRecord: (1,),
    FeatureLevelRecord: (1,),
    RequestAnsweredRecord: (1,),
    NoOpRecord: (1,),
}
"""The `metadata.version` that version 0, 1, ... of each record needs. A new version of a record
adds its level here and a branch to replay."""


def not_allowed_at(records: tuple[Record, ...], *, metadata_version: int) -> Record | None:
    """The first record that may not be written at this level of `metadata.version`."""
    for record in records:
        levels = LEVEL_OF_VERSION[type(record)]
        if record.version >= len(levels) or levels[record.version] > metadata_version:
            return record
    return None


# ---------------------------------------------------------------------------------- the codec


class Batch(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One raft entry."""

    batch_format: int
    offset: MetadataOffset
    """The offset for which it was decided."""
    chain: int
    """The checksum of everything before it, by which it was decided."""
    records: tuple[Record, ...]


_encoder: Final = msgspec.msgpack.Encoder()
_batch_decoder: Final = msgspec.msgpack.Decoder(Batch)
_records_decoder: Final = msgspec.msgpack.Decoder(tuple[Record, ...])


def encode_batch(records: tuple[Record, ...], *, offset: MetadataOffset, chain: int) -> bytes:
    """The bytes of the raft entry that is expected at `offset`, after what `chain` sums up."""
    return _encoder.encode(Batch(BATCH_FORMAT, offset, chain, records))


def decode_batch(data: bytes) -> Batch:
    """The batch in a raft entry; raises `MetadataFormatError` for what this version cannot know."""
    try:
        batch = _batch_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise MetadataFormatError(f"this is no batch of metadata that we know: {error}") from error
    if batch.batch_format != BATCH_FORMAT:
        raise MetadataFormatError(f"unknown format {batch.batch_format} of a metadata batch")
    _check_versions(batch.records)
    return batch


def encode_records(records: tuple[Record, ...]) -> bytes:
    """Records alone, as a snapshot holds them."""
    return _encoder.encode(records)


def decode_records(data: bytes | memoryview) -> tuple[Record, ...]:
    try:
        records = _records_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise MetadataFormatError(f"these are no metadata records that we know: {error}") from error
    _check_versions(records)
    return records


def next_chain(chain: int, data: bytes) -> int:
    """The checksum after one more batch."""
    return zlib.crc32(data, chain)


def _check_versions(records: tuple[Record, ...]) -> None:
    for record in records:
        if not 0 <= record.version < len(LEVEL_OF_VERSION[type(record)]):
            raise MetadataFormatError(
                f"{type(record).__name__} has version {record.version}, which is newer than this "
                "program: upgrade it"
            )
