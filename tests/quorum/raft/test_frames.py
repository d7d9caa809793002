"""Messages between voters: what goes in comes out, and nothing else does."""

import struct
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.raft import frames
from quorum.raft.frames import (
    MAX_COMMAND_BYTES,
    MAX_FRAME_BYTES,
    SNAPSHOT_CHUNK_BYTES,
    AnyMessage,
    AppendAnswer,
    AppendEntries,
    BadFrame,
    FrameReader,
    LeaderAlive,
    ReadAnswer,
    ReadProbe,
    RecoveryAnswer,
    RecoveryRequest,
    RequestVote,
    SnapshotAnswer,
    SnapshotChunk,
    Vote,
)

LARGEST = 2**63 - 1
NUMBERS = st.integers(0, LARGEST)
ENTRIES = st.lists(st.tuples(st.binary(max_size=40), NUMBERS, NUMBERS), max_size=5)
MESSAGES: st.SearchStrategy[AnyMessage] = st.one_of(
    st.builds(
        AppendEntries,
        term=NUMBERS,
        commit_index=NUMBERS,
        prev_index=NUMBERS,
        prev_term=NUMBERS,
        attempt=NUMBERS,
        entries=ENTRIES,
    ),
    st.builds(LeaderAlive, term=NUMBERS, commit_index=NUMBERS),
    st.builds(
        AppendAnswer,
        term=NUMBERS,
        next_index=NUMBERS,
        success=st.booleans(),
        retry=st.booleans(),
        attempt=NUMBERS,
        counts=st.booleans(),
    ),
    st.builds(
        SnapshotChunk,
        term=NUMBERS,
        index=NUMBERS,
        size_bytes=NUMBERS,
        position=NUMBERS,
        data=st.binary(max_size=40),
    ),
    st.builds(SnapshotAnswer, term=NUMBERS, index=NUMBERS, position=NUMBERS),
    st.builds(RequestVote, term=NUMBERS, last_index=NUMBERS, last_term=NUMBERS, poll=st.booleans()),
    st.builds(Vote, term=NUMBERS, poll=st.booleans()),
    st.builds(ReadProbe, term=NUMBERS, sequence=NUMBERS),
    st.builds(ReadAnswer, term=NUMBERS, sequence=NUMBERS),
    st.builds(RecoveryRequest, term=NUMBERS),
    st.builds(RecoveryAnswer, term=NUMBERS, index=NUMBERS),
)
SAMPLES: list[AnyMessage] = [
    AppendEntries(
        term=3, commit_index=1, prev_index=1, prev_term=1, attempt=0, entries=[(b"x", 2, 3)]
    ),
    LeaderAlive(term=3, commit_index=1),
    AppendAnswer(term=3, next_index=2, success=True, retry=False, attempt=0),
    SnapshotChunk(term=3, index=9, size_bytes=10, position=0, data=b"state"),
    SnapshotAnswer(term=3, index=9, position=5),
    RequestVote(term=3, last_index=9, last_term=2, poll=False),
    Vote(term=3, poll=False),
    ReadProbe(term=3, sequence=1),
    ReadAnswer(term=3, sequence=1),
    RecoveryRequest(term=3),
    RecoveryAnswer(term=3, index=9),
]
by_name = pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)


def test_every_message_is_tested() -> None:
    assert {type(message) for message in SAMPLES} == set(get_args(AnyMessage))


@given(st.lists(MESSAGES, max_size=5), st.data())
def test_messages_come_out_of_a_stream_however_it_is_cut(
    messages: list[AnyMessage], data: st.DataObject
) -> None:
    stream = b"".join(map(frames.encode, messages))
    reader = FrameReader()
    found: list[AnyMessage] = []
    position = 0
    while position < len(stream):
        size = data.draw(st.integers(1, len(stream) - position))
        found += map(frames.decode, reader.feed(stream[position : position + size]))
        position += size
    assert found == messages


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_bad_frame(data: bytes) -> None:
    try:
        frames.decode(data)
    except BadFrame:
        pass
    try:
        for body in FrameReader().feed(data):
            frames.decode(body)
    except BadFrame:
        pass


