"""What a schema means: defaults, versions, tags, nulls, and the errors of values that do not fit.

ruff does not know that msgspec gives each instance its own copy of an empty list.
"""

# ruff: noqa: RUF012

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.errors import (
    DecodeError,
    EncodeError,
    UnknownApiKeyError,
    UnsupportedVersionError,
    WireError,
)
from kafka_wire.messages import FetchResponse, MetadataRequest, ProduceRequest
from kafka_wire.messages.fetch import FetchableTopicResponse, PartitionData
from kafka_wire.messages.metadata import MetadataRequestTopic
from kafka_wire.messages.produce import PartitionProduceData, TopicProduceData
from kafka_wire.schema import (
    ArrayOf,
    Bool,
    Bytes,
    Fixed,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    RawTaggedField,
    Records,
    String,
    Struct,
    StructOf,
    UInt16,
    UInt32,
    Uuid,
    Variable,
    Versions,
    between,
    fields_of,
    ignorable,
    message,
    nullable_since,
    since,
    tag,
    until,
)
from kafka_wire.types import Buffer
from tests.wire.samples import EVERY_VERSION
from tests.wire.strategies import structs, unknown_tags


class Point(Struct, kw_only=True):
    x: Int32 = -1
    label: Annotated[String | None, since(2), tag(0), ignorable] = None


@message(versions=(0, 3), flexible_since=2)
class Example(Message, kw_only=True):
    """A message with one of everything; 2 is flexible, 3 has one more field."""

    number: Int32 = 5
    name: Annotated[String | None, nullable_since(1)] = ""
    dropped: Annotated[Int16, until(0), ignorable] = 7
    strict: Annotated[Int64, since(1)] = -1
    strict_names: Annotated[list[String], since(1)] = []
    strict_name: Annotated[String | None, since(1)] = None
    late: Annotated[Bool, since(3), ignorable] = True
    point: Annotated[Point, since(2), tag(1)] = Point()
    first: Annotated[Int32, since(2), tag(0)] = 10
    numbers: Annotated[list[Int32], since(2), tag(4)] = []


@message(versions=(0, 1), flexible_since=1)
class Everything(Message, kw_only=True):
    """One field of every type."""

    a_bool: Bool = False
    an_int8: Int8 = 0
    an_int16: Int16 = 0
    a_uint16: UInt16 = 0
    an_int32: Int32 = 0
    a_uint32: UInt32 = 0
    an_int64: Int64 = 0
    a_float: Float64 = 0.0
    a_uuid: Uuid = bytes(16)
    a_string: String = ""
    some_bytes: Bytes = b""
    some_records: Records | None = None
    an_array: list[Int16] = []
    a_struct: Annotated[Point | None, since(1)] = None


# --- declarations ------------------------------------------------------------------------------


def test_annotations_become_fields_in_the_order_of_the_wire() -> None:
    fields = {field.name: field for field in fields_of(Example)}
    assert list(fields) == [
        "number",
        "name",
        "dropped",
        "strict",
        "strict_names",
        "strict_name",
        "late",
        "point",
        "first",
        "numbers",
    ]
    assert fields["number"].wire == Fixed("i", 4)
    assert fields["name"].wire == Variable("string")
    assert not fields["name"].is_nullable(0)
    assert fields["name"].is_nullable(1)
    assert fields["dropped"].versions == Versions(0, 0)
    assert fields["dropped"].ignorable
    assert fields["strict_names"].wire == ArrayOf(Variable("string"))
    assert fields["point"].wire == StructOf(Point)
    assert fields["point"].tag == 1
    assert 1 not in between(2, 3)


def test_a_type_without_a_wire_format_is_refused() -> None:
    class Wrong(Struct, kw_only=True):
        value: dict[str, int]

    with pytest.raises(TypeError, match="has no wire type"):
        fields_of(Wrong)


def test_an_array_of_nullable_elements_is_refused() -> None:
    class Wrong(Struct, kw_only=True):
        values: list[String | None]

    with pytest.raises(TypeError, match="nullable elements"):
        fields_of(Wrong)


