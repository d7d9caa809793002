"""How a Kafka message is declared: one class for all its versions.

A message is a frozen struct whose annotations say what is on the wire::

    class Broker(Struct, kw_only=True):
        node_id: Int32
        host: String
        port: Int32
        rack: Annotated[String | None, since(1)] = None

    @message(api_key=3, versions=(0, 13), flexible_since=9)
    class MetadataResponse(Response, kw_only=True):
        throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
        brokers: list[Broker]

* A field without `since`, `until` or `between` is there in every version.
* `X | None` may be null; `nullable_since(v)` says from which version on.
* `tag(n)` makes it a tagged field (KIP-482): written only where it differs from its default.
* A field that a version lacks takes its default when decoded. When encoded, a value other than
  the default is an `EncodeError`, unless the field is `ignorable`: silently dropping what the
  caller asked for is how protocols lose data.

Values are what is on the wire: -1 for "none" where Kafka says so, 16 raw bytes for a uuid, plain
ints for error codes (a peer may send one that we do not know). Whoever reads a message turns
sentinels into `None`.

Encoders and decoders are compiled per version on first use (`kafka_wire.encoder`,
`kafka_wire.decoder`), so that importing the whole protocol stays cheap.
"""

from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

import msgspec
from msgspec import NODEFAULT

from kafka_wire.errors import UnsupportedVersionError
from kafka_wire.types import Buffer

LATEST: Final = 32767
"""The last version of an open range: versions are int16 on the wire."""


