"""What members of a classic group told each other through the broker, decoded and checked."""

import struct
from collections.abc import Callable

from kafka_wire.api_keys import ApiKey
from kafka_wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Versioned,
    decode_versioned,
    encode_versioned,
)
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages.heartbeat import HeartbeatResponse
from kafka_wire.messages.join_group import JoinGroupRequest
from kafka_wire.messages.sync_group import SyncGroupRequest
from tests.support.fake_broker import FakeBroker, Received

ASSIGNMENTS = 2
"""How often a member is given partitions: when it joins for the second time it holds some."""


def has_finished(broker: FakeBroker) -> bool:
    given = [assignment for assignment in assignments(broker) if assignment.assigned_partitions]
    return len(given) >= ASSIGNMENTS


def rebalance_until_finished(broker: FakeBroker) -> Callable[[Received], HeartbeatResponse]:
    """Answers heartbeats such that the member joins again and again."""

    def answer(_: Received) -> HeartbeatResponse:
        code = ErrorCode.NONE if has_finished(broker) else ErrorCode.REBALANCE_IN_PROGRESS
        return HeartbeatResponse(error_code=code)

    return answer


def subscriptions(broker: FakeBroker, assignor: str) -> list[ConsumerProtocolSubscription]:
    """What the member told with every JoinGroup."""
    return [
        _read_exactly(ConsumerProtocolSubscription, protocol.metadata)
        for request in broker.received(ApiKey.JOIN_GROUP)
        for protocol in request.expect(JoinGroupRequest).protocols
        if protocol.name == assignor
    ]


def assignments(broker: FakeBroker) -> list[ConsumerProtocolAssignment]:
    """What the leader told with every SyncGroup."""
    return [
        _read_exactly(ConsumerProtocolAssignment, given.assignment)
        for request in broker.received(ApiKey.SYNC_GROUP)
        for given in request.expect(SyncGroupRequest).assignments
    ]


def _read_exactly(kind: type[Versioned], blob: bytes) -> Versioned:
    (version,) = struct.unpack_from(">h", blob)
    value = decode_versioned(kind, blob)
    assert encode_versioned(value, version) == blob
    return value
