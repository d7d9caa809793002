"""Frames on a connection: a length of four bytes, then so many bytes. No IO happens here.

Kafka's requests and responses are such frames in both directions. The reader below is fed with
whatever a socket returned, however it was split, and hands out whole frames.
"""

import struct
from collections.abc import Sequence
from typing import Final

from kafka_wire.errors import EncodeError, FrameSizeError
from kafka_wire.types import Buffer

DEFAULT_MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`."""

_LENGTH: Final = struct.Struct(">i")
_MAX_INT32: Final = 2**31 - 1


class FrameReader:
    """Cuts a stream of bytes into frames.

    A frame that arrives within one chunk is a view of that chunk, without a copy; it is valid as
    long as the caller leaves the chunk alone, and keeps the chunk alive. A frame that is spread
    over chunks is put together in a buffer of its own, which the reader lets go of with the frame.
    That buffer grows with what has arrived and not with what was announced, so a peer that
    announces a large frame and sends none of it takes no memory.

    After a `FrameSizeError` the stream has no known frame boundary any more; close it.
    """

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._partial = bytearray()
        self._wanted_bytes = _LENGTH.size

    @property
    def pending_bytes(self) -> int:
        """Bytes held back because their frame is not complete; 0 is a clean place to stop."""
        return len(self._partial)

    def feed(self, chunk: Buffer) -> list[memoryview]:
        """The frames that `chunk` completes, in order, without their length fields."""
        frames: list[memoryview] = []
        view = memoryview(chunk)
        position = self._complete_partial(view, frames) if self._partial else 0
        end = len(view)
        while end - position >= _LENGTH.size:
            start = position + _LENGTH.size
            position = start + self._length_at(view, position)
            if position > end:
                self._wanted_bytes = position - start + _LENGTH.size
                self._partial += view[start - _LENGTH.size :]
                return frames
            frames.append(view[start:position])
        if position < end:
            self._partial += view[position:]
        return frames

    def _complete_partial(self, view: memoryview, frames: list[memoryview]) -> int:
        """Move bytes from `view` to the frame begun earlier; returns how many it took.

        First the length is completed, which says how many more bytes are wanted.
        """
        taken = 0
        while taken < len(view):
            missing = self._wanted_bytes - len(self._partial)
            self._partial += view[taken : taken + missing]
            taken = min(taken + missing, len(view))
            if len(self._partial) < self._wanted_bytes:
                break
            if self._wanted_bytes == _LENGTH.size:
                self._wanted_bytes += self._length_at(self._partial, 0)
            if len(self._partial) == self._wanted_bytes:
                frames.append(memoryview(self._partial)[_LENGTH.size :])
                self._partial = bytearray()
                self._wanted_bytes = _LENGTH.size
                break
        return taken

    def _length_at(self, buffer: Buffer, position: int) -> int:
        (length,) = _LENGTH.unpack_from(buffer, position)
        if not 0 <= length <= self._max_frame_bytes:
            raise FrameSizeError(
                f"a frame of {length} bytes was announced, the limit is {self._max_frame_bytes}: "
                "check that the peer speaks Kafka, with TLS only where we do, or raise the limit"
            )
        return int(length)


def frame(parts: Sequence[Buffer]) -> list[Buffer]:
    """A frame of all `parts`, as a vector of buffers to write: only the length is new."""
    length = sum(map(len, parts))
    if length > _MAX_INT32:
        raise EncodeError(f"a frame cannot hold {length} bytes: the length field has 31 bits")
    return [_LENGTH.pack(length), *parts]
