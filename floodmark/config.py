"""Configuration: frozen dataclasses whose fields carry Kafka's name, default and meaning.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class LogConfig:
        segment_bytes: int = setting("segment.bytes", 1 << 30, "When to roll.", least=14)

        def __post_init__(self) -> None:
            check(self)

A value is checked once, when the object is made; after that everything that holds one may trust
it. `None` stands where Kafka says -1 for "no limit".
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from floodmark.errors import UserError

T = TypeVar("T")

_KEY = "setting"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known of one property."""

    name: str
    """Kafka's name for it."""
    doc: str
    least: float | None = None
    most: float | None = None
    one_of: tuple[str, ...] = ()


def setting(
    name: str,
    default: T,
    doc: str,
    *,
    least: float | None = None,
    most: float | None = None,
    one_of: Sequence[str] = (),
) -> T:
    """A field of a configuration class."""
    described = Setting(name=name, doc=doc, least=least, most=most, one_of=tuple(one_of))
    field: T = dataclasses.field(default=default, metadata={_KEY: described})
    return field


def settings_of(config: Any) -> dict[str, Setting]:
    """The settings of a configuration class or object by their field names."""
    return {
        field.name: field.metadata[_KEY]
        for field in dataclasses.fields(config)
        if _KEY in field.metadata
    }


def check(config: Any) -> None:
    """Raises a `UserError` for the first value that its setting does not allow."""
    for field_name, described in settings_of(config).items():
        value = getattr(config, field_name)
        for item in value if isinstance(value, frozenset | tuple) else (value,):
            _check_value(described, item)


def _check_value(described: Setting, value: Any) -> None:
    if value is None:
        return
    if described.one_of and value not in described.one_of:
        allowed = ", ".join(described.one_of)
        raise UserError(f"{described.name} cannot be {value!r}", f"use one of {allowed}")
    if described.least is not None and value < described.least:
        raise UserError(f"{described.name} cannot be {value}", f"use at least {described.least}")
    if described.most is not None and value > described.most:
        raise UserError(f"{described.name} cannot be {value}", f"use at most {described.most}")
