"""Our codecs as kio's comparison needs them, and which of them have a counterpart in kio."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from hypothesis import strategies as st
from kio.schema.index import api_key_map
from kio.static.constants import EntityType

from kafka_wire.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.messages import HeartbeatResponse
from kafka_wire.protocol import (
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response,
)
from kafka_wire.records import (
    EndTransactionMarker,
    build_end_transaction_marker,
    iter_records,
    parse_control_record,
)
from kafka_wire.schema import Message, Request
from kafka_wire.types import ProducerEpoch, ProducerId
from tests.wire.kio_oracle import (
    KioKey,
    decode_by_kio,
    encode_by_kio,
    entity_class,
    fields_of_entity,
    fields_of_message,
)
from tests.wire.samples import EVERY_VERSION
from tests.wire.strategies import NUMBERS, TEXT, Domain, structs

KRAFT = "Kafka's controllers and their Raft log; our quorum speaks a protocol of its own"
BROKER_TO_CONTROLLER = "between Kafka's brokers and controllers; ours is in quorum/"
SHARE = "share groups (KIP-932) are not offered"
STREAMS = "streams groups (KIP-1071) are not offered"
TOKENS = "delegation tokens are not offered"
TELEMETRY = "client telemetry (KIP-714) is not offered; clients do without it"

OUTSIDE_OUR_SCOPE: Mapping[str, str] = {
    "add_raft_voter": KRAFT,
    "begin_quorum_epoch": KRAFT,
    "controller_registration": KRAFT,
    "end_quorum_epoch": KRAFT,
    "fetch_snapshot": KRAFT,
    "k_raft_version_record": KRAFT,
    "leader_change_message": KRAFT,
    "remove_raft_voter": KRAFT,
    "snapshot_footer_record": KRAFT,
    "snapshot_header_record": KRAFT,
    "update_raft_voter": KRAFT,
    "vote": KRAFT,
    "voters_record": KRAFT,
    "allocate_producer_ids": BROKER_TO_CONTROLLER,
    "alter_partition": BROKER_TO_CONTROLLER,
    "assign_replicas_to_dirs": BROKER_TO_CONTROLLER,
    "broker_heartbeat": BROKER_TO_CONTROLLER,
    "broker_registration": BROKER_TO_CONTROLLER,
    "default_principal_data": BROKER_TO_CONTROLLER,
    "envelope": BROKER_TO_CONTROLLER,
    "unregister_broker": BROKER_TO_CONTROLLER,
    "alter_share_group_offsets": SHARE,
    "delete_share_group_offsets": SHARE,
    "delete_share_group_state": SHARE,
    "describe_share_group_offsets": SHARE,
    "initialize_share_group_state": SHARE,
    "read_share_group_state": SHARE,
    "read_share_group_state_summary": SHARE,
    "share_acknowledge": SHARE,
    "share_fetch": SHARE,
    "share_group_describe": SHARE,
    "share_group_heartbeat": SHARE,
    "write_share_group_state": SHARE,
    "streams_group_describe": STREAMS,
    "streams_group_heartbeat": STREAMS,
    "create_delegation_token": TOKENS,
    "describe_delegation_token": TOKENS,
    "expire_delegation_token": TOKENS,
    "renew_delegation_token": TOKENS,
    "get_telemetry_subscriptions": TELEMETRY,
    "push_telemetry": TELEMETRY,
    "alter_replica_log_dirs": "a broker of ours has one log directory",
    "list_config_resources": "lists configs of client metrics (KIP-1142), a part of telemetry",
}
"""What kio has and we do not."""

NOT_IN_KIO: Mapping[KioKey, str] = {
    KioKey("write_txn_markers", 0, EntityType.request): "Kafka 4 removed it, research/wire.md asks",
    KioKey(
        "write_txn_markers", 0, EntityType.response
    ): "Kafka 4 removed it, research/wire.md asks",
    KioKey("request_header", 0, EntityType.header): "only ControlledShutdown v0 used it",
}
"""What we have and kio does not: golden bytes below stand in for the comparison."""


class Codec(Protocol):
    """One of our messages in one version, as the comparison needs it."""

    @property
    def messages(self) -> st.SearchStrategy[Any]: ...
    def encode(self, message: Any) -> bytes: ...
    def decode(self, data: bytes) -> tuple[Any, int]: ...
    def fields(self, message: Any) -> dict[str, Any]: ...


@dataclass(frozen=True)
class MessageCodec:
    message: type[Message]
    version: int

    @cached_property
    def messages(self) -> st.SearchStrategy[Any]:
        return structs(self.message, self.version, Domain.KIO)

    def encode(self, message: Any) -> bytes:
        data: bytes = message.encode(self.version)
        return data

    def decode(self, data: bytes) -> tuple[Any, int]:
        return self.message.decode_from(data, 0, self.version)

    def fields(self, message: Any) -> dict[str, Any]:
        return fields_of_message(message, self.version)


@dataclass(frozen=True)
class RequestHeaderCodec:
    version: int

    @property
    def messages(self) -> st.SearchStrategy[Any]:
        return st.builds(
            RequestHeader,
            api_key=NUMBERS["h"],
            api_version=NUMBERS["h"],
            correlation_id=NUMBERS["i"],
            client_id=st.none() | TEXT if self.version else st.none(),
        )

    def encode(self, message: Any) -> bytes:
        return bytes(encode_request_header(message, self.version))

    def decode(self, data: bytes) -> tuple[Any, int]:
        return decode_request_header(data, self.version)

    def fields(self, message: Any) -> dict[str, Any]:
        return {
            "request_api_key": message.api_key,
            "request_api_version": message.api_version,
            "correlation_id": message.correlation_id,
            "client_id": message.client_id,
        }


@dataclass(frozen=True)
class ResponseHeaderCodec:
    version: int

    @property
    def messages(self) -> st.SearchStrategy[Any]:
        return st.builds(ResponseHeader, correlation_id=NUMBERS["i"])

    def encode(self, message: Any) -> bytes:
        # Heartbeat is flexible from version 4 on, and so is the header of its response.
        header, _ = encode_response(
            HeartbeatResponse(),
            api_version=4 if self.version else 0,
            correlation_id=message.correlation_id,
        )
        return bytes(header)

    def decode(self, data: bytes) -> tuple[Any, int]:
        return decode_response_header(data, self.version)

    def fields(self, message: Any) -> dict[str, Any]:
        return {"correlation_id": message.correlation_id}


class EndTransactionMarkerCodec:
    """The value of a control record; kio's entity lacks the version that stands before it."""

    messages = st.builds(
        EndTransactionMarker, is_commit=st.just(True), coordinator_epoch=NUMBERS["i"]
    )

    def encode(self, message: Any) -> bytes:
        value: bytes = control_record(message).value
        assert value[:2] == bytes(2)
        return value[2:]

    def decode(self, data: bytes) -> tuple[Any, int]:
        record = control_record(EndTransactionMarker(is_commit=True, coordinator_epoch=0))
        read = parse_control_record(
            type(record)(record.offset, record.timestamp_ms, record.key, bytes(2) + data)
        )
        return read, 4

    def fields(self, message: Any) -> dict[str, Any]:
        return {"coordinator_epoch": message.coordinator_epoch}


