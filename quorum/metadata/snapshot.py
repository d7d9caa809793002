"""A whole image as bytes, in pieces: `magic`, then frames of a length and so many bytes.

The first frame is the header, the following ones hold records, the last one is empty: a snapshot
that was cut short has none. Checksums are the business of whoever stores a snapshot.

A frame holds about a thousand records, so that no single call into the codec keeps the
interpreter from other threads for more than some milliseconds.
"""

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from quorum.metadata.image import EMPTY_IMAGE, ImageBuilder, MetadataImage
from quorum.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataFormatError,
    ProducerIdsRecord,
    Record,
    TopicRecord,
    decode_records,
    encode_records,
)
from quorum.metadata.types import BrokerEpoch, MetadataOffset

MAGIC: Final = b"FMSNAP01"
RECORDS_PER_FRAME: Final = 1000
_LENGTH: Final = struct.Struct(">I")


class SnapshotHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where in the log the image stands."""

    offset: MetadataOffset
    epoch: int
    chain: int


_header_decoder: Final = msgspec.msgpack.Decoder(SnapshotHeader)


def snapshot_records(image: MetadataImage) -> Iterator[Record]:
    """Records that make the image out of an empty one, in an order that is always the same."""
    for name in sorted(image.features):
        yield FeatureLevelRecord(name=name, level=image.features[name])
    for broker_id in sorted(image.brokers):
        yield image.brokers[broker_id]
    for name in sorted(image.topic_ids):
        topic = image.topics[image.topic_ids[name]]
        yield TopicRecord(topic_id=topic.topic_id, name=name)
        for partition in sorted(topic.partitions):
            yield topic.partitions[partition]
    for resource in sorted(image.configs):
        values = image.configs[resource]
        for key in sorted(values):
            yield ConfigRecord(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                key=key,
                value=values[key],
            )
    if image.next_producer_id:
        yield ProducerIdsRecord(
            broker_id=-1, broker_epoch=BrokerEpoch(-1), next_producer_id=image.next_producer_id
        )
    yield from image.requests.in_order()


def image_from_records(
    records: Iterator[Record], *, offset: MetadataOffset, epoch: int, chain: int
) -> MetadataImage:
    """The image that a snapshot's records make."""
    builder = ImageBuilder(MetadataImage(chain=chain), offset=offset)
    for record in records:
        builder.replay(record)
    return builder.finish(epoch=epoch)


def encode_snapshot(image: MetadataImage) -> Iterator[bytes]:
    """The snapshot in pieces."""
    header = SnapshotHeader(image.offset, image.epoch, image.chain)
    yield MAGIC + _frame(msgspec.msgpack.encode(header))
    records = snapshot_records(image)
    while piece := tuple(islice(records, RECORDS_PER_FRAME)):
        yield _frame(encode_records(piece))
    yield _frame(b"")


def decode_snapshot(data: bytes) -> MetadataImage:
    """The image in a snapshot; raises `MetadataFormatError` if it is none, or not all of it."""
    if data[: len(MAGIC)] != MAGIC:
        raise MetadataFormatError("this is no snapshot of metadata")
    frames = _frames(data)
    try:
        header = _header_decoder.decode(next(frames, b""))
    except msgspec.MsgspecError as error:
        raise MetadataFormatError(f"the snapshot's header is damaged: {error}") from error
    if header.offset == 0:
        return EMPTY_IMAGE
    return image_from_records(
        (record for frame in frames for record in decode_records(frame)),
        offset=header.offset,
        epoch=header.epoch,
        chain=header.chain,
    )


def _frame(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload


def _frames(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    at = len(MAGIC)
    while at + _LENGTH.size <= len(view):
        (length,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if length == 0:
            if at != len(view):
                raise MetadataFormatError(f"{len(view) - at} bytes follow the snapshot's end")
            return
        if at + length > len(view):
            break
        yield view[at : at + length]
        at += length
    raise MetadataFormatError("the snapshot is cut short")
