"""The vocabulary of numbers on the wire.

Offsets, epochs and ids are all integers, and a function that takes two of them is easily called
with the two swapped. As distinct types the type checker sees the difference; at run time they
cost nothing.
"""

from typing import Final, NamedTuple, NewType, TypeAlias

Offset = NewType("Offset", int)
"""Position of a record in its partition."""

FIRST_OFFSET: Final = Offset(0)
"""Where a partition begins; a producer numbers its batches from here, as brokers renumber them."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Which leadership of the partition a batch was written in (KIP-101)."""

ProducerId = NewType("ProducerId", int)
"""Identity of an idempotent producer (KIP-98)."""

ProducerEpoch = NewType("ProducerEpoch", int)
"""Generation of a producer id; an older generation is fenced (KIP-98)."""

Sequence = NewType("Sequence", int)
"""Position of a record among those of its producer id in its partition (KIP-98)."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Contiguous bytes; where a memoryview is passed its items must be single bytes."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