def test_a_field_that_a_version_lacks_needs_a_default() -> None:
    @message(versions=(0, 1))
    class Wrong(Message, kw_only=True):
        value: Annotated[Int32, since(1)]

    with pytest.raises(TypeError, match="value is not in v0: it needs a default"):
        Wrong(value=1).encode_parts(0)


def test_an_array_of_elements_without_bytes_is_refused() -> None:
    class Empty(Struct, kw_only=True):
        value: Annotated[Int32, since(1)] = 0

    @message(versions=(0, 1))
    class Wrong(Message, kw_only=True):
        values: list[Empty]

    with pytest.raises(TypeError, match="Empty is empty in v0"):
        Wrong.decoder(0)


# --- versions ----------------------------------------------------------------------------------


def test_absent_fields_take_their_defaults() -> None:
    assert Example.decode(bytes.fromhex("00000001 0001 61 0002"), 0) == Example(
        number=1, name="a", dropped=2
    )
    decoded = Example.decode(bytes.fromhex("00000001 ffff 0000000000000003 00000000 ffff"), 1)
    assert decoded == Example(number=1, name=None, strict=3)
    assert decoded.dropped == 7
    assert decoded.late is True


def test_decoded_defaults_are_not_shared() -> None:
    data = Example().encode(0)
    one, other = Example.decode(data, 0), Example.decode(data, 0)
    assert one.strict_names == other.strict_names == []
    assert one.strict_names is not other.strict_names


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (Example(strict=3), "strict"),
        (Example(strict_names=["a"]), "strict_names"),
        (Example(strict_name=""), "strict_name"),
        (Example(point=Point(x=1)), "point"),
        (Example(first=0), "first"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_value_that_the_version_has_no_room_for_is_refused(value: Example, field: str) -> None:
    with pytest.raises(EncodeError, match=f"Example v0: {field} is set, and this version lacks it"):
        value.encode(0)


def test_a_value_equal_to_the_default_is_not_refused() -> None:
    value = Example(point=Point(x=-1), strict_names=[])
    assert value.encode(0) == Example().encode(0)


def test_an_ignorable_value_is_dropped() -> None:
    assert Example(late=False).encode(1) == Example().encode(1)
    assert Example(dropped=99).encode(1) == Example().encode(1)
    assert Example(dropped=99).encode(0) != Example().encode(0)


def test_tagged_fields_are_refused_where_the_version_has_no_tags() -> None:
    value = Example(unknown_tagged_fields=(RawTaggedField(9, b""),))
    with pytest.raises(EncodeError, match="there are tagged fields, and this version has none"):
        value.encode(1)
    assert value.encode(2) != Example().encode(2)


@pytest.mark.parametrize("version", [-1, 4, 32767])
def test_an_unknown_version_says_which_there_are(version: int) -> None:
    expected = f"Example has no version {version}: use one of 0 to 3"
    for attempt in (
        lambda: Example().encode(version),
        lambda: Example().encode_parts(version),
        lambda: Example.decode(b"", version),
        lambda: Example.decoder(version),
    ):
        with pytest.raises(UnsupportedVersionError, match=expected):
            attempt()


def test_compiled_functions_are_kept() -> None:
    assert Example.decoder(3) is Example.decoder(3)
    Example().encode_parts(3)
    assert Example.encoders[3] is not Example.encoders.get(2)


@settings(max_examples=150)
@given(st.data())
def test_every_message_comes_back_with_all_that_the_wire_can_carry(data: st.DataObject) -> None:
    """Beyond what kio can hold: unknown error codes, any time, unknown tagged fields."""
    kind, version = data.draw(st.sampled_from(EVERY_VERSION))
    value = data.draw(structs(kind, version))
    if kind.is_flexible(version):
        unknown = data.draw(unknown_tags(first=1000))
        value = msgspec.structs.replace(value, unknown_tagged_fields=unknown)
    encoded = value.encode(version)
    assert kind.decode_from(encoded, 0, version) == (value, len(encoded))


# --- tags --------------------------------------------------------------------------------------

PLAIN_V2 = bytes.fromhex("00000005 01 ffffffffffffffff 01 00")


def test_tagged_fields_at_their_defaults_are_not_written() -> None:
    assert Example().encode(2) == PLAIN_V2 + b"\0"
    assert Example(point=Point(), first=10, numbers=[]).encode(2) == PLAIN_V2 + b"\0"


def test_tagged_fields_are_written_in_ascending_order_with_the_unknown_among_them() -> None:
    value = Example(
        point=Point(x=2, label="p"),
        first=1,
        numbers=[3],
        unknown_tagged_fields=(RawTaggedField(2, b"two"), RawTaggedField(300, b"")),
    )
    data = PLAIN_V2 + bytes.fromhex(
        "0500 04 0000000101 09 00000002 01 00 02 02 7002 03 74776f04 05 02 00000003ac02 00"
    )
    assert value.encode(2) == data
    assert Example.decode(data, 2) == value


def test_unknown_tags_out_of_order_are_sorted() -> None:
    data = PLAIN_V2 + bytes.fromhex("03 09 00 05 00 00 04 00000001")
    decoded = Example.decode(data, 2)
    assert decoded.unknown_tagged_fields == ((5, b""), (9, b""))
    assert decoded.first == 1
    assert Example.decode(decoded.encode(2), 2) == decoded


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ("02 00 04 00000001 00 04 00000002", "tagged field 0 is there twice"),
        ("02 09 00 09 00", "tagged field 9 is there twice"),
        ("01 00 05 0000000100", "tagged field 0 has the wrong length"),
        ("01 00 03 000000", "tagged field 0 has the wrong length|ends too early"),
        ("01 09 05 00", "tagged field 9 has 5 bytes, 1 are left"),
        ("ffffffff0f", "there are 4294967295 tagged fields, 0 bytes are left"),
        ("8080808010 00", "has more than 32 bits"),
        ("808080808000", "has more than 32 bits"),
        ("01 8080808010 00", "has more than 32 bits"),
    ],
)
def test_bad_tag_sections_are_refused(tags: str, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        Example.decode(PLAIN_V2 + bytes.fromhex(tags), 2)


def test_an_unknown_tag_that_the_schema_knows_is_refused() -> None:
    value = Example(first=1, unknown_tagged_fields=(RawTaggedField(0, b""),))
    with pytest.raises(EncodeError, match="has the tag of a known one"):
        value.encode(2)


def test_a_tagged_field_may_be_null() -> None:
    data = PLAIN_V2 + bytes.fromhex("01 01 08 00000002 01 00 01 00")
    decoded = Example.decode(data, 2)
    assert decoded.point == Point(x=2, label=None)


# --- nulls -------------------------------------------------------------------------------------


def test_null_is_for_versions_that_allow_it() -> None:
    assert MetadataRequest(topics=None).encode(1) == bytes.fromhex("ffffffff")
    with pytest.raises(EncodeError, match="MetadataRequest v0"):
        MetadataRequest(topics=None).encode(0)
    with pytest.raises(DecodeError, match="MetadataRequest v0 cannot be decoded: topics is null"):
        MetadataRequest.decode(bytes.fromhex("ffffffff"), 0)
    topic = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
    assert MetadataRequest.decode(topic.encode(10), 10) == topic
    with pytest.raises(EncodeError, match="MetadataRequest v9"):
        topic.encode(9)
    with pytest.raises(DecodeError, match="name is null"):
        MetadataRequest.decode(bytes.fromhex("02 00 00 01 00 00 00"), 9)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "name", ["an_int32", "a_bool", "a_uuid", "a_string", "some_bytes", "an_array"]
)
def test_null_in_a_field_that_is_never_null_is_refused(name: str, version: int) -> None:
    values: dict[str, Any] = {name: None}
    if name == "a_bool":
        values = {"an_int8": None}  # None is a fine truth value to `struct`
    with pytest.raises(EncodeError, match=f"Everything v{version}: a field has a value"):
        Everything(**values).encode(version)


