"""What a log promises, as a list: the model that random operations are compared with.

The model knows how long the list is and up to where it is safe. After a crash the log must hold
everything that is safe, may hold more of what was there, and nothing else.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class Row(NamedTuple):
    """One record: its value, and the epoch that it was written in."""

    value: bytes
    epoch: int


@dataclass(slots=True)
class LogModel:
    """Rows by offset; batches are the units in which they come and go."""

    rows: list[Row] = field(default_factory=list)
    boundaries: list[int] = field(default_factory=lambda: [0])
    """Where batches begin, and the end."""
    start: int = 0
    """The first offset that counts; rows below are deleted."""
    safe_end: int = 0

    @property
    def end(self) -> int:
        return len(self.rows)

    def visible(self) -> list[tuple[int, bytes | None]]:
        return [(offset, row.value) for offset, row in enumerate(self.rows) if offset >= self.start]

    def append(self, values: list[bytes], epoch: int) -> None:
        self.rows += [Row(value, epoch) for value in values]
        self.boundaries.append(self.end)

    def truncate(self, end: int) -> None:
        del self.rows[end:]
        self.boundaries = [b for b in self.boundaries if b <= end]
        self.safe_end = min(self.safe_end, end)

    def boundary(self, share: float) -> int:
        """A boundary of batches between the start and the end."""
        choices = [b for b in self.boundaries if b >= self.start]
        return choices[int(share * (len(choices) - 1))]
