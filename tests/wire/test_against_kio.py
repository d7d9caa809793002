"""Every message and version that kio also knows: the same bytes, the same fields, both ways.

The set of comparisons is computed from kio's index and from ours, so a message that either side
gains is compared from that day on, or must be named in kio_codecs.py with a reason.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.static.constants import EntityType

from kafka_wire.api_keys import ApiKey
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import (
    REQUESTS,
    RESPONSES,
    HeartbeatResponse,
    ProduceRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_wire.messages.produce import PartitionProduceData, TopicProduceData
from kafka_wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
)
from kafka_wire.protocol import (
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from kafka_wire.records import EndTransactionMarker
from kafka_wire.schema import RawTaggedField
from tests.wire.kio_codecs import (
    CODECS,
    COMPARED_APART,
    NOT_IN_KIO,
    OUTSIDE_OUR_SCOPE,
    check_entity,
    check_message,
    control_record,
)
from tests.wire.kio_oracle import EVERY_KIO_ENTITY, KioKey, decode_by_kio, entities, entity_class
from tests.wire.strategies import unknown_tags

EXAMPLES = 6
"""Random messages per version and direction; 480 versions make it thousands."""

fast = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

COMPARED = sorted(CODECS.keys() & EVERY_KIO_ENTITY, key=str)
comparison = pytest.mark.parametrize("key", COMPARED, ids=str)


# --- what is compared --------------------------------------------------------------------------


def test_all_that_kio_and_we_both_know_is_compared() -> None:
    ours = CODECS.keys() | COMPARED_APART
    assert {key.name for key in EVERY_KIO_ENTITY - ours} == set(OUTSIDE_OUR_SCOPE)
    assert ours - EVERY_KIO_ENTITY == set(NOT_IN_KIO)
    assert {key.name for key in ours}.isdisjoint(OUTSIDE_OUR_SCOPE)
    assert set(COMPARED) | COMPARED_APART == EVERY_KIO_ENTITY & ours


def test_error_codes_are_those_of_kio() -> None:
    assert {code.value for code in KioErrorCode} == {code.value for code in ErrorCode}


VERSIONS_THAT_CLIENTS_NEED: Mapping[int, tuple[int, int]] = {
    0: (3, 12),
    1: (4, 17),
    2: (1, 10),
    3: (0, 13),
    8: (2, 9),
    9: (1, 9),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (0, 1),
    28: (0, 5),
    29: (1, 3),
    30: (1, 3),
    31: (1, 3),
    32: (1, 4),
    33: (0, 2),
    35: (1, 4),
    36: (0, 2),
    37: (0, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    55: (0, 2),
    57: (0, 1),
    60: (0, 2),
    61: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    75: (0, 0),
}
"""The table of research/wire.md: API key, first and last version."""


def test_every_version_that_clients_need_is_there() -> None:
    assert set(VERSIONS_THAT_CLIENTS_NEED) == set(REQUESTS) == set(RESPONSES) == set(ApiKey)
    for api_key, (first, last) in VERSIONS_THAT_CLIENTS_NEED.items():
        for message in (REQUESTS[api_key], RESPONSES[api_key]):
            assert message.api_key == api_key
            assert message.versions.first <= first, message
            assert message.versions.last >= last, message
        assert REQUESTS[api_key].versions == RESPONSES[api_key].versions


# --- the comparison ----------------------------------------------------------------------------


@comparison
def test_kio_reads_what_we_write_and_writes_the_same(key: KioKey) -> None:
    codec = CODECS[key]

    @fast
    @given(codec.messages)
    def compare(message: Any) -> None:
        check_message(codec, key, message)

    compare()


@comparison
def test_we_read_what_kio_writes_and_write_the_same(key: KioKey) -> None:
    codec = CODECS[key]

    @fast
    @given(entities(entity_class(key)))
    def compare(entity: Any) -> None:
        check_entity(codec, entity)

    compare()


@pytest.mark.parametrize(
    "size", [0, 126, 127, 16381, 16382, 16383, 2097150, 2097151, 2097152], ids=str
)
def test_the_length_of_records_grows_where_kios_does(size: int) -> None:
    """Their length is written and read in place, for two and three bytes; kio loops."""
    partition = PartitionProduceData(index=0, records=bytes(size))
    topic = TopicProduceData(name="a", partition_data=[partition])
    message = ProduceRequest(acks=-1, timeout_ms=0, topic_data=[topic])
    key = KioKey("produce", 11, EntityType.request)
    check_message(CODECS[key], key, message)


@pytest.mark.parametrize("is_commit", [False, True])
def test_kio_reads_the_type_of_ourcontrol_records(is_commit: bool) -> None:
    record = control_record(EndTransactionMarker(is_commit=is_commit, coordinator_epoch=3))
    (key,) = COMPARED_APART
    entity, _ = decode_by_kio(entity_class(key), record.key[2:])
    assert entity.type_ == int(is_commit)
    assert record.key[:2] == bytes(2)


# --- what kio does not have --------------------------------------------------------------------


def test_write_txn_markers_v0_has_the_bytes_of_kafkas_schema() -> None:
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=0x0102030405060708,
                producer_epoch=0x090A,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name="ab", partition_indexes=[1, 2])],
                coordinator_epoch=0x0B0C0D0E,
            )
        ]
    )
    request_data = bytes.fromhex(
        "00000001 0102030405060708 090a 01 00000001 0002 6162 00000002 00000001 00000002 0b0c0d0e"
    )
    response = WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=5,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name="ab",
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=9, error_code=47)
                        ],
                    )
                ],
            )
        ]
    )
    response_data = bytes.fromhex(
        "00000001 0000000000000005 00000001 0002 6162 00000001 00000009 002f"
    )
    assert request.encode(0) == request_data
    assert WriteTxnMarkersRequest.decode(request_data, 0) == request
    assert response.encode(0) == response_data
    assert WriteTxnMarkersResponse.decode(response_data, 0) == response


def test_request_header_v0_has_no_client_id() -> None:
    header = RequestHeader(api_key=7, api_version=0, correlation_id=0x01020304)
    data = bytes.fromhex("0007 0000 01020304")
    assert bytes(encode_request_header(header, 0)) == data
    assert decode_request_header(data + b"body", 0) == (header, 8)


# --- where kio is wrong or narrower ------------------------------------------------------------

FLEXIBLE = [key for key in COMPARED if entity_class(key).__flexible__ and key.kind.name != "header"]


@pytest.mark.parametrize("key", FLEXIBLE, ids=str)
def test_unknown_tagged_fields_are_skipped_and_passed_on(key: KioKey) -> None:
    """KIP-482: skip what you do not know. kio raises a KeyError, which is its bug."""
    codec = CODECS[key]

    @settings(fast, max_examples=3)
    @given(codec.messages, unknown_tags(first=1000))
    def check(message: Any, unknown: tuple[RawTaggedField, ...]) -> None:
        plain = codec.encode(message)
        extended = type(message)(**_values_of(message) | {"unknown_tagged_fields": unknown})
        data = codec.encode(extended)
        assert codec.decode(data) == (extended, len(data))
        assert codec.fields(extended) == codec.fields(message)
        assert len(data) > len(plain)
        with pytest.raises(KeyError):
            decode_by_kio(entity_class(key), data)

    check()


def _values_of(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__struct_fields__}


def test_unknown_tagged_fields_of_headers_are_kept() -> None:
    unknown = (RawTaggedField(3, b"abc"), RawTaggedField(300, b""))
    tags = bytes.fromhex("02 03 03 616263 ac02 00")
    header = RequestHeader(
        api_key=3, api_version=12, correlation_id=1, unknown_tagged_fields=unknown
    )
    data = bytes.fromhex("0003 000c 00000001 ffff") + tags
    assert bytes(encode_request_header(header, 2)) == data
    assert decode_request_header(data) == (header, len(data))
    response_header = ResponseHeader(correlation_id=1, unknown_tagged_fields=unknown)
    response_data = bytes.fromhex("00000001") + tags
    assert decode_response_header(response_data, 1) == (response_header, len(response_data))


def test_error_codes_that_nobody_knows_yet_pass_through() -> None:
    """A newer broker has codes that we do not know; kio refuses the whole response."""
    response = HeartbeatResponse(error_code=9999)
    data = response.encode(4)
    assert HeartbeatResponse.decode(data, 4) == response
    key = KioKey("heartbeat", 4, EntityType.response)
    with pytest.raises(ValueError, match="9999"):
        decode_by_kio(entity_class(key), data)


def test_not_a_number_passes_through() -> None:
    """The one value that the random messages leave out, for it differs from itself."""
    data = bytes.fromhex("00000001 00000000 00000001 0001 6b 7ff8000000000000 00 00")
    message = REQUESTS[ApiKey.ALTER_CLIENT_QUOTAS].decode(data, 0)
    assert message.encode(0) == data
