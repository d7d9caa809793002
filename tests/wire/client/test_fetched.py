"""What a reader sees of a fetch: no markers, nothing aborted, nothing before its offset."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.client import (
    AbortedTransaction,
    Fetched,
    FetchLimits,
    IsolationLevel,
    ProtocolError,
    RequestTimedOutError,
    TopicPartition,
)
from kafka_wire.client.routing import Outcome
from kafka_wire.client.steps import Call, Step
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import FetchRequest, FetchResponse
from kafka_wire.messages import fetch as fetch_messages
from kafka_wire.records import (
    EndTransactionMarker,
    ProducerStamp,
    Record,
    build_batch,
    build_end_transaction_marker,
    parse_header,
    rewrite_batch,
)
from kafka_wire.schema import LATEST, Response
from kafka_wire.types import Offset, ProducerEpoch, ProducerId, Sequence
from tests.wire.client.script import EVENTS_0, EVENTS_1, Reply, Script


class Log:
    """A partition with transactions, and what its leader would return of it."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.next_offset = 0
        self._aborted: list[tuple[AbortedTransaction, int]] = []
        self._open: dict[int, int] = {}

    def write(self, *values: str, producer: int | None = None, transactional: bool = True) -> None:
        base = self.next_offset
        if producer is not None and transactional:
            self._open.setdefault(producer, base)
        stamp = None if producer is None else _stamp(producer)
        self._append(
            build_batch(
                [
                    Record(Offset(base + i), 0, None, value.encode())
                    for i, value in enumerate(values)
                ],
                base_offset=Offset(base),
                producer=stamp,
                is_transactional=transactional and producer is not None,
            ),
            len(values),
        )

    def end(self, producer: int, *, commit: bool) -> None:
        first = self._open.pop(producer)
        if not commit:
            aborted = AbortedTransaction(
                producer_id=ProducerId(producer), first_offset=Offset(first)
            )
            self._aborted.append((aborted, self.next_offset))
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_commit=commit, coordinator_epoch=0),
            producer_id=ProducerId(producer),
            producer_epoch=ProducerEpoch(0),
            timestamp_ms=0,
            base_offset=Offset(self.next_offset),
        )
        self._append(marker, 1)

    def fetch(self, offset: int = 0, *, cut_bytes: int = 0) -> Fetched:
        """The batches from the one that holds `offset` on, with the aborted transactions there."""
        wanted = [
            batch for batch, end in zip(self.batches, self._ends(), strict=True) if end > offset
        ]
        data = b"".join(wanted)
        # A leader names those that overlap what it returns, in the order of their markers.
        aborted = tuple(transaction for transaction, end in self._aborted if end >= offset)
        return _fetched(data[: len(data) - cut_bytes], offset, aborted)

    def _append(self, batch: bytes, count: int) -> None:
        self.batches.append(batch)
        self.next_offset += count

    def _ends(self) -> list[int]:
        return [parse_header(batch).next_offset for batch in self.batches]


def test_records_of_aborted_transactions_are_not_seen() -> None:
    log = Log()
    log.write("a", producer=1)
    log.end(1, commit=False)
    log.write("b", producer=1)
    log.end(1, commit=True)
    log.write("c")
    assert _values(log.fetch()) == ["b", "c"]


def test_interleaved_producers_are_told_apart() -> None:
    log = Log()
    log.write("aborted 1", producer=1)
    log.write("committed 1", producer=2)
    log.write("plain")
    log.write("aborted 2", producer=1)
    log.end(2, commit=True)
    log.write("aborted 3", producer=2)
    log.end(1, commit=False)
    log.write("committed 2", producer=1)
    log.end(2, commit=False)
    log.end(1, commit=True)
    assert _values(log.fetch()) == ["committed 1", "plain", "committed 2"]


def test_a_producer_may_abort_several_times() -> None:
    log = Log()
    for turn in range(6):
        log.write(f"{turn}", producer=1)
        log.end(1, commit=turn % 3 == 0)
    assert _values(log.fetch()) == ["0", "3"]


