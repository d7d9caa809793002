"""Our schemas state the same facts as Kafka's own, field by field and version by version.

`TEST_SCHEMAS_DIR` is a folder with Kafka's message definitions (`clients/*.json` there are
`clients/src/main/resources/common/message` of Apache Kafka); `.ci/run` sets it where it has one.
"""

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_wire.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.messages import REQUESTS, RESPONSES
from kafka_wire.schema import (
    LATEST,
    ZERO_UUID,
    ArrayOf,
    Field,
    Fixed,
    Message,
    Struct,
    StructOf,
    Variable,
    Versions,
    WireType,
    fields_of,
)
from tests.wire.samples import name_of

MESSAGES: list[type[Message]] = [
    *REQUESTS.values(),
    *RESPONSES.values(),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]

NO_VERSIONS = Versions(1, 0)


@pytest.fixture(scope="module")
def folder() -> Path:
    setting = os.environ.get("TEST_SCHEMAS_DIR")
    if not setting:
        pytest.skip("TEST_SCHEMAS_DIR names no folder with Kafka's schemas; see .ci/run")
    return Path(setting) / "clients"


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
def test_the_schema_states_the_facts_of_kafkas(message: type[Message], folder: Path) -> None:
    definition = read_definition(folder / f"{json_name(message)}.json")
    theirs = parse_versions(definition["validVersions"])
    flexible = parse_versions(definition["flexibleVersions"])
    common = {item["name"]: item["fields"] for item in definition.get("commonStructs", ())}
    versions = range(
        max(message.versions.first, theirs.first), min(message.versions.last, theirs.last) + 1
    )
    assert versions, "there is nothing to compare"
    for version in versions:
        assert message.is_flexible(version) == (version in flexible)
        compare_structs(message, definition["fields"], version, theirs, common)


class Facts(NamedTuple):
    """What the wire depends on, of one field in one version."""

    name: str
    type: str
    nullable: bool
    tag: int | None
    default: Any


def compare_structs(
    struct: type[Struct],
    definitions: list[dict[str, Any]],
    version: int,
    known: Versions,
    common: dict[str, list[dict[str, Any]]],
) -> None:
    theirs = {snake(item["name"]): item for item in definitions}
    ours = {field.name: field for field in fields_of(struct)}
    present = [field for field in ours.values() if version in field.versions]
    present_there = [
        name for name, item in theirs.items() if version in parse_versions(item["versions"])
    ]
    assert [field.name for field in present] == present_there, (struct, version)
    for field in present:
        item = theirs[field.name]
        assert facts_of_ours(field, version) == facts_of_theirs(field, item, version), struct
        if isinstance(nested := element(field.wire), StructOf):
            kind = item["type"].removeprefix("[]")
            compare_structs(
                nested.struct, item.get("fields") or common[kind], version, known, common
            )
    for field in ours.values():
        if field.name not in theirs:
            assert field.versions.first > known.last, f"{struct}: {field.name} is not Kafka's"
        elif version not in field.versions:
            item = theirs[field.name]
            assert field.ignorable == item.get("ignorable", False), (struct, field.name)
            assert field.default == default_of(field, item), (struct, field.name)


def facts_of_ours(field: Field, version: int) -> Facts:
    # A required field has no default of ours to compare: the caller must say what he means.
    return Facts(
        name=field.name,
        type=type_name(field.wire),
        nullable=field.is_nullable(version),
        tag=field.tag,
        default=None if field.required else field.default,
    )


def facts_of_theirs(field: Field, item: dict[str, Any], version: int) -> Facts:
    tagged = version in parse_versions(item.get("taggedVersions", "none"))
    kind = item["type"]
    return Facts(
        name=snake(item["name"]),
        type=kind if kind.removeprefix("[]")[0].islower() else re.sub(r"\w+", "struct", kind),
        nullable=version in parse_versions(item.get("nullableVersions", "none")),
        tag=item["tag"] if tagged else None,
        default=None if field.required else default_of(field, item),
    )


def default_of(field: Field, item: dict[str, Any]) -> Any:
    """The default that the file states, or the one that its type implies."""
    stated = item.get("default")
    if stated == "null":
        return None
    if stated is None and field.default is None and field.nullable and field.tag is None:
        # Kafka's classes begin with an empty string where nothing is stated, ours with null: an
        # error without a message has none. No byte depends on it, for such a field is written.
        return None
    if isinstance(field.wire, ArrayOf):
        return []
    match item["type"]:
        case "bool":
            return str(stated).lower() == "true"
        case "string":
            return stated or ""
        case "bytes":
            return b""
        case "uuid":
            return ZERO_UUID
        case "records":
            return None
        case "float64":
            return float(stated or 0)
        case kind if kind[0].islower():
            return int(str(stated or 0), 0)
    assert isinstance(field.wire, StructOf)
    return field.wire.struct()


NUMBERS = {
    "?": "bool",
    "b": "int8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "q": "int64",
    "d": "float64",
}


def type_name(wire: WireType) -> str:
    match wire:
        case Fixed(format=code):
            return NUMBERS[code]
        case Variable(kind=kind):
            return kind
        case ArrayOf(element=item):
            return "[]" + type_name(item)
        case StructOf():
            return "struct"


def element(wire: WireType) -> WireType:
    return wire.element if isinstance(wire, ArrayOf) else wire


def json_name(message: type[Message]) -> str:
    return message.__name__


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@cache
def parse_versions(text: str) -> Versions:
    """`3`, `3-5`, `3+` or `none`."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), LATEST)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def read_definition(file: Path) -> dict[str, Any]:
    """Kafka's files are JSON with comments on lines of their own, or behind a line."""
    text = re.sub(
        r"^\s*//.*$|(?<=[,{\[\]}\s])//.*$", "", file.read_text("utf-8"), flags=re.MULTILINE
    )
    definition: dict[str, Any] = json.loads(text)
    return definition
