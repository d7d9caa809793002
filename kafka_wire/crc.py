"""CRC-32C (Castagnoli), the checksum of record batches since message format 2 (KIP-98).

`fastcrc` is the fastest of the candidates above 1 KB, and takes a memoryview, so a checksum
costs no copy; the comparison is part of the wire benchmark.
"""

from typing import Final, Protocol

from fastcrc import crc32

from kafka_wire.types import Buffer


class _Crc32c(Protocol):
    def __call__(self, data: Buffer, initial: int | None = None, /) -> int: ...


crc32c: Final[_Crc32c] = crc32.iscsi
"""The CRC-32C of data, continuing from the checksum `initial` of what came before it.

The library's own function: at 1 KB a wrapper around it would cost half as much again.
"""
