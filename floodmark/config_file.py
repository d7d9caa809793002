"""Where a configuration comes from: a file, then environment variables, then flags.

    loaded = load(QuorumConfig, path="quorum.toml", environment=os.environ, flags=["node.id=1"])

The file is TOML (`*.toml`) or Java properties (any other name). The variables follow the rule of
Kafka's image with a prefix of our own: `FLOODMARK_LOG_SEGMENT_BYTES` is `log.segment.bytes`; `__`
stands for `_`, `___` for `-`. What comes later wins. Whatever is wrong is told with the place
where it was said: the file, the variable or the flag.
"""

import re
import tomllib
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import (
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from floodmark.config import Setting, SettingError, settings_of
from floodmark.errors import UserError
from floodmark.kafka_properties import NAMES, is_kafka_property
from floodmark.properties import PropertiesError, parse_properties

PREFIX: Final = "FLOODMARK_"
MOST_FILE_BYTES: Final = 1 << 20
_FLAG: Final = "--config"

# Kubernetes tells every container of the services beside it, in variables that begin with the
# service's name; a service called floodmark must not break the nodes behind it.
_KUBERNETES: Final = re.compile(
    r"(.*_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)

_UNPROTECTED: Final = ("authorizer.class.name", "sasl.", "security.", "super.users")
_INSTEAD: Final = {
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location",
    "ssl.truststore.location": "ssl.ca.location",
}

C = TypeVar("C")
Text: TypeAlias = "str | tuple[str, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Generic[C]):
    """A configuration, and what its author should be told once there is a log to tell it in."""

    config: C
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as it was written, and where."""

    text: Text
    source: str


def load(
    config_class: type[C],
    *,
    path: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    others: Collection[str] = (),
    known: Mapping[str, Any] | None = None,
) -> Loaded[C]:
    """Makes a configuration. `others` are properties of ours that another program reads; `known`
    are fields whose values do not come from a configuration."""
    given: dict[str, _Given] = {}
    if path is not None:
        given |= _from_file(Path(path))
    given |= _from_environment(environment or {})
    given |= _from_flags(flags)
    by_name = {described.name: name for name, described in settings_of(config_class).items()}
    unused = [name for name in given if name not in by_name and name not in others]
    for name in unused:
        _refuse_unknown(name, given[name].source, [*by_name, *others])
    config = _make(config_class, given, known or {}, str(path) if path is not None else None)
    return Loaded(config=config, warnings=tuple(_warnings(unused, given)))


def key_of_variable(variable: str) -> str:
    """The property that an environment variable sets (its prefix included)."""
    parts = re.split("(_+)", variable.removeprefix(PREFIX).lower())
    return "".join(_dots(part) if part.startswith("_") else part for part in parts)


def _dots(run: str) -> str:
    """A run of underscores, three at a time: `___` is `-`, `__` is `_`, `_` is `.`."""
    whole, rest = divmod(len(run), 3)
    return "-" * whole + ("", ".", "_")[rest]


# ----------------------------------------------------------------------------------------- sources


def _from_file(path: Path) -> dict[str, _Given]:
    source = str(path)
    text = _read(path)
    if path.suffix == ".toml":
        return {key: _Given(value, source) for key, value in _toml(text, source)}
    try:
        found = parse_properties(text)
    except PropertiesError as error:
        raise UserError(f"{source}: {error}", "repair that line") from None
    return {key: _Given(value, source) for key, value in found.items()}


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
    except IsADirectoryError:
        raise UserError(f"{path} is a directory", "name a configuration file") from None
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", "name a configuration file") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "check the permissions") from None
    if len(data) > MOST_FILE_BYTES:
        raise UserError(f"{path} is too large for a configuration", "check the path")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(
            f"{path} is not UTF-8 text", "check the path, or save it as UTF-8"
        ) from None


def _toml(text: str, source: str) -> Iterator[tuple[str, Text]]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        remedy = "repair that; if one key begins as another one ends, put both in quotes"
        raise UserError(f"{source}: {error}", remedy) from None
    yield from _flat(tables, "", source)


def _flat(table: Mapping[str, Any], prefix: str, source: str) -> Iterator[tuple[str, Text]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict):
            yield from _flat(value, f"{key}.", source)
        elif isinstance(value, list):
            yield key, tuple(_scalar(key, item, source) for item in value)
        else:
            yield key, _scalar(key, value, source)


def _scalar(key: str, value: Any, source: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            kind = type(value).__name__
            raise UserError(f"{source}: {key} cannot be a {kind}", "use text, a number or a list")


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Given]:
    return {
        key_of_variable(variable): _Given(value, f"environment variable {variable}")
        for variable, value in environment.items()
        if variable.startswith(PREFIX) and not _KUBERNETES.fullmatch(variable, len(PREFIX))
    }


def _from_flags(flags: Sequence[str]) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{_FLAG} {flag} is not a property", f"write it as {_FLAG} key=value")
        # Only the key is told again: a value may be a secret.
        found[key.strip()] = _Given(value.strip(), f"{_FLAG} {key.strip()}")
    return found


# ------------------------------------------------------------------------------------ unknown keys


def _refuse_unknown(name: str, source: str, ours: Collection[str]) -> None:
    if is_kafka_property(name):
        return
    close = get_close_matches(name, [*ours, *sorted(NAMES)], n=1)
    remedy = f"did you mean {close[0]}?" if close else "remove it, or look for a typing error"
    raise UserError(f"{source}: there is no property {name}", remedy)


def _warnings(unused: Sequence[str], given: Mapping[str, _Given]) -> Iterator[str]:
    by_source: dict[str, list[str]] = {}
    for name in unused:
        by_source.setdefault(given[name].source, []).append(name)
    for source, names in by_source.items():
        yield f"{source}: ignored, for Floodmark has no use for it: {', '.join(sorted(names))}"
        for name in sorted(names):
            if name in _INSTEAD:
                yield f"{source}: {name} has no effect; use {_INSTEAD[name]}"
            elif name.startswith(_UNPROTECTED):
                yield f"{source}: {name} protects nothing here: there is no such check yet"


# ------------------------------------------------------------------------------------------ values


def _make(
    config_class: type[C],
    given: Mapping[str, _Given],
    known: Mapping[str, Any],
    path: str | None,
) -> C:
    hints = get_type_hints(config_class)
    described = settings_of(config_class)
    values = dict(known)
    for field in fields(config_class):  # type: ignore[arg-type]  # a dataclass, says settings_of
        if field.name not in described or field.name in known:
            continue
        about = described[field.name]
        found = given.get(about.name)
        if found is not None:
            values[field.name] = _value(about, hints[field.name], found)
        elif field.default is MISSING and field.default_factory is MISSING:
            where = path or "the configuration"
            raise UserError(f"{where}: {about.name} is missing", f"set it: {about.doc}")
    try:
        return config_class(**values)
    except SettingError as error:
        source = given[error.name].source if error.name in given else path
        if source is None:
            raise
        raise UserError(f"{source}: {error.what}", error.remedy) from None


def _value(about: Setting, hint: Any, given: _Given) -> Any:
    try:
        return _parse(about, hint, given.text)
    except ValueError as error:
        text = given.text if isinstance(given.text, str) else ",".join(given.text)
        raise UserError(
            f"{given.source}: {about.name} cannot be {text!r}: {error}", "repair that value"
        ) from None


def _parse(about: Setting, hint: Any, text: Text) -> Any:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    is_optional = types.NoneType in choices
    [kind] = [choice for choice in choices if choice is not types.NoneType]
    if is_optional and text in ("", (), *(("-1",) if kind in (int, float) else ())):
        return None
    if get_origin(kind) in (tuple, frozenset):
        parse = about.parse or _PARSERS[get_args(kind)[0]]
        items = text if isinstance(text, tuple) else text.split(",")
        return get_origin(kind)(parse(item.strip()) for item in items if item.strip())
    if isinstance(text, tuple):
        raise ValueError("one value is expected, not a list")  # noqa: TRY004 - of the text
    return (about.parse or _PARSERS[kind])(text.strip())


def _parse_int(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        raise ValueError("it is not a whole number")
    return int(text)


def _parse_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise ValueError("it is not a number")
    return value


def _parse_bool(text: str) -> bool:
    lower = text.lower()
    if lower not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return lower == "true"


_PARSERS: Final[Mapping[Any, Any]] = {
    int: _parse_int,
    float: _parse_float,
    bool: _parse_bool,
    str: str,
}