@given(MESSAGES, st.data())
def test_no_change_of_a_message_raises_anything_but_bad_frame(
    message: AnyMessage, data: st.DataObject
) -> None:
    body = bytearray(frames.encode(message)[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        frames.decode(bytes(body))
    except BadFrame:
        pass


def test_a_tag_that_is_no_text_is_a_bad_frame() -> None:
    with pytest.raises(BadFrame):
        frames.decode(b"\x92\xa3\xff\xfe\xfd\x01")


def test_nesting_without_end_is_a_bad_frame() -> None:
    with pytest.raises(BadFrame):
        frames.decode(b"\x91" * 100_000)


@by_name
def test_every_field_is_checked(message: AnyMessage) -> None:
    """Each in turn is replaced by what it must not be; and none may be missing or one too many."""
    fields = msgspec.msgpack.decode(frames.encode(message)[4:])
    for place in range(1, len(fields)):
        for wrong in (-1, LARGEST + 1, "text", None, 1.5, [[1]]):
            changed = [*fields[:place], wrong, *fields[place + 1 :]]
            with pytest.raises(BadFrame):
                frames.decode(msgspec.msgpack.encode(changed))
    needed = 1 + sum(field.required for field in msgspec.structs.fields(message))
    for changed in (fields[: needed - 1], [*fields, 0], fields[1:], ["unknown", *fields[1:]], []):
        with pytest.raises(BadFrame):
            frames.decode(msgspec.msgpack.encode(changed))


@by_name
def test_a_message_cut_short_or_followed_by_more_is_a_bad_frame(message: AnyMessage) -> None:
    body = frames.encode(message)[4:]
    for end in range(len(body)):
        with pytest.raises(BadFrame):
            frames.decode(body[:end])
    with pytest.raises(BadFrame):
        frames.decode(body + b"\0")


@pytest.mark.parametrize(
    "entry", [(b"x", -1, 1), (b"x", 1, -1), ("x", 1, 1), (b"x", 1), (b"x", 1, 1, 1), (None, 1, 1)]
)
def test_every_part_of_an_entry_is_checked(entry: object) -> None:
    with pytest.raises(BadFrame):
        frames.decode(msgspec.msgpack.encode(["append", 1, 1, 1, 1, 1, [entry]]))


def test_a_frame_over_the_limit_is_refused_by_its_length_alone() -> None:
    reader = FrameReader()
    with pytest.raises(BadFrame, match=f"a frame of {MAX_FRAME_BYTES + 1} bytes"):
        list(reader.feed(struct.pack("<I", MAX_FRAME_BYTES + 1)))


def test_a_frame_at_the_limit_is_taken() -> None:
    body = b"x" * 100
    assert list(FrameReader(max_frame_bytes=100).feed(frames.with_length(body))) == [body]
    with pytest.raises(BadFrame):
        list(FrameReader(max_frame_bytes=99).feed(frames.with_length(body)))


def test_the_reader_keeps_only_what_is_incomplete() -> None:
    reader = FrameReader(max_frame_bytes=100)
    for _ in range(50):
        assert len(list(reader.feed(frames.with_length(b"x" * 100)))) == 1
    assert list(reader.feed(frames.with_length(b"y" * 100)[:30])) == []
    assert len(reader._buffer) == 30


def test_the_largest_messages_fit_into_a_frame() -> None:
    """Batches end with the entry that exceeds a command's size, so two commands are the most."""
    entries = [(b"x" * MAX_COMMAND_BYTES, LARGEST, LARGEST)] * 2
    append = AppendEntries(
        term=LARGEST,
        commit_index=LARGEST,
        prev_index=LARGEST,
        prev_term=LARGEST,
        attempt=LARGEST,
        entries=entries,
    )
    chunk = SnapshotChunk(
        term=LARGEST,
        index=LARGEST,
        size_bytes=LARGEST,
        position=LARGEST,
        data=b"x" * SNAPSHOT_CHUNK_BYTES,
    )
    for message in (append, chunk):
        assert len(frames.encode(message)) - 4 <= MAX_FRAME_BYTES


def test_promises_are_what_others_build_on() -> None:
    promises = {type(message) for message in SAMPLES if message.is_promise}
    assert promises == {AppendAnswer, RequestVote, Vote, ReadAnswer}
    assert not RequestVote(term=1, last_index=1, last_term=1, poll=True).is_promise
    assert not Vote(term=1, poll=True).is_promise