def test_idempotent_records_are_seen_whatever_their_producer_aborts() -> None:
    log = Log()
    log.write("in a transaction", producer=1)
    log.write("outside", producer=1, transactional=False)
    log.end(1, commit=False)
    assert _values(log.fetch()) == ["outside"]


def test_a_fetch_may_begin_in_the_middle_of_a_batch_and_of_a_transaction() -> None:
    log = Log()
    log.write("a", "b", "c", producer=1)
    log.write("d", "e", "f")
    log.end(1, commit=False)
    log.write("g")
    assert _values(log.fetch(4)) == ["e", "f", "g"]
    assert _values(log.fetch(1)) == ["d", "e", "f", "g"]


def test_without_aborted_transactions_everything_but_the_markers_is_seen() -> None:
    log = Log()
    log.write("a", producer=1)
    log.end(1, commit=False)
    uncommitted = _fetched(b"".join(log.batches), 0, ())
    assert _values(uncommitted) == ["a"]


def test_a_batch_that_is_cut_short_is_fetched_again() -> None:
    log = Log()
    log.write("a", "b")
    log.write("c")
    for cut_bytes in (1, 10, 60):
        fetched = log.fetch(cut_bytes=cut_bytes)
        assert _values(fetched) == ["a", "b"]
        assert fetched.next_offset == 2
    assert log.fetch().next_offset == 3


def test_a_batch_that_compaction_emptied_still_moves_the_reader_on() -> None:
    log = Log()
    log.write("a", "b", "c", producer=1)
    log.end(1, commit=True)
    emptied = b"".join(map(_emptied, log.batches))
    fetched = _fetched(emptied, 1, ())
    assert _values(fetched) == []
    assert fetched.next_offset == 4


def test_an_abort_marker_that_compaction_emptied_hides_nothing_that_came_before_it() -> None:
    log = Log()
    log.write("a", producer=1)
    log.end(1, commit=False)
    log.batches[1] = _emptied(log.batches[1])
    log.write("b")
    assert _values(log.fetch()) == ["b"]


def test_nothing_fetched_is_nothing_seen() -> None:
    fetched = _fetched(b"", 7, ())
    assert _values(fetched) == []
    assert fetched.next_offset == 7


@given(seed=st.integers(0, 2**32), offset=st.integers(0, 40))
def test_readers_see_what_was_committed_or_written_without_a_transaction(
    seed: int, offset: int
) -> None:
    log, visible = _random_log(random.Random(seed))
    expected = [value for at, value in visible if at >= offset]
    assert _values(log.fetch(offset)) == expected


# ----------------------------------------------------------------------------- the fetch itself


def test_a_fetch_tells_high_watermark_last_stable_offset_and_leader_epoch() -> None:
    script = Script()
    script.always(FetchRequest, _answer)
    (outcome,) = script.run(_fetch(script, {EVENTS_0: 3})).values()
    assert isinstance(outcome, Fetched)
    assert (outcome.high_watermark, outcome.last_stable_offset) == (20, 15)
    assert (outcome.log_start_offset, outcome.leader_epoch) == (2, 5)
    assert outcome.fetch_offset == 3
    request = script.sent(FetchRequest)[0]
    (asked,) = request.topics[0].partitions
    assert (asked.current_leader_epoch, asked.fetch_offset) == (5, 3)
    assert script.calls_of(FetchRequest)[0].last_version == LATEST


def test_each_leader_is_asked_for_its_partitions_and_waited_for_longer_than_it_waits() -> None:
    script = Script()
    script.always(FetchRequest, _answer)
    script.run(_fetch(script, {EVENTS_0: 0, EVENTS_1: 0}))
    calls = script.calls_of(FetchRequest)
    assert [call.node_id for call in calls] == [0, 1]
    assert {call.timeout_ms for call in calls} == {1000 + 700}


