"""The blobs that members of a classic group exchange through JoinGroup and SyncGroup.

To the broker they are bytes. Inside is the "consumer" protocol: a version of two bytes, then a
subscription or an assignment. A version that is newer than ours is read as the newest that we
know, for later versions only append fields (KIP-429).

The sticky assignors hide a further blob in the subscription's user data, without a version:
the partitions a member held, and the generation in which it held them (KIP-54, KIP-341).
"""

import struct
from typing import Annotated, TypeVar

from kafka_wire.errors import DecodeError
from kafka_wire.schema import Bytes, Int32, Message, String, Struct, ignorable, message, since
from kafka_wire.types import Buffer


class TopicPartition(Struct, kw_only=True):
    topic: String
    partitions: list[Int32]


@message(versions=(0, 3))
class ConsumerProtocolSubscription(Message, kw_only=True):
    """What a member wants, and from 1 on what it owns; 2 adds its generation, 3 its rack."""

    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: Annotated[list[TopicPartition], since(1), ignorable] = []
    generation_id: Annotated[Int32, since(2), ignorable] = -1
    rack_id: Annotated[String | None, since(3), ignorable] = None


@message(versions=(0, 3))
class ConsumerProtocolAssignment(Message, kw_only=True):
    """What a member gets."""

    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = None


@message(versions=(0, 1))
class StickyUserData(Message, kw_only=True):
    """The user data of the sticky assignor: 1 adds the generation."""

    previous_assignment: list[TopicPartition]
    generation: Annotated[Int32, since(1)] = -1


@message(versions=(0, 0))
class CooperativeStickyUserData(Message, kw_only=True):
    """The user data of the cooperative sticky assignor: owned partitions travel outside of it."""

    generation: Int32


Versioned = TypeVar("Versioned", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def encode_versioned(
    value: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int
) -> bytes:
    """The blob: its version, then the message."""
    return struct.pack(">h", version) + value.encode(version)


def decode_versioned(kind: type[Versioned], blob: Buffer) -> Versioned:
    """The message in a blob."""
    if len(blob) < 2:
        raise DecodeError(f"a {kind.__name__} of {len(blob)} bytes has no version")
    (version,) = struct.unpack_from(">h", blob)
    if version < kind.versions.first:
        raise DecodeError(f"a {kind.__name__} has version {version}")
    value, _ = kind.decode_from(blob, 2, min(version, kind.versions.last))
    return value


def decode_sticky_user_data(blob: Buffer) -> StickyUserData:
    """Reads version 1, or version 0 where the blob ends before the generation."""
    try:
        return StickyUserData.decode(blob, 1)
    except DecodeError:
        return StickyUserData.decode(blob, 0)