@pytest.mark.parametrize(
    ("marker", "is_null"), [(0xFF, True), (0x80, True), (0, False), (1, False)]
)
def test_a_nullable_struct_is_null_after_a_negative_byte(marker: int, is_null: bool) -> None:
    """As in Kafka, which writes 1 and -1 and reads any number (KIP-893)."""
    head = Everything().encode(1)[:-2]
    point = b"" if is_null else bytes.fromhex("00000003 00")
    decoded = Everything.decode(head + bytes([marker]) + point + b"\0", 1)
    assert decoded.a_struct == (None if is_null else Point(x=3))
    assert decoded.encode(1) == head + (b"\xff" if is_null else b"\x01") + point + b"\0"


# --- values that do not fit --------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("an_int8", 128),
        ("an_int8", -129),
        ("an_int16", 2**15),
        ("a_uint16", -1),
        ("an_int32", 2**31),
        ("a_uint32", 2**32),
        ("an_int64", -(2**63) - 1),
        ("an_int32", "1"),
        ("an_int32", 1.5),
        ("a_string", 5),
        ("a_string", b"bytes"),
        ("a_string", "\ud800"),
        ("some_bytes", "text"),
        ("some_bytes", 5),
        ("an_array", [1, 2**15]),
        ("an_array", [None]),
        ("an_array", 3),
    ],
)
def test_values_that_do_not_fit_their_type_are_refused(name: str, value: Any, version: int) -> None:
    with pytest.raises(EncodeError, match=f"Everything v{version}: a field has a value"):
        Everything(**{name: value}).encode(version)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_uuid_of_another_length_is_refused(size: int, version: int) -> None:
    with pytest.raises(EncodeError, match=f"a uuid has 16 bytes, this one has {size}"):
        Everything(a_uuid=bytes(size)).encode(version)


