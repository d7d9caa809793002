"""Configuration: frozen dataclasses whose fields carry Kafka's name, default and meaning.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class LogConfig:
        segment_bytes: int = setting("segment.bytes", 1 << 30, "When to roll.", least=14)

        def __post_init__(self) -> None:
            check(self)

A value is checked once, when the object is made; after that everything that holds one may trust
it. `None` stands where Kafka says -1 for "no limit". How values come from files, environment
variables and flags is told in `floodmark.config_file`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from floodmark.errors import UserError

T = TypeVar("T")

_KEY = "setting"


class SettingError(UserError):
    """A property has a value that it cannot have, or none where it must have one."""

    def __init__(self, name: str, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.args = (name, what, remedy)
        self.name = name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known of one property."""

    name: str
    """Kafka's name for it."""
    doc: str
    least: float | None = None
    most: float | None = None
    one_of: tuple[str, ...] = ()
    parse: Callable[[str], Any] | None = None
    """Makes a value (an item, in a tuple) from text, where the field's type alone does not tell
    how. It raises a `ValueError` that says what the text should be."""


def setting(
    name: str,
    default: T,
    doc: str,
    *,
    least: float | None = None,
    most: float | None = None,
    one_of: Sequence[str] = (),
    parse: Callable[[str], Any] | None = None,
) -> T:
    """A field of a configuration class."""
    described = Setting(
        name=name, doc=doc, least=least, most=most, one_of=tuple(one_of), parse=parse
    )
    field: T = dataclasses.field(default=default, metadata={_KEY: described})
    return field


def required(
    name: str,
    doc: str,
    *,
    least: float | None = None,
    most: float | None = None,
    parse: Callable[[str], Any] | None = None,
) -> Any:
    """A field that has no default: nobody but the operator can know it."""
    described = Setting(name=name, doc=doc, least=least, most=most, parse=parse)
    return dataclasses.field(metadata={_KEY: described})


def settings_of(config: Any) -> dict[str, Setting]:
    """The settings of a configuration class or object by their field names."""
    return {
        field.name: field.metadata[_KEY]
        for field in dataclasses.fields(config)
        if _KEY in field.metadata
    }


def property_names(config: Any) -> tuple[str, ...]:
    """Kafka's names of a configuration's settings."""
    return tuple(described.name for described in settings_of(config).values())


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
        raise _cannot_be(described, repr(value), f"use one of {allowed}")
    if described.least is not None and value < described.least:
        raise _cannot_be(described, value, f"use at least {described.least}")
    if described.most is not None and value > described.most:
        raise _cannot_be(described, value, f"use at most {described.most}")


def _cannot_be(described: Setting, value: object, remedy: str) -> SettingError:
    return SettingError(described.name, f"{described.name} cannot be {value}", remedy)
