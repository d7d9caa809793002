"""Batches and snapshots say what was put into them, or that they cannot be read."""

import msgspec
import pytest

from kafka_wire.types import LeaderEpoch, ProducerId
from quorum.metadata.image import EMPTY_IMAGE, apply_batch
from quorum.metadata.records import (
    LEVEL_OF_VERSION,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndpointData,
    FeatureLevelRecord,
    FeatureRange,
    MetadataFormatError,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    RequestAnsweredRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_batch,
    encode_batch,
    not_allowed_at,
)
from quorum.metadata.snapshot import RECORDS_PER_FRAME, decode_snapshot, encode_snapshot
from quorum.metadata.types import (
    BrokerEpoch,
    MetadataOffset,
    PartitionEpoch,
    ResourceType,
    TopicId,
)
from tests.quorum.metadata.cluster import Cluster, directory, identity

TOPIC = TopicId(identity(5))
ONE = MetadataOffset(1)

EVERY_RECORD: tuple[Record, ...] = (
    RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=identity(1),
        endpoints=(EndpointData("P", "host", 9092, "PLAINTEXT"),),
        directories=(directory(1),),
        rack="r",
        features=(FeatureRange("metadata.version", 1, 1),),
    ),
    UnregisterBrokerRecord(broker_id=1, broker_epoch=BrokerEpoch(7)),
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=BrokerEpoch(7), fenced=False),
    TopicRecord(topic_id=TOPIC, name="t"),
    PartitionRecord(
        topic_id=TOPIC,
        partition=0,
        replicas=(1, 2),
        isr=(1,),
        leader=None,
        leader_epoch=LeaderEpoch(3),
        partition_epoch=PartitionEpoch(4),
        effective_min_isr=1,
        elr=(2,),
        directories=(directory(1), directory(2)),
    ),
    PartitionChangeRecord(
        topic_id=TOPIC,
        partition=0,
        partition_epoch=PartitionEpoch(5),
        has_leader=False,
        isr=(),
        effective_min_isr=2,
    ),
    RemoveTopicRecord(topic_id=TOPIC),
    ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="t", key="retention.ms", value=None
    ),
    ProducerIdsRecord(broker_id=1, broker_epoch=BrokerEpoch(7), next_producer_id=ProducerId(1000)),
    FeatureLevelRecord(name="metadata.version", level=1),
    RequestAnsweredRecord(request_id="r", kind="TopicsCreated", answer=b"\x80"),
    NoOpRecord(),
)


def test_every_record_survives_its_encoding() -> None:
    batch = decode_batch(encode_batch(EVERY_RECORD, offset=ONE, chain=5))
    assert batch.records == EVERY_RECORD
    assert (batch.offset, batch.chain) == (1, 5)


def test_every_kind_of_record_is_tested_and_has_levels() -> None:
    assert {type(record) for record in EVERY_RECORD} == set(LEVEL_OF_VERSION)


@pytest.mark.parametrize("record", EVERY_RECORD, ids=lambda record: type(record).__name__)
def test_newer_version_of_a_record_stops_the_reader(record: Record) -> None:
    newer = msgspec.structs.replace(record, version=1)
    with pytest.raises(MetadataFormatError, match="newer than this program"):
        decode_batch(encode_batch((newer,), offset=ONE, chain=0))


@pytest.mark.parametrize("record", EVERY_RECORD, ids=lambda record: type(record).__name__)
def test_record_above_the_finalized_level_is_not_allowed(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = msgspec.structs.replace(record, version=1)
    assert not_allowed_at((newer,), metadata_version=9) is newer
    monkeypatch.setitem(LEVEL_OF_VERSION, type(record), (1, 3))
    assert not_allowed_at((record, newer), metadata_version=2) is newer
    assert not_allowed_at((record, newer), metadata_version=3) is None


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b"\x94\x01\x01\x00\x91\x92\x63\x00",
        msgspec.msgpack.encode([2, 1, 0, []]),
        msgspec.msgpack.encode([1, 1, 0, [[99, 0]]]),
        msgspec.msgpack.encode([1, 1, 0, [[12, 0, "one field too many"]]]),
        msgspec.msgpack.encode([1, 1, 0, [[10, 0, "name", "no number"]]]),
        msgspec.msgpack.encode([1, 1, 0, [], "more"]),
    ],
    ids=["garbage", "cut", "format", "unknown record", "unknown field", "type", "longer"],
)
def test_unknown_bytes_stop_the_reader(data: bytes) -> None:
    with pytest.raises(MetadataFormatError):
        apply_batch(EMPTY_IMAGE, data, offset=ONE, epoch=1)


def a_cluster() -> Cluster:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    for number in range(30):
        cluster.create(f"topic-{number}", *[(1, 2, 3)] * 50)
    cluster.lose(3)
    cluster.configure("retention.ms", "5", topic="topic-3")
    cluster.configure("log.flush.mode", "os")
    return cluster


def test_snapshot_holds_the_whole_image_in_bounded_pieces() -> None:
    image = a_cluster().image
    pieces = list(encode_snapshot(image))
    assert len(pieces) >= image.index.count // RECORDS_PER_FRAME
    assert decode_snapshot(b"".join(pieces)) == image
    assert pieces == list(encode_snapshot(decode_snapshot(b"".join(pieces))))


def test_snapshot_cut_anywhere_is_refused() -> None:
    data = b"".join(encode_snapshot(a_cluster().image))
    for length in [*range(40), *range(40, len(data), 997), len(data) - 1]:
        with pytest.raises(MetadataFormatError):
            decode_snapshot(data[:length])
    with pytest.raises(MetadataFormatError):
        decode_snapshot(data + b"\x00")


def test_empty_image_has_a_snapshot() -> None:
    assert decode_snapshot(b"".join(encode_snapshot(EMPTY_IMAGE))) == EMPTY_IMAGE


def test_log_continues_from_a_snapshot() -> None:
    cluster = a_cluster()
    data = b"".join(encode_snapshot(cluster.image))
    image, at = decode_snapshot(data), len(cluster.entries)
    cluster.start(4)
    cluster.create("later", (4, 1))
    for offset, term, entry in cluster.entries[at:]:
        applied = apply_batch(image, entry, offset=offset, epoch=term)
        assert applied.accepted
        image = applied.image
    assert image == cluster.image