def control_record(marker: EndTransactionMarker) -> Any:
    batch = build_end_transaction_marker(
        marker, producer_id=ProducerId(1), producer_epoch=ProducerEpoch(0), timestamp_ms=0
    )
    (record,) = iter_records(batch)
    return record


def key_of(message: type[Message], version: int) -> KioKey:
    if message is ConsumerProtocolSubscription:
        return KioKey("consumer_protocol_subscription", version, EntityType.data)
    if message is ConsumerProtocolAssignment:
        return KioKey("consumer_protocol_assignment", version, EntityType.data)
    kind = EntityType.request if issubclass(message, Request) else EntityType.response
    return KioKey(api_key_map[message.api_key], version, kind)  # type: ignore[attr-defined]


CODECS: dict[KioKey, Codec] = {
    **{
        key_of(message, version): MessageCodec(message, version)
        for message, version in EVERY_VERSION
        if not message.__name__.endswith("StickyUserData")  # the assignors' own, in no schema
    },
    **{
        KioKey("request_header", version, EntityType.header): RequestHeaderCodec(version)
        for version in (0, 1, 2)
    },
    **{
        KioKey("response_header", version, EntityType.header): ResponseHeaderCodec(version)
        for version in (0, 1)
    },
    KioKey("end_txn_marker", 0, EntityType.data): EndTransactionMarkerCodec(),
}
COMPARED_APART = {KioKey("control_record_type_schema", 0, EntityType.data)}
"""Two bytes inside our control records' keys: a test of its own."""


def check_message(codec: Codec, key: KioKey, message: Any) -> None:
    """Ours to kio and back: same fields by name, same bytes, nothing left over."""
    data = codec.encode(message)
    entity, size = decode_by_kio(entity_class(key), data)
    assert size == len(data)
    assert fields_of_entity(entity) == codec.fields(message)
    assert encode_by_kio(entity) == data
    assert codec.decode(data) == (message, len(data))


def check_entity(codec: Codec, entity: Any) -> None:
    """kio's to us and back, starting from an entity that our schema had no part in."""
    data = encode_by_kio(entity)
    message, size = codec.decode(data)
    assert size == len(data)
    assert codec.fields(message) == fields_of_entity(entity)
    assert codec.encode(message) == data
