"""What a log promises, as a list: the model that random operations are compared with.

The model knows two numbers of the list: how long it is, and up to where it is safe. After a crash
the log must hold everything that is safe, may hold more of what was there, and nothing else.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Row:
    """One record: its value and the epoch that it was written in."""

    value: bytes
    epoch: int


@dataclass(slots=True)
class LogModel:
    rows: list[Row] = field(default_factory=list)
    start: int = 0
    """Offset of the first row that counts; rows below are deleted."""
    safe_end: int = 0

    @property
    def end(self) -> int:
        return len(self.rows)

    def visible(self) -> list[tuple[int, bytes]]:
        return [(i, row.value) for i, row in enumerate(self.rows) if i >= self.start]

    def append(self, values: list[bytes], epoch: int) -> None:
        self.rows += [Row(value, epoch) for value in values]

    def truncate(self, end: int) -> None:
        del self.rows[end:]
        self.safe_end = min(self.safe_end, end)

    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of what is there."""
        found: list[tuple[int, int]] = []
        for offset, row in enumerate(self.rows):
            if not found or row.epoch > found[-1][0]:
                found.append((row.epoch, offset))
        return found