class Versions(NamedTuple):
    """An inclusive range of versions."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


ALL_VERSIONS: Final = Versions(0, LATEST)


class Tag(NamedTuple):
    """Marks a tagged field."""

    number: int


class NullableSince(NamedTuple):
    """Marks a field that may be null only from a version on."""

    version: int


class Ignorable:
    """Marks a field whose value may be dropped where the version has no room for it."""


ignorable: Final = Ignorable()


def since(version: int) -> Versions:
    return Versions(version, LATEST)


def until(version: int) -> Versions:
    return Versions(0, version)


def between(first: int, last: int) -> Versions:
    return Versions(first, last)


def tag(number: int) -> Tag:
    return Tag(number)


def nullable_since(version: int) -> NullableSince:
    return NullableSince(version)


class Fixed(NamedTuple):
    """A number of fixed width: its `struct` format and its size."""

    format: str
    size_bytes: int


class Variable(NamedTuple):
    """A value with a length before it: `string`, `bytes` or `records`; or a `uuid` of 16 bytes."""

    kind: str


Bool = Annotated[bool, Fixed("?", 1)]
Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
UInt16 = Annotated[int, Fixed("H", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
UInt32 = Annotated[int, Fixed("I", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
Float64 = Annotated[float, Fixed("d", 8)]
String = Annotated[str, Variable("string")]
Bytes = Annotated[bytes, Variable("bytes")]
Uuid = Annotated[bytes, Variable("uuid")]
Records = Annotated[Buffer, Variable("records")]
"""Record batches: a slice of the frame when decoded (not a copy where the frame is a memoryview),
a buffer of their own when encoded."""

ZERO_UUID: Final = bytes(16)
"""No id: a topic that is named by its name, a replica without a directory."""

OPERATIONS_OMITTED: Final = -(2**31)
"""The authorized operations of a response whose request did not ask for them (KIP-430)."""


class ArrayOf(NamedTuple):
    """An array and the type of its elements."""

    element: "WireType"


class StructOf(NamedTuple):
    """A nested struct."""

    struct: "type[Struct]"


WireType: TypeAlias = Fixed | Variable | ArrayOf | StructOf


class Field(NamedTuple):
    """One field of a struct, as its annotation declares it."""

    name: str
    wire: WireType
    versions: Versions
    nullable: Versions | None
    tag: int | None
    ignorable: bool
    default: Any
    """The default, `NODEFAULT` where the field is required; a list's default is always empty."""

    @property
    def required(self) -> bool:
        return self.default is NODEFAULT

    def is_nullable(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable


class RawTaggedField(NamedTuple):
    """A tagged field that our schema does not know, kept so that it can be passed on."""

    tag: int
    data: bytes


Decoder: TypeAlias = Callable[[Buffer, int, int], tuple[Any, int]]
"""`(buffer, start, end) -> (message, position after it)`, where `end` is the buffer's length."""
Encoder: TypeAlias = Callable[[Any], list[Buffer]]
"""`message -> buffers`, with records as buffers of their own."""


if TYPE_CHECKING:
    # msgspec's own types make every subclass repeat `frozen=True`; at run time it is inherited.
    @dataclass_transform(kw_only_default=True, frozen_default=True)
    class _MsgspecStruct:
        def __init_subclass__(
            cls,
            *,
            frozen: bool = True,
            kw_only: bool = True,
            gc: bool = False,
            repr_omit_defaults: bool = True,
        ) -> None: ...
else:
    _MsgspecStruct = msgspec.Struct


class Struct(_MsgspecStruct, frozen=True, kw_only=True, gc=False, repr_omit_defaults=True):
    """A group of fields inside a message.

    Frozen trees have no cycles, so the garbage collector need not look at them. Subclasses say
    `kw_only=True` themselves: msgspec does not inherit it, and a metaclass of our own that
    did it for them would make every construction three times as slow.
    """

    unknown_tagged_fields: tuple[RawTaggedField, ...] = ()


class Message(Struct, kw_only=True):
    """A struct that can stand alone: it has versions."""

    versions: ClassVar[Versions]
    flexible_since: ClassVar[int]
    decoders: ClassVar[dict[int, Decoder]]
    encoders: ClassVar[dict[int, Encoder]]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version >= cls.flexible_since

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """The message in `buffer`. Bytes after it are ignored, as Kafka ignores them."""
        return cls.decode_from(buffer, 0, version)[0]

    @classmethod
    def decode_from(cls, buffer: Buffer, start: int, version: int) -> tuple[Self, int]:
        """The message that begins at `start`, and the position after it."""
        return cls.decoder(version)(buffer, start, len(buffer))

    @classmethod
    def decoder(cls, version: int) -> Decoder:
        """The compiled decode function, for callers that keep it."""
        decoder = cls.decoders.get(version)
        if decoder is None:
            decoder = _compile_decoder(cls, version)
        return decoder

    def encode(self, version: int) -> bytes:
        return b"".join(self.encode_parts(version))

    def encode_parts(self, version: int) -> list[Buffer]:
        """The message as buffers for `writelines` or `sendmsg`; records are not copied."""
        encoder = self.encoders.get(version)
        if encoder is None:
            encoder = _compile_encoder(type(self), version)
        return encoder(self)


class Request(Message, kw_only=True):
    """A request body."""

    api_key: ClassVar[int]


class Response(Message, kw_only=True):
    """A response body."""

    api_key: ClassVar[int]


MessageType = TypeVar("MessageType", bound=Message)


def message(
    *, versions: tuple[int, int], flexible_since: int | None = None, api_key: int | None = None
) -> Callable[[type[MessageType]], type[MessageType]]:
    """Gives a message its versions (both ends inclusive), and a request or response its API key."""

    def declare(cls: type[MessageType]) -> type[MessageType]:
        cls.versions = Versions(*versions)
        cls.flexible_since = LATEST + 1 if flexible_since is None else flexible_since
        cls.decoders = {}
        cls.encoders = {}
        if issubclass(cls, Request | Response) and api_key is not None:
            cls.api_key = api_key
        return cls

    return declare


_FIELDS: dict[type[Struct], tuple[Field, ...]] = {}
"""What `fields_of` has found out: reading annotations is slow, and every version asks again."""


def fields_of(struct: type[Struct]) -> tuple[Field, ...]:
    """The fields of a struct in wire order."""
    known = _FIELDS.get(struct)
    if known is not None:
        return known
    # msgspec sorts keyword-only fields by whether they are required; the wire's order is the
    # order of the annotations.
    infos = msgspec.structs.fields(cast(type[msgspec.Struct], struct))
    defaults = {info.name: _default(info) for info in infos}
    annotations = struct.__annotations__
    fields = tuple(_field(name, annotations[name], defaults[name]) for name in annotations)
    _FIELDS[struct] = fields
    return fields


def check_version(message: type[Message], version: int) -> None:
    if version not in message.versions:
        first, last = message.versions
        raise UnsupportedVersionError(
            f"{message.__name__} has no version {version}: use one of {first} to {last}"
        )


def _compile_decoder(message: type[Message], version: int) -> Decoder:
    from kafka_wire.decoder import compile_decoder

    check_version(message, version)
    decoder = message.decoders[version] = compile_decoder(message, version)
    return decoder


def _compile_encoder(message: type[Message], version: int) -> Encoder:
    from kafka_wire.encoder import compile_encoder

    check_version(message, version)
    encoder = message.encoders[version] = compile_encoder(message, version)
    return encoder


def _default(info: msgspec.structs.FieldInfo) -> Any:
    if info.default_factory is not NODEFAULT:
        return info.default_factory()
    return info.default


def _field(name: str, annotation: Any, default: Any) -> Field:
    markers: list[Any] = []
    inner, optional = _strip(annotation, markers)
    versions = next((m for m in markers if isinstance(m, Versions)), ALL_VERSIONS)
    nullable_from = next((m.version for m in markers if isinstance(m, NullableSince)), 0)
    return Field(
        name=name,
        wire=_wire_type(inner, markers),
        versions=versions,
        nullable=since(nullable_from) if optional else None,
        tag=next((m.number for m in markers if isinstance(m, Tag)), None),
        ignorable=any(m is ignorable for m in markers),
        default=default,
    )


def _strip(annotation: Any, markers: list[Any]) -> tuple[Any, bool]:
    """Takes `Annotated` and `| None` off, collects the markers, tells whether None is allowed."""
    optional = False
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *extra = get_args(annotation)
            markers.extend(extra)
        elif type(None) in get_args(annotation):
            optional = True
            (annotation,) = (a for a in get_args(annotation) if a is not type(None))
        else:
            return annotation, optional


def _wire_type(inner: Any, markers: list[Any]) -> WireType:
    for marker in markers:
        if isinstance(marker, Fixed | Variable):
            return marker
    if get_origin(inner) is list:
        element_markers: list[Any] = []
        element, optional = _strip(get_args(inner)[0], element_markers)
        if optional:
            raise TypeError("Kafka has no arrays of nullable elements")
        return ArrayOf(_wire_type(element, element_markers))
    if isinstance(inner, type) and issubclass(inner, Struct):
        return StructOf(inner)
    raise TypeError(f"{inner!r} has no wire type")
