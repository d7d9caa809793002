"""The comparison with kio would notice: schemas with a mistake planted in them fail it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from kio.serial.errors import SerialError

import kafka_wire.decoder
import kafka_wire.encoder
from kafka_wire.errors import WireError
from kafka_wire.messages import FetchRequest, MetadataRequest, ProduceRequest, ProduceResponse
from kafka_wire.messages.fetch import FetchPartition
from kafka_wire.messages.metadata import MetadataRequestTopic
from kafka_wire.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse
from kafka_wire.schema import Field, Int32, Int64, Message, Struct, Versions, fields_of, since
from tests.wire.kio_codecs import MessageCodec, check_entity, check_message, key_of
from tests.wire.kio_oracle import entities, entity_class

Fields = tuple[Field, ...]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A schema with a mistake in one of its structs."""

    message: type[Message]
    version: int
    struct: type[Struct]
    change: Callable[[Fields], Fields]


def swapped(first: str, second: str) -> Callable[[Fields], Fields]:
    def change(fields: Fields) -> Fields:
        names = {first: second, second: first}
        by_name = {field.name: field for field in fields}
        return tuple(by_name[names.get(field.name, field.name)] for field in fields)

    return change


def replaced(name: str, **changes: Any) -> Callable[[Fields], Fields]:
    def change(fields: Fields) -> Fields:
        return tuple(f._replace(**changes) if f.name == name else f for f in fields)

    return change


INT32, INT64 = (t.__metadata__[0] for t in (Int32, Int64))  # type: ignore[attr-defined]

MUTANTS = {
    "two numbers swapped": Mutant(
        message=FetchRequest,
        version=12,
        struct=FetchRequest,
        change=swapped("min_bytes", "max_bytes"),
    ),
    "two numbers swapped in a nested struct": Mutant(
        message=FetchRequest,
        version=12,
        struct=FetchPartition,
        change=swapped("current_leader_epoch", "last_fetched_epoch"),
    ),
    "a number too wide": Mutant(
        message=ProduceRequest,
        version=3,
        struct=ProduceRequest,
        change=replaced("timeout_ms", wire=INT64),
    ),
    "a signed number read as unsigned": Mutant(
        message=ProduceRequest,
        version=11,
        struct=ProduceRequest,
        change=replaced("timeout_ms", wire=INT32._replace(format="I")),
    ),
    "a field one version early": Mutant(
        message=FetchRequest,
        version=11,
        struct=FetchPartition,
        change=replaced("last_fetched_epoch", versions=since(11)),
    ),
    "a field one version late": Mutant(
        message=FetchRequest,
        version=9,
        struct=FetchPartition,
        change=replaced("current_leader_epoch", versions=since(10), ignorable=True),
    ),
    "a field that stays too long": Mutant(
        message=MetadataRequest,
        version=11,
        struct=MetadataRequest,
        change=replaced("include_cluster_authorized_operations", versions=Versions(8, 11)),
    ),
    "a nullable string that is not": Mutant(
        message=MetadataRequest,
        version=12,
        struct=MetadataRequestTopic,
        change=replaced("name", nullable=None),
    ),
    "another tag": Mutant(
        message=ProduceResponse,
        version=10,
        struct=PartitionProduceResponse,
        change=replaced("current_leader", tag=1),
    ),
    "another default of a tagged field": Mutant(
        message=ProduceResponse,
        version=10,
        struct=PartitionProduceResponse,
        change=replaced("current_leader", default=LeaderIdAndEpoch(leader_id=0, leader_epoch=0)),
    ),
    "a tagged field among the others": Mutant(
        message=ProduceResponse,
        version=10,
        struct=PartitionProduceResponse,
        change=replaced("current_leader", tag=None),
    ),
}


UNCHANGED = Mutant(
    message=FetchRequest, version=12, struct=FetchRequest, change=lambda fields: fields
)

NOTICED = (AssertionError, WireError, SerialError, ValueError, KeyError, TypeError)
"""What a comparison raises: its own assertion, our codec's error, or kio's for what it cannot read.

A schema that does not compile would raise a TypeError, too, so compiling is tried first.
"""


def comparisons(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> tuple[Callable[[], None], Callable[[], None]]:
    """The comparison in both directions, with our codec compiled from the mutated schema."""
    codec = MessageCodec(mutant.message, mutant.version)
    key = key_of(mutant.message, mutant.version)
    messages, kio_entities = codec.messages, entities(entity_class(key))

    def mutated_fields_of(struct: type[Struct]) -> Fields:
        fields = fields_of(struct)
        return mutant.change(fields) if struct is mutant.struct else fields

    monkeypatch.setattr(kafka_wire.decoder, "fields_of", mutated_fields_of)
    monkeypatch.setattr(kafka_wire.encoder, "fields_of", mutated_fields_of)
    for compiled in ("decoders", "encoders"):
        monkeypatch.setattr(mutant.message, compiled, {})
    kafka_wire.decoder.compile_decoder(mutant.message, mutant.version)
    kafka_wire.encoder.compile_encoder(mutant.message, mutant.version)

    generate_only = settings(max_examples=50, database=None, phases=[Phase.generate])

    @generate_only
    @given(messages)
    def ours_to_kio(message: Any) -> None:
        check_message(codec, key, message)

    @generate_only
    @given(kio_entities)
    def kio_to_ours(entity: Any) -> None:
        check_entity(codec, entity)

    return ours_to_kio, kio_to_ours


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_in_a_schema_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours_to_kio, kio_to_ours = comparisons(MUTANTS[name], monkeypatch)
    with pytest.raises(NOTICED):
        ours_to_kio()
    with pytest.raises(NOTICED):
        kio_to_ours()


def test_a_schema_without_a_mistake_passes_the_same_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for compare in comparisons(UNCHANGED, monkeypatch):
        compare()
