"""The blobs that members of a group exchange: versions old and to come, and the assignors' data."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CooperativeStickyUserData,
    StickyUserData,
    TopicPartition,
    decode_sticky_user_data,
    decode_versioned,
    encode_versioned,
)
from kafka_wire.errors import DecodeError

OWNED = [TopicPartition(topic="t", partitions=[0, 2])]


def test_a_subscription_drops_what_its_version_lacks() -> None:
    """A member offers its newest version; one that can only say less says less (KIP-429)."""
    full = ConsumerProtocolSubscription(
        topics=["t"], user_data=b"u", owned_partitions=OWNED, generation_id=4, rack_id="r"
    )
    expected = {
        0: ConsumerProtocolSubscription(topics=["t"], user_data=b"u"),
        1: ConsumerProtocolSubscription(topics=["t"], user_data=b"u", owned_partitions=OWNED),
        2: ConsumerProtocolSubscription(
            topics=["t"], user_data=b"u", owned_partitions=OWNED, generation_id=4
        ),
        3: full,
    }
    for version, subscription in expected.items():
        blob = encode_versioned(full, version)
        assert blob[:2] == version.to_bytes(2, "big")
        assert decode_versioned(ConsumerProtocolSubscription, blob) == subscription


def test_blobs_of_versions_to_come_are_read_as_the_newest_known() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], rack_id="r")
    newer = b"\0\x09" + subscription.encode(3) + b"fields to come"
    assert decode_versioned(ConsumerProtocolSubscription, newer) == subscription
    assignment = ConsumerProtocolAssignment(assigned_partitions=OWNED)
    newer = b"\x7f\xff" + assignment.encode(3) + b"fields to come"
    assert decode_versioned(ConsumerProtocolAssignment, newer) == assignment


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (b"", "of 0 bytes has no version"),
        (b"\0", "of 1 bytes has no version"),
        (b"\xff\xff", "has version -1"),
        (b"\0\0", "ends too early"),
        (b"\0\0\x7f\xff\xff\xff", "elements, 0 bytes are left"),
    ],
)
def test_broken_blobs_are_refused(blob: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        decode_versioned(ConsumerProtocolSubscription, blob)
    with pytest.raises(DecodeError, match=problem):
        decode_versioned(ConsumerProtocolAssignment, blob)


def test_sticky_user_data_is_read_with_and_without_generation() -> None:
    with_generation = StickyUserData(previous_assignment=OWNED, generation=3)
    without = StickyUserData(previous_assignment=OWNED)
    assert decode_sticky_user_data(with_generation.encode(1)) == with_generation
    assert decode_sticky_user_data(without.encode(0)) == without
    assert without.encode(0) == bytes.fromhex("00000001 0001 74 00000002 00000000 00000002")
    assert with_generation.encode(1) == without.encode(0) + bytes.fromhex("00000003")


def test_sticky_user_data_that_is_none_is_a_typed_error() -> None:
    with pytest.raises(DecodeError):
        decode_sticky_user_data(b"\0\0\0\x05")


def test_cooperative_user_data_is_the_generation_alone() -> None:
    data = CooperativeStickyUserData(generation=-1)
    assert data.encode(0) == bytes.fromhex("ffffffff")
    assert CooperativeStickyUserData.decode(b"\0\0\0\x07", 0).generation == 7


@settings(max_examples=50)
@given(st.binary(max_size=40))
def test_random_user_data_is_read_or_refused(blob: bytes) -> None:
    for read in (
        decode_sticky_user_data,
        lambda b: decode_versioned(ConsumerProtocolSubscription, b),
        lambda b: decode_versioned(ConsumerProtocolAssignment, b),
    ):
        try:
            read(blob)
        except DecodeError:
            continue
