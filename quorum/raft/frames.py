"""What voters say to each other: typed messages, each in one bounded frame.

A frame is four bytes of length (little endian) and one msgpack message. Decoding checks every
type and every bound before anything is believed, and can make nothing but the messages below.

Promises are the messages that others build on: an acknowledgement, a vote, the request for one.
They may leave only once everything that they rest on is on this voter's disk.
"""

import struct
from collections.abc import Iterator
from typing import Annotated

import msgspec

MAX_COMMAND_BYTES = 1 << 20
"""The largest command; the engine sends entries in batches of about this size."""
MAX_FRAME_BYTES = 4 * MAX_COMMAND_BYTES
SNAPSHOT_CHUNK_BYTES = 256 << 10

_LENGTH = struct.Struct("<I")

Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
WireEntry = tuple[bytes, Number, Number]
"""A command with its index and its term."""


class BadFrame(Exception):  # noqa: N818 - a frame, not an error of ours
    """Bytes that no voter sends. The connection they came on is not worth keeping."""


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The term that a message was sent in; a voter behind it adopts it."""

    term: Number

    @property
    def is_promise(self) -> bool:
        return False


class AppendEntries(Message, frozen=True, tag="append"):
    """The leader's entries after `prev_index`; without entries, its heartbeat."""

    commit_index: Number
    prev_index: Number
    prev_term: Number
    attempt: Number
    """Grows whenever the leader starts anew from another index; a rejection of an earlier attempt
    is old news."""
    entries: list[WireEntry]


class LeaderAlive(Message, frozen=True, tag="alive"):
    """A heartbeat to a follower to which no entries can be sent at the moment."""

    commit_index: Number


class AppendAnswer(Message, frozen=True, tag="appended"):
    """The follower's log equals the leader's below `next_index`; or where to try next."""

    next_index: Number
    success: bool
    retry: bool
    """The leader has to go on from `next_index`. Without success and without this, the follower
    only says that it is there."""
    attempt: Number
    counts: bool = True
    """False of a voter that recovers: nothing may be committed on its word."""

    @property
    def is_promise(self) -> bool:
        return True


class SnapshotChunk(Message, frozen=True, tag="chunk"):
    """A piece of the leader's snapshot."""

    index: Number
    size_bytes: Number
    """Of the whole snapshot."""
    position: Number
    data: bytes


class SnapshotAnswer(Message, frozen=True, tag="chunked"):
    """How much of a snapshot the follower has."""

    index: Number
    position: Number
    counts: bool = True
    """As in an `AppendAnswer`."""


class RequestVote(Message, frozen=True, tag="request-vote"):
    """A candidate's log, to be compared with the voter's. A poll asks what a vote would be, in
    a term that nobody has entered yet (pre-vote, section 9.6 of Ongaro's thesis)."""

    last_index: Number
    last_term: Number
    poll: bool

    @property
    def is_promise(self) -> bool:
        return not self.poll


class Vote(Message, frozen=True, tag="vote"):
    """A vote, or the answer to a poll, in the term that was asked for."""

    poll: bool

    @property
    def is_promise(self) -> bool:
        return not self.poll


class ReadProbe(Message, frozen=True, tag="read"):
    """The leader asks whether it still leads (ReadIndex, section 6.4)."""

    sequence: Number


class ReadAnswer(Message, frozen=True, tag="readable"):
    """It did when the probe came in."""

    sequence: Number

    @property
    def is_promise(self) -> bool:
        return True


class RecoveryRequest(Message, frozen=True, tag="recover"):
    """A voter without its disk asks what it must hold before its word may count again."""


class RecoveryAnswer(Message, frozen=True, tag="recover-to"):
    """What was committed, by a leader that a majority of the others has confirmed since."""

    index: Number


AnyMessage = (
    AppendEntries
    | LeaderAlive
    | AppendAnswer
    | SnapshotChunk
    | SnapshotAnswer
    | RequestVote
    | Vote
    | ReadProbe
    | ReadAnswer
    | RecoveryRequest
    | RecoveryAnswer
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


def encode(message: AnyMessage) -> bytes:
    """The frame of a message."""
    return with_length(_encoder.encode(message))


def with_length(body: bytes) -> bytes:
    """A frame of any body."""
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes | memoryview) -> AnyMessage:
    """The message in a frame's body."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadFrame(f"no message of a voter: {error}") from error


class FrameReader:
    """Cuts a stream of bytes into frames' bodies."""

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that are complete with `data`; the limit may be changed between two."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(buffer, start)
                if size > self.max_frame_bytes:
                    raise BadFrame(f"a frame of {size} bytes; the limit is {self.max_frame_bytes}")
                end = start + _LENGTH.size + size
                if len(buffer) < end:
                    break
                body = bytes(buffer[start + _LENGTH.size : end])
                start = end
                yield body
        finally:
            del buffer[:start]
