"""Compiles one version of a message to a straight-line decode function.

What the compiler knows, the function need not find out: which fields the version has, what is
fixed in size, what may be null. Fields of fixed size that stand side by side are read by one
`struct` call, which also takes the first byte of a length or of the tag section that follows:
most lengths are below 127 and most tag sections are empty, so that byte is usually all of it.

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
    RawTaggedField,
    Struct,
    StructOf,
    Variable,
    WireType,
    fields_of,
)
from kafka_wire.source import Source
from kafka_wire.varint import read_tag_spans, read_unknown_tags, read_uvarint

UUID_BYTES = 16
NULL_STRUCT = 0xFF
"""The byte before a nullable struct that is null: -1 as an int8; 1 stands before one that is not."""


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
            read_tag_spans=read_tag_spans,
            read_unknown_tags=read_unknown_tags,
            unpack_from=struct.unpack_from,
            DecodeError=DecodeError,
            RawTaggedField=RawTaggedField,
            MALFORMED=(struct.error, IndexError, UnicodeDecodeError, DecodeError),
            explain=self.explain,
        )
        self.pending: list[tuple[str, str]] = []
        """(format, name) of fixed-size values that the next `struct` call will read."""

    def compile(self) -> Decoder:
        with self.source.block("def decode(b, p, end)"):
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

    def flush(self) -> None:
        """Writes the reads that are pending."""
        if not self.pending:
            return
        formats = "".join(f for f, _ in self.pending)
        names = ", ".join(n for _, n in self.pending)
        if formats == "B":
            self.source.line(f"{names} = b[p]; p += 1")
        else:
            size = struct.calcsize(">" + formats)
            self.source.line(f"{names}, = {self.source.unpacker(formats)}(b, p); p += {size}")
        self.pending.clear()

    def struct(self, struct_class: type[Struct]) -> str:
        """Reads a struct; returns the name that holds it."""
        present = [f for f in fields_of(struct_class) if self.version in f.versions]
        values: dict[str, str] = {}
        for field in present:
            if field.tag is None:
                values[field.name] = self.value(field.wire, field, field.name)
        if self.flexible:
            values |= self.tag_section([f for f in present if f.tag is not None])
        self.flush()
        cls = self.source.constant(struct_class.__name__, struct_class)
        arguments = ", ".join(f"{k}={v}" for k, v in values.items())
        result = self.source.name("s")
        self.source.line(f"{result} = {cls}({arguments})")
        return result

    def tag_section(self, known: list[Field]) -> dict[str, str]:
        """Reads the tagged fields of a struct; returns the names that hold them."""
        source = self.source
        count, unknown = source.name("tags"), source.name("unknown")
        self.pending.append(("B", count))
        self.flush()
        values = {"unknown_tagged_fields": unknown}
        for field in known:
            values[field.name] = source.name(field.name)
            source.line(f"{values[field.name]} = {self.default(field)}")
        source.line(f"{unknown} = ()")
        with source.block(f"if {count}"):
            if not known:
                source.line(f"{unknown}, p = read_unknown_tags(b, p - 1, end)")
                return values
            spans, after = source.name("spans"), source.name("after")
            source.line(f"{spans}, {after} = read_tag_spans(b, p - 1, end)")
            number, stop = source.name("tag"), source.name("stop")
            with source.block(f"for {number}, p, {stop} in {spans}"):
                for field in known:
                    with source.block(f"if {number} == {field.tag}"):
                        result = self.value(field.wire, field, field.name)
                        self.flush()
                        source.line(f"{values[field.name]} = {result}")
                        with source.block(f"if p != {stop}"):
                            self.fail(f"'tagged field {field.name} has the wrong length'")
                        source.line("continue")
                source.line(f"{unknown} += (RawTaggedField({number}, bytes(b[p:{stop}])),)")
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

        A legacy length is the length, with -1 for null; a compact one is the length plus one,
        with 0 for null.
        """
        size = self.source.name(f"n_{hint}")
        if not self.flexible:
            self.pending.append(("h" if kind == "string" else "i", size))
            self.flush()
            return size
        self.pending.append(("B", size))
        self.flush()
        with self.source.block(f"if {size} > 127"):
            if kind == "records":
                self.inline_uvarint(size)
            else:
                self.source.line(f"{size}, p = read_uvarint(b, p - 1)")
        return size

    def inline_uvarint(self, size: str) -> None:
        """Reads the second and third byte in place: batches of 128 B to 2 MB have such lengths."""
        self.source.line(f"{size} += (b[p] << 7) - 128; p += 1")
        with self.source.block(f"if {size} > 0x3FFF"):
            self.source.line(f"{size} += (b[p] << 14) - 0x4000; p += 1")
            with self.source.block(f"if {size} > 0x1FFFFF"):
                self.source.line(f"{size}, p = read_uvarint(b, p - 3)")

    @contextmanager
    def unless_null(self, size: str, result: str, hint: str, *, nullable: bool) -> Iterator[str]:
        """Branches on a length; inside is the branch of a value, given its length's expression."""
        with self.source.block(f"if {size}" if self.flexible else f"if {size} >= 0"):
            yield f"{size} - 1" if self.flexible else size
        if not self.flexible:
            with self.source.block(f"elif {size} < -1"):
                self.fail(f"f'{hint} has a length of {{{size}}}'")
        with self.source.block("else"):
            if nullable:
                self.source.line(f"{result} = None")
            else:
                self.fail(f"'{hint} is null'")

    def sized(self, kind: str, hint: str, *, nullable: bool) -> str:
        source = self.source
        size = self.length(kind, hint)
        result, stop = source.name(hint), source.name("stop")
        with self.unless_null(size, result, hint, nullable=nullable) as length:
            source.line(f"{stop} = p + {length}")
            with source.block(f"if {stop} > end"):
                self.fail(f"f'{hint} has {{{length}}} bytes, {{end - p}} are left'")
            match kind:
                case "string":
                    source.line(f"{result} = str(b[p:{stop}], 'utf-8')")
                case "bytes":
                    source.line(f"{result} = bytes(b[p:{stop}])")
                case "records":
                    source.line(f"{result} = b[p:{stop}]")
            source.line(f"p = {stop}")
        return result

    def array(self, element: WireType, field: Field, hint: str, *, nullable: bool) -> str:
        source = self.source
        size = self.length("array", hint)
        result = source.name(hint)
        with self.unless_null(size, result, hint, nullable=nullable) as count:
            with source.block(f"if ({count}) * {self.smallest(element)} > end - p"):
                self.fail(f"f'{hint} has {{{count}}} elements, {{end - p}} bytes are left'")
            if isinstance(element, Fixed):
                source.line(
                    f"{result} = list(unpack_from(f'>{{{count}}}{element.format}', b, p)); "
                    f"p += ({count}) * {element.size_bytes}"
                )
            else:
                append = source.name("append")
                source.line(f"{result} = []; {append} = {result}.append")
                with source.block(f"for _ in range({count})"):
                    item = self.value(element, _element_of(field), hint)
                    self.flush()
                    source.line(f"{append}({item})")
        return result

    def nullable_struct(self, struct_class: type[Struct], hint: str) -> str:
        marker, result = self.source.name("present"), self.source.name(hint)
        self.pending.append(("B", marker))
        self.flush()
        with self.source.block(f"if {marker} == {NULL_STRUCT}"):
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


def _element_of(field: Field) -> Field:
    """An array's element: never null, never tagged."""
    return field._replace(nullable=None, tag=None)