def test_the_failure_of_one_leader_leaves_the_fetch_of_another() -> None:
    script = Script()
    script.reply(FetchRequest, RequestTimedOutError("late"), _answer)
    outcomes = script.run(_fetch(script, {EVENTS_0: 0, EVENTS_1: 0}))
    assert isinstance(outcomes[EVENTS_0], RequestTimedOutError)
    assert isinstance(outcomes[EVENTS_1], Fetched)


@pytest.mark.parametrize(
    "answer",
    [
        FetchResponse(error_code=ErrorCode.FENCED_LEADER_EPOCH, responses=[]),
        lambda call: _answer(call, ErrorCode.FENCED_LEADER_EPOCH),
    ],
    ids=["of all", "of the partition"],
)
def test_after_a_fenced_epoch_the_metadata_is_asked_for_again(answer: Reply) -> None:
    script = Script()
    script.reply(FetchRequest, answer)
    outcome = script.run(_fetch(script, {EVENTS_0: 0}))[EVENTS_0]
    assert isinstance(outcome, KafkaError)
    assert outcome.code == ErrorCode.FENCED_LEADER_EPOCH
    assert script.cluster.is_stale(EVENTS_0.topic)


def test_a_partition_that_the_answer_leaves_out_is_a_protocol_error() -> None:
    script = Script()
    script.reply(FetchRequest, FetchResponse(responses=[]))
    assert isinstance(script.run(_fetch(script, {EVENTS_0: 0}))[EVENTS_0], ProtocolError)


def _fetch(
    script: Script, positions: dict[TopicPartition, int]
) -> Step[dict[TopicPartition, Outcome[Fetched]]]:
    return script.core.fetch(
        {target: Offset(offset) for target, offset in positions.items()},
        limits=FetchLimits(max_wait_ms=700),
        isolation_level=IsolationLevel.READ_COMMITTED,
        rack_id="",
    )


def _answer(call: Call, error_code: ErrorCode = ErrorCode.NONE) -> Response:
    """As version 13 and later do it: by id."""
    assert isinstance(call.request, FetchRequest)
    return FetchResponse(
        responses=[
            fetch_messages.FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=[
                    fetch_messages.PartitionData(
                        partition_index=asked.partition,
                        error_code=error_code,
                        high_watermark=20,
                        last_stable_offset=15,
                        log_start_offset=2,
                        aborted_transactions=None,
                        records=None,
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )


def _random_log(rng: random.Random) -> tuple[Log, list[tuple[int, str]]]:
    """A log of three transactional producers, and its visible values with their offsets."""
    log = Log()
    visible: list[tuple[int, str]] = []
    pending: dict[int, list[tuple[int, str]]] = {}
    for turn in range(30):
        producer = rng.choice([None, 1, 2, 3])
        if producer in pending and rng.random() < 0.4:
            commit = rng.random() < 0.5
            log.end(producer, commit=commit)
            written = pending.pop(producer)
            visible += written if commit else []
            continue
        values = [f"{turn}.{i}" for i in range(rng.randint(1, 3))]
        written = [(log.next_offset + i, value) for i, value in enumerate(values)]
        log.write(*values, producer=producer)
        if producer is None:
            visible += written
        else:
            pending.setdefault(producer, []).extend(written)
    for producer in pending:
        log.end(producer, commit=False)
    return log, sorted(visible)


def _fetched(data: bytes, offset: int, aborted: Iterable[AbortedTransaction]) -> Fetched:
    return Fetched(
        fetch_offset=Offset(offset),
        high_watermark=Offset(100),
        last_stable_offset=Offset(100),
        log_start_offset=Offset(0),
        leader_epoch=None,
        preferred_read_replica=None,
        aborted_transactions=tuple(aborted),
        data=memoryview(data),
    )


def _emptied(batch: bytes) -> bytes:
    return rewrite_batch(parse_header(batch), [])


def _stamp(producer: int) -> ProducerStamp:
    return ProducerStamp(
        producer_id=ProducerId(producer), producer_epoch=ProducerEpoch(0), base_sequence=Sequence(0)
    )


def _values(fetched: Fetched) -> list[str]:
    return [(record.value or b"").decode() for record in fetched.records()]
