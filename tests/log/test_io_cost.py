"""How many operations of the file system things take: the part of speed that needs no clock."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.records import iter_batches
from kafka_wire.types import Offset
from log.config import LogConfig
from log.filesystem.memory import Kind, MemoryFileSystem, Operation
from log.names import LOG
from log.partition_log import PartitionLog
from tests.log.logs import NOW_MS, SMALL, append, fill, new_files, open_at, reopen

ONE_SEGMENT = LogConfig(index_interval_bytes=80, retention_ms=None)
LARGE = b"." * 10_000


class Counter:
    """Counts the operations of one kind on `.log` files from now on."""

    def __init__(self, files: MemoryFileSystem, kind: Kind) -> None:
        self.count = 0
        self._kind = kind
        files.on_operation = self._on_operation

    def _on_operation(self, operation: Operation) -> None:
        if operation.kind is self._kind and operation.path.endswith(LOG):
            self.count += 1


def contents(log: PartitionLog) -> bytes:
    return b"".join(segment.file.read(segment.size_bytes, 0) for segment in log.segments)


def leaders_answer(*values: bytes, config: LogConfig = ONE_SEGMENT) -> memoryview:
    """All batches of a leader's log, each of one record."""
    leader = open_at(new_files(), config)
    for number, value in enumerate(values):
        append(leader, value, epoch=number // 7)
    leader.write_staged()
    return memoryview(contents(leader))


def test_follower_writes_the_batches_of_a_segment_with_one_operation() -> None:
    answer = leaders_answer(*[LARGE] * 20)
    files = new_files()
    follower = open_at(files, ONE_SEGMENT)
    writes = Counter(files, Kind.APPEND)
    follower.append_as_follower(answer, now_ms=NOW_MS)
    assert writes.count == 1
    assert contents(follower) == answer


@given(
    sizes=st.lists(st.sampled_from((1, 50, 300, 9_000)), min_size=1, max_size=40),
    config=st.builds(
        LogConfig,
        segment_bytes=st.sampled_from((500, 20_000, 10**9)),
        segment_index_bytes=st.sampled_from((8, 40, 10**6)),
        index_interval_bytes=st.sampled_from((0, 80, 4096)),
    ),
)
def test_follower_begins_segments_where_it_would_batch_by_batch(
    sizes: list[int], config: LogConfig
) -> None:
    answer = leaders_answer(*[b"." * size for size in sizes])
    at_once, one_by_one = open_at(new_files(), config), open_at(new_files(), config)
    at_once.append_as_follower(answer, now_ms=NOW_MS)
    for _, batch in iter_batches(answer):
        one_by_one.append_as_follower(batch, now_ms=NOW_MS)
    for log in (at_once, one_by_one):
        log.flush()
    expected = [(segment.base_offset, segment.size_bytes) for segment in one_by_one.segments]
    assert [(segment.base_offset, segment.size_bytes) for segment in at_once.segments] == expected
    assert contents(at_once) == contents(one_by_one) == answer
    assert at_once.epochs.entries == one_by_one.epochs.entries


def test_reader_that_goes_on_where_it_stopped_is_served_without_a_search_in_the_file() -> None:
    files = new_files()
    log = open_at(files, ONE_SEGMENT)
    fill(log, 100)
    log.write_staged()
    first = log.read(Offset(0), max_bytes=1_000, end_offset=log.log_end_offset)
    assert first is not None
    offset = next_offset(first.read())
    reads = Counter(files, Kind.READ)
    searches = 0
    while True:
        before = reads.count
        part = log.read(offset, max_bytes=1_000, end_offset=log.log_end_offset)
        if part is None:
            break
        searches += reads.count - before
        offset = next_offset(part.read())
    assert offset == log.log_end_offset
    assert searches == 0


@given(
    loaded=st.integers(0, 30),
    new=st.integers(0, 30),
    share=st.floats(0, 1, exclude_max=True),
    end_share=st.floats(0, 1),
    max_bytes=st.integers(0, 3_000),
    config=st.sampled_from((SMALL, ONE_SEGMENT)),
)
def test_read_begins_with_the_batch_of_its_offset_and_has_whole_batches(
    loaded: int,
    new: int,
    share: float,
    end_share: float,
    max_bytes: int,
    config: LogConfig,
) -> None:
    """Whether the entries of the index come from a file, from this process, or from both."""
    files = new_files()
    log = open_at(files, config)
    fill(log, loaded)
    log = reopen(files, log)
    for number in range(new):
        append(log, *[b"%d." % number] * (1 + number % 3))
    offset = Offset(int(share * log.log_end_offset))
    end_offset = Offset(int(end_share * log.log_end_offset))
    part = log.read(offset, max_bytes=max_bytes, end_offset=end_offset)
    if part is None:
        # Nothing whole lies between the two: the end is at most in the batch of the offset.
        whole = log.read(offset, max_bytes=0, end_offset=log.log_end_offset)
        assert offset >= end_offset or (whole and next_offset(whole.read()) > end_offset)
        return
    headers = [header for header, _ in iter_batches(part.read())]
    assert part.base_offset == headers[0].base_offset <= offset <= headers[0].last_offset
    assert headers[-1].next_offset <= end_offset
    assert part.size_bytes <= max_bytes or len(headers) == 1


@given(
    loaded=st.integers(0, 20),
    sizes=st.lists(st.sampled_from((1, 50, 300)), min_size=5, max_size=40),
    reads=st.lists(
        st.tuples(st.integers(0, 3), st.floats(0, 1), st.integers(0, 2_000)), max_size=40
    ),
    cut=st.none() | st.tuples(st.integers(0, 40), st.floats(0, 1)),
    interval_bytes=st.sampled_from((0, 1, 80, 400)),
)
def test_what_a_reader_gets_does_not_depend_on_who_read_before(
    loaded: int,
    sizes: list[int],
    reads: list[tuple[int, float, int]],
    cut: tuple[int, float] | None,
    interval_bytes: int,
) -> None:
    """Readers that go on, readers that jump, and a truncation with other batches behind it."""
    config = LogConfig(index_interval_bytes=interval_bytes, retention_ms=None)
    files = new_files()
    log = open_at(files, config)
    fill(log, loaded)
    log = reopen(files, log, config)
    for size in sizes:
        append(log, *[b"." * size] * (1 + size % 3))
    places = dict.fromkeys(range(4), log.log_start_offset)
    for number, (reader, share, max_bytes) in enumerate(reads):
        if cut is not None and number == cut[0]:
            log.truncate_to(Offset(int(cut[1] * log.log_end_offset)))
            for size in reversed(sizes):
                append(log, b"-" * size, b"-")
        if reader == 0 or places[reader] >= log.log_end_offset:
            places[reader] = Offset(int(share * (log.log_end_offset - 1)))
        offset = places[reader]
        part = log.read(offset, max_bytes=max_bytes, end_offset=log.log_end_offset)
        assert part is not None
        data = part.read()
        assert data == expected_slice(log, offset, max_bytes)
        places[reader] = next_offset(data)


def test_slice_goes_as_far_as_its_limit_where_entries_lie_as_close_as_they_can() -> None:
    batch_bytes = len(leaders_answer(b"."))
    config = LogConfig(index_interval_bytes=batch_bytes - 1, retention_ms=None)
    log = open_at(new_files(), config)
    for _ in range(60):
        append(log, b".")
    for batch in (2, 3, 20):
        for max_bytes in range(batch_bytes, 30 * batch_bytes, 7):
            part = log.read(Offset(batch), max_bytes=max_bytes, end_offset=log.log_end_offset)
            assert part is not None
            assert part.size_bytes == max_bytes // batch_bytes * batch_bytes


def expected_slice(log: PartitionLog, offset: Offset, max_bytes: int) -> bytes:
    """The batch of the offset, up to the last boundary in the index that is within the limit.

    Found by stepping over the whole file and asking about every batch, so with no memory of
    earlier reads.
    """
    segment = log.segments.active
    steps = list(segment.steps())
    first = next(step for step in steps if step.last_offset >= offset)
    limit = first.start + max_bytes
    end = segment.size_bytes
    if limit < end:
        entry = segment.indexes.offsets.before_position(limit)
        end = max(first.end, 0 if entry is None else entry.position)
    return contents(log)[first.start : end]


def next_offset(data: bytes) -> Offset:
    *_, (header, _) = iter_batches(data)
    return header.next_offset
