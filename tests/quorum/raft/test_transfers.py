"""A snapshot on the wire arrives whole, whatever happens to its chunks and answers."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum.raft.frames import SNAPSHOT_CHUNK_BYTES, SnapshotAnswer, SnapshotChunk
from quorum.raft.transfers import WINDOW_BYTES, Receiving, Sending

PATIENCE_MS = 1000
TERM, INDEX = 3, 70
SIZES = [1, SNAPSHOT_CHUNK_BYTES - 1, SNAPSHOT_CHUNK_BYTES, SNAPSHOT_CHUNK_BYTES + 1]
SIZES += [WINDOW_BYTES, WINDOW_BYTES + 1, 3 * WINDOW_BYTES + 7]


def contents(size_bytes: int) -> bytes:
    """Bytes that differ from chunk to chunk."""
    return Random(size_bytes).randbytes(size_bytes)


DATA = {size: contents(size) for size in SIZES}


class Follower:
    """The receiving side, as the engine has it."""

    def __init__(self) -> None:
        self.receiving: Receiving | None = None
        self.installed: bytes | None = None

    def take(self, chunk: SnapshotChunk) -> SnapshotAnswer | None:
        """The answer; None once everything is there."""
        if self.installed is not None:
            return None
        if self.receiving is None or not self.receiving.is_of(chunk):
            self.receiving = Receiving.begin(chunk)
        self.receiving.take(chunk)
        if self.receiving.is_complete:
            self.installed = bytes(self.receiving.data)
        position = len(self.receiving.data)
        return SnapshotAnswer(term=chunk.term, index=chunk.index, position=position)

    def restart(self) -> None:
        self.receiving = None


def chunks(sending: Sending, now_ms: int) -> list[SnapshotChunk]:
    return sending.chunks(term=TERM, now_ms=now_ms, patience_ms=PATIENCE_MS)


@pytest.mark.parametrize("size", SIZES)
def test_a_snapshot_arrives_over_a_good_link(size: int) -> None:
    sending, follower = Sending(INDEX, DATA[size], 0), Follower()
    sent = 0
    while follower.installed is None:
        batch = chunks(sending, 0)
        assert batch
        for chunk in batch:
            sent += len(chunk.data)
            answer = follower.take(chunk)
            assert answer is not None
            sending.answered(answer, now_ms=0)
    assert follower.installed == DATA[size]
    assert sent == size, "something was sent twice"


@given(st.sampled_from(SIZES), st.integers(0, 2**32))
@settings(deadline=None, max_examples=200)
def test_a_snapshot_arrives_over_any_link(size: int, seed: int) -> None:
    """Chunks and answers are lost, doubled and late, and the follower forgets what it had."""
    random = Random(seed)
    sending, follower = Sending(INDEX, DATA[size], 0), Follower()
    chunks_on_way: list[SnapshotChunk] = []
    answers_on_way: list[SnapshotAnswer] = []
    for now_ms in range(0, 400_000, 100):
        is_calm = now_ms > 60_000
        chunks_on_way += chunks(sending, now_ms)
        for chunk in _arriving(chunks_on_way, random, is_calm=is_calm):
            answer = follower.take(chunk)
            if answer is not None:
                answers_on_way.append(answer)
        for answer in _arriving(answers_on_way, random, is_calm=is_calm):
            sending.answered(answer, now_ms=now_ms)
        if follower.installed is not None:
            break
        if not is_calm and random.random() < 0.01:
            follower.restart()
    assert follower.installed == DATA[size]


def _arriving(on_way: list, random: Random, *, is_calm: bool) -> list:  # type: ignore[type-arg]
    """Takes what arrives now off the way; some of it stays on the way as well."""
    if is_calm:
        arriving = list(on_way)
        on_way.clear()
        return arriving
    arriving = []
    random.shuffle(on_way)
    for message in list(on_way):
        luck = random.random()
        if luck < 0.2:
            on_way.remove(message)
        elif luck < 0.6:
            on_way.remove(message)
            arriving.append(message)
        elif luck < 0.7:
            arriving.append(message)
    return arriving


def test_no_more_than_a_window_is_on_its_way() -> None:
    sending = Sending(INDEX, DATA[SIZES[-1]], 0)
    assert sum(len(chunk.data) for chunk in chunks(sending, 0)) == WINDOW_BYTES
    assert chunks(sending, PATIENCE_MS) == []
    sending.answered(
        SnapshotAnswer(term=TERM, index=INDEX, position=SNAPSHOT_CHUNK_BYTES), now_ms=0
    )
    (chunk,) = chunks(sending, 1)
    assert chunk.position == WINDOW_BYTES


def test_a_sender_that_hears_nothing_starts_again_from_the_last_answer() -> None:
    sending = Sending(INDEX, DATA[SIZES[-1]], 0)
    chunks(sending, 0)
    position = 2 * SNAPSHOT_CHUNK_BYTES
    sending.answered(SnapshotAnswer(term=TERM, index=INDEX, position=position), now_ms=5)
    chunks(sending, 5)
    assert chunks(sending, 5 + PATIENCE_MS) == []
    again = chunks(sending, 6 + PATIENCE_MS)
    assert again[0].position == position


def test_a_follower_that_has_everything_and_says_nothing_is_asked_again() -> None:
    data = DATA[SNAPSHOT_CHUNK_BYTES + 1]
    sending = Sending(INDEX, data, 0)
    chunks(sending, 0)
    sending.answered(SnapshotAnswer(term=TERM, index=INDEX, position=len(data)), now_ms=0)
    assert chunks(sending, PATIENCE_MS) == []
    assert [chunk.position + len(chunk.data) for chunk in chunks(sending, PATIENCE_MS + 1)] == [
        len(data)
    ]


@pytest.mark.parametrize("size", SIZES)
def test_a_last_chunk_that_was_lost_is_sent_again(size: int) -> None:
    """However short it is."""
    sending, follower = Sending(INDEX, DATA[size], 0), Follower()
    lost = False
    for now_ms in range(0, 20_000, 100):
        for chunk in chunks(sending, now_ms):
            if chunk.position + len(chunk.data) == size and not lost:
                lost = True
                continue
            answer = follower.take(chunk)
            if answer is not None:
                sending.answered(answer, now_ms=now_ms)
    assert lost
    assert follower.installed == DATA[size]


def test_answers_about_another_snapshot_are_ignored() -> None:
    sending = Sending(INDEX, DATA[WINDOW_BYTES], 0)
    chunks(sending, 0)
    sending.answered(SnapshotAnswer(term=TERM, index=INDEX - 1, position=5), now_ms=0)
    assert (sending.acknowledged, sending.sent) == (0, WINDOW_BYTES)


def test_an_answer_beyond_the_end_is_no_more_than_the_end() -> None:
    sending = Sending(INDEX, b"state", 0)
    sending.answered(SnapshotAnswer(term=TERM, index=INDEX, position=2**62), now_ms=0)
    assert chunks(sending, 0) == []
    assert sending.acknowledged == 5


@pytest.mark.parametrize(
    "chunk",
    [
        SnapshotChunk(term=TERM, index=INDEX, size_bytes=10, position=3, data=b"gap"),
        SnapshotChunk(term=TERM, index=INDEX, size_bytes=10, position=0, data=b"again"),
        SnapshotChunk(term=TERM, index=INDEX, size_bytes=10, position=2, data=b"x" * 9),
    ],
    ids=["a gap", "once more", "beyond the end"],
)
def test_chunks_that_do_not_go_on_are_ignored(chunk: SnapshotChunk) -> None:
    receiving = Receiving(TERM, INDEX, 10, bytearray(b"ab"))
    receiving.take(chunk)
    assert receiving.data == b"ab"
    assert not receiving.is_complete


def test_chunks_of_another_leader_or_snapshot_are_told_apart() -> None:
    receiving = Receiving(TERM, INDEX, 10, bytearray())
    same = SnapshotChunk(term=TERM, index=INDEX, size_bytes=10, position=0, data=b"")
    assert receiving.is_of(same)
    for term, index, size_bytes in ((4, INDEX, 10), (TERM, 71, 10), (TERM, INDEX, 11)):
        chunk = SnapshotChunk(term=term, index=index, size_bytes=size_bytes, position=0, data=b"")
        assert not receiving.is_of(chunk)
