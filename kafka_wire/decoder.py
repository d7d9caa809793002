"""Compiles one version of a message to a straight-line decode function.

What the compiler knows, the function need not find out: which fields the version has, what is
fixed in size, what may be null. Fields of fixed size that stand side by side are read by one
`struct` call, which also takes the first byte of a length or of the tag section that follows:
most lengths are below 127 and most tag sections are empty, so that byte is usually all of it.

A compact length is the length plus one. So the position is left on the last byte of a compact
length, and `position + length` is where the value ends.

A length is compared with what is left of the frame before anything is built, and an array's
count with the smallest size its elements can have, so a lying length costs nothing. Slices of a
memoryview truncate silently: no slice is taken that was not checked first.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from kafka_wire.errors import DecodeError
from kafka_wire.schema import (
    ArrayOf,
    Decoder,
    Field,
    Fixed,
    Message,
    Struct,
    StructOf,
    Variable,
    WireType,
    fields_of,
)
from kafka_wire.source import SHORT_ARRAY, Source
from kafka_wire.varint import read_tagged_fields, read_unknown_tags, read_uvarint

UUID_BYTES = 16
MAX_STRING_BYTES = 32767
"""Kafka refuses longer strings also where their compact length could be larger."""
MAX_PRESENT = 127
"""The byte before a nullable struct is an int8: negative for null, 1 before one that is there."""


def compile_decoder(message: type[Message], version: int) -> Decoder:
    """The decode function of one version. It raises nothing but `DecodeError`."""
    return _DecoderCompiler(message, version).compile()


class _DecoderCompiler:
    """The state of one compilation: the source, and the fixed-size reads not yet written."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        self.source = Source()
        self.source.constants.update(
            read_uvarint=read_uvarint,
            read_tagged_fields=read_tagged_fields,
            read_unknown_tags=read_unknown_tags,
            unpack_from=struct.unpack_from,
            DecodeError=DecodeError,
            MALFORMED=(struct.error, IndexError, UnicodeDecodeError, DecodeError),
            explain=self.explain,
        )
        self.pending: list[tuple[str, str]] = []
        """(format, name) of fixed-size values that the next `struct` call will read."""

    def compile(self) -> Decoder:
        with self.source.block("def decode(b, p, end)"):
            with self.source.block("if b.__class__ is not memoryview"):
                self.source.line("b = memoryview(b)")
            with self.source.block("try"):
                result = self.struct(self.message)
                self.source.line(f"return {result}, p")
            with self.source.block("except MALFORMED as error"):
                self.source.line("raise explain(error, p, end) from None")
        name = f"{self.message.__name__} v{self.version}"
        decoder: Decoder = self.source.function("decode", f"<decode {name}>")
        return decoder

    def explain(self, error: Exception, position: int, end: int) -> DecodeError:
        """The one error that a caller sees, whatever went wrong."""
        match error:
            case DecodeError():
                reason = str(error)
            case UnicodeDecodeError():
                reason = f"a string is not UTF-8 ({error})"
            case _:
                reason = f"it ends too early, at byte {end}"
        return DecodeError(
            f"{self.message.__name__} v{self.version} cannot be decoded: {reason}"
            f" (at or after byte {position})"
        )

    def flush(self, *, stay: bool = False) -> None:
        """Writes the reads that are pending; `stay` leaves the position on their last byte."""
        if not self.pending:
            return
        formats = "".join(f for f, _ in self.pending)
        names = ", ".join(n for _, n in self.pending)
        advance = struct.calcsize(">" + formats) - stay
        if formats == "B":
            self.source.line(f"{names} = b[p]")
        else:
            self.source.line(f"{names}, = {self.source.unpacker(formats)}(b, p)")
        if advance:
            self.source.line(f"p += {advance}")
        self.pending.clear()

    def struct(self, struct_class: type[Struct]) -> str:
        """Reads a struct; returns the name that holds it."""
        source = self.source
        present = [f for f in fields_of(struct_class) if self.version in f.versions]
        values = {f.name: self.value(f.wire, f, f.name) for f in present if f.tag is None}
        cls = source.constant(struct_class.__name__, struct_class)
        result = source.name("s")
        if not self.flexible:
            self.flush()
            source.line(f"{result} = {cls}({_arguments(values)})")
            return result
        count = source.name("tags")
        self.pending.append(("B", count))
        self.flush(stay=True)
        with source.block(f"if {count}"):
            tagged = self.tag_section([f for f in present if f.tag is not None])
            source.line(f"{result} = {cls}({_arguments(values | tagged)})")
        with source.block("else"):
            source.line(f"p += 1; {result} = {cls}({_arguments(values)})")
        return result

    def tag_section(self, known: list[Field]) -> dict[str, str]:
        """Reads a tag section that is not empty; returns the names that hold its fields."""
        source = self.source
        unknown = source.name("unknown")
        values = {"unknown_tagged_fields": unknown}
        if not known:
            source.line(f"{unknown}, p = read_unknown_tags(b, p, end)")
            return values
        for field in known:
            values[field.name] = source.name(field.name)
            source.line(f"{values[field.name]} = {self.default(field)}")
        tags = source.constant("known", tuple(field.tag for field in known))
        spans, after = source.name("spans"), source.name("after")
        source.line(f"{spans}, {unknown}, {after} = read_tagged_fields(b, p, end, {tags})")
        number, stop = source.name("tag"), source.name("stop")
        with source.block(f"for {number}, p, {stop} in {spans}"):
            for field in known:
                with source.block(f"if {number} == {field.tag}"):
                    result = self.value(field.wire, field, field.name)
                    self.flush()
                    source.line(f"{values[field.name]} = {result}")
            with source.block(f"if p != {stop}"):
                self.fail(f"f'tagged field {{{number}}} has the wrong length'")
        source.line(f"p = {after}")
        return values

    def default(self, field: Field) -> str:
        if isinstance(field.wire, ArrayOf):
            return "None" if field.default is None else "[]"
        return self.source.constant("default", field.default)

    def value(self, wire: WireType, field: Field, hint: str) -> str:
        """Reads a value; returns the name that holds it once `flush` was called."""
        nullable = field.is_nullable(self.version)
        match wire:
            case Fixed(format=code):
                result = self.source.name(hint)
                self.pending.append((code, result))
                return result
            case Variable(kind="uuid"):
                result = self.source.name(hint)
                self.pending.append((f"{UUID_BYTES}s", result))
                return result
            case Variable(kind=kind):
                return self.sized(kind, hint, nullable=nullable)
            case ArrayOf(element=element):
                return self.array(element, field, hint, nullable=nullable)
            case StructOf(struct=struct_class):
                if nullable and field.tag is None:
                    return self.nullable_struct(struct_class, hint)
                return self.struct(struct_class)

    def length(self, kind: str, hint: str) -> str:
        """Reads a length or a count; returns the name that holds it.

        A legacy length is the length, with -1 for null, and the position is behind it. A compact
        one is the length plus one, with 0 for null, and the position is on its last byte.
        """
        source = self.source
        size = source.name(f"n_{hint}")
        if not self.flexible:
            self.pending.append(("h" if kind == "string" else "i", size))
            self.flush()
            return size
        self.pending.append(("B", size))
        self.flush(stay=True)
        with source.block(f"if {size} > 127"):
            if kind == "records":
                self.inline_uvarint(size)
            else:
                source.line(f"{size}, p = read_uvarint(b, p); p -= 1")
            if kind == "string":
                with source.block(f"if {size} > {MAX_STRING_BYTES + 1}"):
                    self.fail(f"f'{hint} has {{{size} - 1}} bytes, {MAX_STRING_BYTES} is the most'")
        return size

    def inline_uvarint(self, size: str) -> None:
        """Reads the second and third byte in place: batches of 128 B to 2 MB have such lengths."""
        source = self.source
        source.line(f"p += 1; {size} += (b[p] << 7) - 128")
        with source.block(f"if {size} > 0x3FFF"):
            source.line(f"p += 1; {size} += (b[p] << 14) - 0x4000")
            with source.block(f"if {size} > 0x1FFFFF"):
                source.line(f"{size}, p = read_uvarint(b, p - 2); p -= 1")

    @contextmanager
    def unless_null(self, size: str, result: str, hint: str, *, nullable: bool) -> Iterator[None]:
        """Branches on a length; inside is the branch of a value that is there."""
        with self.source.block(f"if {size}" if self.flexible else f"if {size} >= 0"):
            yield
        if not self.flexible:
            with self.source.block(f"elif {size} < -1"):
                self.fail(f"f'{hint} has a length of {{{size}}}'")
        with self.source.block("else"):
            if not nullable:
                self.fail(f"'{hint} is null'")
            elif self.flexible:
                self.source.line(f"{result} = None; p += 1")
            else:
                self.source.line(f"{result} = None")

    def sized(self, kind: str, hint: str, *, nullable: bool) -> str:
        source = self.source
        size = self.length(kind, hint)
        result, stop = source.name(hint), source.name("stop")
        start = "p + 1" if self.flexible else "p"
        with self.unless_null(size, result, hint, nullable=nullable):
            source.line(f"{stop} = p + {size}")
            with source.block(f"if {stop} > end"):
                self.fail(
                    f"f'{hint} has {{{stop} - ({start})}} bytes, {{end - ({start})}} are left'"
                )
            match kind:
                case "string":
                    source.line(f"{result} = b[{start}:{stop}].tobytes().decode()")
                case "bytes":
                    source.line(f"{result} = b[{start}:{stop}].tobytes()")
                case "records":
                    source.line(f"{result} = b[{start}:{stop}]")
            source.line(f"p = {stop}")
        return result

    def array(self, element: WireType, field: Field, hint: str, *, nullable: bool) -> str:
        source = self.source
        size = self.length("array", hint)
        result = source.name(hint)
        with self.unless_null(size, result, hint, nullable=nullable):
            if self.flexible:
                source.line(f"p += 1; {size} -= 1")
            with source.block(f"if {size} * {self.smallest(element)} > end - p"):
                self.fail(f"f'{hint} has {{{size}}} elements, {{end - p}} bytes are left'")
            if isinstance(element, Fixed):
                unpackers = source.array_unpackers(element.format)
                with source.block(f"if {size} <= {SHORT_ARRAY}"):
                    source.line(f"{result} = [*{unpackers}[{size}](b, p)]")
                with source.block("else"):
                    source.line(f"{result} = [*unpack_from(f'>{{{size}}}{element.format}', b, p)]")
                source.line(f"p += {size} * {element.size_bytes}")
            else:
                source.line(f"{result} = []")
                with source.block(f"for _ in range({size})"):
                    item = self.value(element, _element_of(field), hint)
                    self.flush()
                    source.line(f"{result}.append({item})")
        return result

    def nullable_struct(self, struct_class: type[Struct], hint: str) -> str:
        marker, result = self.source.name("present"), self.source.name(hint)
        self.pending.append(("B", marker))
        self.flush()
        with self.source.block(f"if {marker} > {MAX_PRESENT}"):
            self.source.line(f"{result} = None")
        with self.source.block("else"):
            self.source.line(f"{result} = {self.struct(struct_class)}")
        return result

    def fail(self, message: str) -> None:
        self.source.line(f"raise DecodeError({message})")

    def smallest(self, wire: WireType) -> int:
        """The fewest bytes that an element can take: what bounds the count of an array."""
        match wire:
            case Fixed(size_bytes=size):
                return size
            case Variable(kind="uuid"):
                return UUID_BYTES
            case Variable(kind="string"):
                return 1 if self.flexible else 2
            case Variable() | ArrayOf():
                return 1 if self.flexible else 4
            case StructOf(struct=struct_class):
                size = int(self.flexible)
                for field in fields_of(struct_class):
                    if self.version in field.versions and field.tag is None:
                        nullable = isinstance(field.wire, StructOf) and field.is_nullable(
                            self.version
                        )
                        size += 1 if nullable else self.smallest(field.wire)
                if size == 0:
                    raise TypeError(f"{struct_class.__name__} is empty in v{self.version}")
                return size


def _arguments(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _element_of(field: Field) -> Field:
    """An array's element: never null, never tagged."""
    return field._replace(nullable=None, tag=None)