@pytest.mark.parametrize("version", [0, 1])
def test_a_string_has_at_most_32767_bytes(version: int) -> None:
    longest = Everything(a_string="x" * 32767)
    assert Everything.decode(longest.encode(version), version) == longest
    with pytest.raises(EncodeError, match=f"Everything v{version}"):
        Everything(a_string="x" * 32768).encode(version)
    with pytest.raises(EncodeError, match=f"Everything v{version}"):
        Everything(a_string="\u20ac" * 11_000).encode(version)


def test_a_compact_string_that_is_too_long_is_not_read() -> None:
    """Its length would fit, and Kafka refuses it all the same."""
    data = bytes.fromhex("00000005 818002") + b"x" * 40_000
    with pytest.raises(DecodeError, match="name has 32768 bytes, 32767 is the most"):
        Example.decode(data, 2)


def test_bytes_may_be_long() -> None:
    value = Everything(some_bytes=bytes(3_000_000))
    for version in (0, 1):
        assert Everything.decode(value.encode(version), version) == value


def test_errors_of_the_codec_are_wire_errors() -> None:
    for kind in (DecodeError, EncodeError, UnsupportedVersionError, UnknownApiKeyError):
        assert issubclass(kind, WireError)


# --- buffers that are not copied ---------------------------------------------------------------


def produce_request(records: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_decoded_records_are_a_view_of_the_frame(version: int, wrap: Any) -> None:
    frame = wrap(b"head" + produce_request(b"records" * 100).encode(version))
    message, _ = ProduceRequest.decode_from(frame, 4, version)
    records = message.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == b"records" * 100
    assert records.obj is (frame.obj if isinstance(frame, memoryview) else frame)


@pytest.mark.parametrize("version", [4, 11, 12, 16])
def test_encoded_records_are_the_callers_buffers(version: int) -> None:
    batches: list[Buffer] = [bytes(100), memoryview(bytes(20_000)), bytearray(3_000_000)]
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    PartitionData(
                        partition_index=index,
                        high_watermark=0,
                        aborted_transactions=None,
                        records=batch,
                    )
                    for index, batch in enumerate(batches)
                ],
            )
        ]
    )
    parts = response.encode_parts(version)
    assert [part for part in parts if any(part is batch for batch in batches)] == batches
    assert parts[1] is batches[0]
    assert b"".join(parts) == response.encode(version)
    if version < 13:
        assert FetchResponse.decode(response.encode(version), version) == response
