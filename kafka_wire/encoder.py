"""Compiles one version of a message to a straight-line encode function.

Fields of fixed size that stand side by side are written by one `struct` call. Record batches are
not copied: the function returns a list of buffers in which they stand as they are.
"""

import struct
from typing import Any

from kafka_wire.errors import EncodeError, WireError
from kafka_wire.schema import (
    ArrayOf,
    Encoder,
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
from kafka_wire.types import Buffer
from kafka_wire.varint import uvarint, write_tags

MAX_STRING_BYTES = 32767
"""A string's length is an int16 in the legacy format, and no longer in the compact one."""


def compile_encoder(message: type[Message], version: int) -> Encoder:
    """The encode function of one version, with every failure as an `EncodeError`."""
    encode = _EncoderCompiler(message, version).compile()
    label = f"{message.__name__} v{version}"

    def encoder(value: Any) -> list[Buffer]:
        try:
            parts: list[Buffer] = encode(value)
        except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
            raise EncodeError(
                f"{label}: a field has a value that does not fit it: {error}"
            ) from error
        except WireError as error:
            raise EncodeError(f"{label}: {error}") from None
        return parts

    return encoder


class _EncoderCompiler:
    """The state of one compilation: the source, and the fixed-size writes not yet written."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        self.source = Source()
        self.source.constants.update(
            uvarint=uvarint,
            write_tags=write_tags,
            write_string_length=_write_string_length,
            pack=struct.pack,
            refuse_uuid=_refuse_uuid,
            EncodeError=EncodeError,
        )
        self.pending: list[tuple[str, str]] = []
        """(format, expression) of fixed-size values that the next `struct` call will write."""

    def compile(self) -> Any:
        with self.source.block("def encode(o)"):
            self.source.line("parts = []; out = bytearray()")
            self.struct(self.message, "o")
            self.flush()
            self.source.line("parts.append(out)")
            self.source.line("return parts")
        return self.source.function("encode", f"<encode {self.message.__name__} v{self.version}>")

    def flush(self) -> None:
        """Writes the values that are pending."""
        if not self.pending:
            return
        formats = "".join(f for f, _ in self.pending)
        values = ", ".join(v for _, v in self.pending)
        if formats == "B":
            self.source.line(f"out.append({values})")
        else:
            self.source.line(f"out += {self.source.packer(formats)}({values})")
        self.pending.clear()

    def struct(self, struct_class: type[Struct], o: str) -> None:
        fields = fields_of(struct_class)
        for field in fields:
            if self.version not in field.versions:
                self.absent(field, o)
        present = [f for f in fields if self.version in f.versions]
        for field in present:
            if field.tag is None:
                self.value(field.wire, field, f"{o}.{field.name}")
        if self.flexible:
            self.tag_section([f for f in present if f.tag is not None], o)
        else:
            self.refuse_if(
                f"{o}.unknown_tagged_fields", "there are tagged fields, and this version has none"
            )

    def absent(self, field: Field, o: str) -> None:
        """A field that this version lacks must have its default, unless it is ignorable."""
        if field.ignorable:
            return
        if field.required:
            raise TypeError(f"{field.name} is not in v{self.version}: it needs a default")
        self.refuse_if(self.differs(field, o), f"{field.name} is set, and this version lacks it")

    def refuse_if(self, condition: str, message: str) -> None:
        with self.source.block(f"if {condition}"):
            self.source.line(f"raise EncodeError({message!r})")

    def differs(self, field: Field, o: str) -> str:
        """An expression: is the field other than its default?"""
        value = f"{o}.{field.name}"
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.wire, ArrayOf) or field.default is False:
            return value
        if isinstance(field.default, int):
            return f"{value} != {field.default}"
        default = self.source.constant("default", field.default)
        return f"{value} is not {default} and {value} != {default}"

    def tag_section(self, known: list[Field], o: str) -> None:
        source = self.source
        if not known:
            self.flush()
            with source.block(f"if {o}.unknown_tagged_fields"):
                source.line(f"write_tags(out, (), {o}.unknown_tagged_fields)")
            with source.block("else"):
                source.line("out.append(0)")
            return
        self.flush()
        conditions = [f"({self.differs(field, o)})" for field in known]
        with source.block(f"if {o}.unknown_tagged_fields or {' or '.join(conditions)}"):
            tags, outer = source.name("tags"), source.name("outer")
            source.line(f"{tags} = []; {outer} = out")
            for field, condition in zip(known, conditions, strict=True):
                with source.block(f"if {condition}"):
                    source.line("out = bytearray()")
                    self.value(field.wire, field, f"{o}.{field.name}")
                    self.flush()
                    source.line(f"{tags}.append(({field.tag}, out))")
            source.line(f"out = {outer}")
            source.line(f"write_tags(out, {tags}, {o}.unknown_tagged_fields)")
        with source.block("else"):
            source.line("out.append(0)")

    def value(self, wire: WireType, field: Field, expression: str) -> None:
        nullable = field.is_nullable(self.version)
        match wire:
            case Fixed(format=code):
                self.pending.append((code, expression))
            case Variable(kind="uuid"):
                # `16s` would pad or cut another length without a word.
                checked = f"{expression} if len({expression}) == 16 else refuse_uuid({expression})"
                self.pending.append(("16s", checked))
            case Variable(kind=kind):
                self.sized(kind, field, expression, nullable=nullable)
            case ArrayOf(element=element):
                self.array(element, field, expression, nullable=nullable)
            case StructOf(struct=struct_class):
                value = self.source.name("s")
                if nullable and field.tag is None:
                    self.nullable_struct(struct_class, value, expression)
                else:
                    self.source.line(f"{value} = {expression}")
                    self.struct(struct_class, value)

    def length(self, size: str, kind: str) -> None:
        """Writes a length or a count."""
        if not self.flexible:
            self.pending.append(("h" if kind == "string" else "i", size))
            self.flush()
            return
        self.flush()
        with self.source.block(f"if {size} < 127"):
            self.source.line(f"out.append({size} + 1)")
        if kind == "records":
            # The lengths of most batches, in place: a call would cost more than the write.
            two, three = self.source.packer("BB"), self.source.packer("BBB")
            with self.source.block(f"elif {size} < 0x3FFF"):
                self.source.line(f"{size} += 1")
                self.source.line(f"out += {two}({size} & 127 | 128, {size} >> 7)")
            with self.source.block(f"elif {size} < 0x1FFFFF"):
                self.source.line(f"{size} += 1")
                digits = f"{size} & 127 | 128, {size} >> 7 & 127 | 128, {size} >> 14"
                self.source.line(f"out += {three}({digits})")
        with self.source.block("else"):
            if kind == "string":
                self.source.line(f"write_string_length(out, {size})")
            else:
                self.source.line(f"out += uvarint({size} + 1)")

    def null(self, kind: str) -> None:
        if self.flexible:
            self.source.line("out.append(0)")
        else:
            self.source.line(rf"out += {bytes([255] * (2 if kind == 'string' else 4))!r}")

    def sized(self, kind: str, field: Field, expression: str, *, nullable: bool) -> None:
        source = self.source
        self.flush()
        value, size = source.name(kind), source.name("size")
        source.line(f"{value} = {expression}")
        if nullable:
            with source.block(f"if {value} is None"):
                self.null(kind)
            with source.block("else"):
                self.sized_body(kind, value, size)
        else:
            self.sized_body(kind, value, size)

    def sized_body(self, kind: str, value: str, size: str) -> None:
        source = self.source
        if kind == "string":
            source.line(f"{value} = {value}.encode()")
        source.line(f"{size} = len({value})")
        self.length(size, kind)
        if kind == "records":
            source.line(f"parts.append(out); parts.append({value}); out = bytearray()")
        else:
            source.line(f"out += {value}")

    def array(self, element: WireType, field: Field, expression: str, *, nullable: bool) -> None:
        source = self.source
        self.flush()
        items = source.name("items")
        source.line(f"{items} = {expression}")
        if nullable:
            with source.block(f"if {items} is None"):
                self.null("array")
            with source.block("else"):
                self.array_body(element, field, items)
        else:
            self.array_body(element, field, items)

    def array_body(self, element: WireType, field: Field, items: str) -> None:
        source = self.source
        count = source.name("count")
        source.line(f"{count} = len({items})")
        self.length(count, "array")
        if isinstance(element, Fixed):
            packers = source.array_packers(element.format)
            with source.block(f"if {count} <= {SHORT_ARRAY}"):
                source.line(f"out += {packers}[{count}](*{items})")
            with source.block("else"):
                source.line(f"out += pack(f'>{{{count}}}{element.format}', *{items})")
            return
        item = source.name("item")
        with source.block(f"for {item} in {items}"):
            self.value(element, field._replace(nullable=None, tag=None), item)
            self.flush()

    def nullable_struct(self, struct_class: type[Struct], value: str, expression: str) -> None:
        source = self.source
        self.flush()
        source.line(f"{value} = {expression}")
        with source.block(f"if {value} is None"):
            source.line("out.append(255)")
        with source.block("else"):
            source.line("out.append(1)")
            self.struct(struct_class, value)
            self.flush()


def _write_string_length(out: bytearray, size: int) -> None:
    if size > MAX_STRING_BYTES:
        raise EncodeError(f"a string of {size} bytes is too long: {MAX_STRING_BYTES} is the most")
    out += uvarint(size + 1)


def _refuse_uuid(value: bytes) -> bytes:
    raise EncodeError(f"a uuid has 16 bytes, this one has {len(value)}")
