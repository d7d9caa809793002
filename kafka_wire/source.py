"""A function under construction: the source text that the codec compilers write."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from struct import Struct
from types import CodeType
from typing import Any

SHORT_ARRAY = 16
"""Arrays of up to so many numbers, such as replicas, have a `struct` that is made beforehand."""


class Source:
    """Lines of Python with an indentation, fresh names, and the constants they refer to."""

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head:` and what is written inside, indented."""
        self.line(head + ":")
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, hint: str) -> str:
        """A local name that is used once: nested structs repeat field names."""
        self._names += 1
        return f"{hint}_{self._names}"

    def constant(self, hint: str, value: Any) -> str:
        """A name for `value` in the globals of the function."""
        name = self.name(hint)
        self.constants[name] = value
        return name

    def packer(self, formats: str) -> str:
        name = "pack_" + formats.replace("?", "B")
        self.constants[name] = Struct(">" + formats).pack
        return name

    def unpacker(self, formats: str) -> str:
        name = "unpack_" + formats.replace("?", "t")
        self.constants[name] = Struct(">" + formats).unpack_from
        return name

    def array_packers(self, code: str) -> str:
        """A tuple: how to pack so many numbers, for every count of a short array."""
        name = f"pack_array_{code}"
        self.constants[name] = tuple(item.pack for item in _array_structs(code))
        return name

    def array_unpackers(self, code: str) -> str:
        """A tuple: how to unpack so many numbers, for every count of a short array."""
        name = f"unpack_array_{code}"
        self.constants[name] = tuple(item.unpack_from for item in _array_structs(code))
        return name

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def function(self, name: str, filename: str) -> Any:
        """Compiles the text and returns the function `name` that it defines."""
        code: CodeType = compile(self.text, filename, "exec")
        exec(code, self.constants)
        return self.constants[name]


@cache
def _array_structs(code: str) -> tuple[Struct, ...]:
    return tuple(Struct(f">{count}{code}") for count in range(SHORT_ARRAY + 1))
