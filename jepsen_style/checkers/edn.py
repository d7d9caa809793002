"""Clojure's data notation (EDN), as far as histories are written in it.

Vectors and lists become tuples, maps become dicts, sets become frozensets, keywords become
`Keyword`, `nil` becomes None. A tag is dropped and its value kept; a comment and a discarded form
(`#_`) are skipped.
"""

import json
import re
from collections.abc import Hashable, Iterator

MAX_DEPTH = 200

_TOKEN = re.compile(
    r"""(?P<space>[\s,]+|;[^\n]*)
    |(?P<text>"(?:\\.|[^"\\])*")
    |(?P<open>\#\{|[\[({])
    |(?P<close>[\])}])
    |(?P<discard>\#_)
    |(?P<tag>\#[^\s,\[\](){}";\#]+)
    |(?P<atom>[^\s,\[\](){}";\#]+)""",
    re.VERBOSE,
)
_CLOSE = {"[": "]", "(": ")", "{": "}", "#{": "}"}


class EdnError(ValueError):
    """The text is not EDN; says where."""


class Keyword(str):
    """`:name`, without its colon. Equal to the string, so that it can be looked up by it."""

    __slots__ = ()


class EdnMap(dict[Hashable, object]):
    """A map; hashable by identity is not wanted, so maps are never keys here."""


def read_all(text: str) -> list[object]:
    """Every form of the text, in order."""
    forms: list[object] = []
    # Each open collection: its bracket, its items, and how many of the next forms are discarded.
    nested: list[tuple[str, list[object]]] = [("", forms)]
    discards = [0]
    for kind, token, at in _tokens(text):
        if kind == "discard":
            discards[-1] += 1
            continue
        if kind == "open":
            if len(nested) > MAX_DEPTH:
                raise EdnError(f"nested deeper than {MAX_DEPTH} at character {at}")
            nested.append((token, []))
            discards.append(0)
            continue
        if kind == "close":
            bracket, items = nested.pop()
            if not nested or _CLOSE[bracket] != token or discards.pop():
                raise EdnError(f"unexpected {token} at character {at}")
            form = _collection(bracket, items, at)
        else:
            form = _atom(token) if kind == "atom" else _text(token, at)
        if discards[-1]:
            discards[-1] -= 1
        else:
            nested[-1][1].append(form)
    if len(nested) > 1:
        raise EdnError(f"{nested[-1][0]} is never closed")
    return forms


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise EdnError(f"cannot read {text[at : at + 20]!r} at character {at}")
        at = found.end()
        if found.lastgroup not in ("space", "tag"):
            yield found.lastgroup, found.group(), found.start()


def _collection(bracket: str, items: list[object], at: int) -> object:
    if bracket == "{":
        if len(items) % 2:
            raise EdnError(f"a map with a key and no value ends at character {at}")
        return EdnMap(
            (_hashable(key, at), value) for key, value in zip(items[::2], items[1::2], strict=True)
        )
    if bracket == "#{":
        return frozenset(_hashable(item, at) for item in items)
    return tuple(items)


def _hashable(form: object, at: int) -> Hashable:
    try:
        hash(form)
    except TypeError:
        raise EdnError(f"a map inside a key or a set before character {at}") from None
    return form


def _atom(token: str) -> object:
    constants = {"nil": None, "true": True, "false": False}
    if token in constants:
        return constants[token]
    if token.startswith(":"):
        return Keyword(token[1:])
    if re.fullmatch(r"[+-]?\d+N?", token):
        return int(token.rstrip("N"))
    try:
        return float(token.rstrip("M"))
    except ValueError:
        return token  # a symbol


def _text(token: str, at: int) -> str:
    try:
        # EDN's escapes are JSON's; a line break may stand in the text as it is.
        text: str = json.loads(token, strict=False)
    except json.JSONDecodeError:
        raise EdnError(f"a text with an unknown escape at character {at}") from None
    return text
