"""The idempotent producer's core: which sequence a batch gets, and when there is none to give."""

import asyncio
from collections.abc import Callable

import pytest

from kafka_wire.client import (
    ClientError,
    ClientStateError,
    ConnectError,
    ConnectionLostError,
    OutcomeUnknownError,
    ProtocolError,
    RequestTimedOutError,
    Retry,
)
from kafka_wire.client.producer import ProducerCore, State
from kafka_wire.client.steps import Call
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import EncodeError
from kafka_wire.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    ProduceRequest,
)
from kafka_wire.records import BatchBuilder, parse_header
from kafka_wire.schema import Response
from tests.wire.client.script import (
    EVENTS_0,
    EVENTS_1,
    Script,
    metadata,
    produced,
    produced_batches,
    records,
)

RETRY = Retry(timeout_ms=5000, backoff_ms=10)
NO_RETRY = Retry()
MAX_INT32 = 2**31 - 1


def test_sequences_count_the_records_of_each_partition() -> None:
    script, producer = _ready()
    script.always(ProduceRequest, produced())
    for target, values in ((EVENTS_0, [b"a", b"b"]), (EVENTS_1, [b"c"]), (EVENTS_0, [b"d"])):
        script.run(producer.append(target, records(*values)))
    script.run(producer.append(EVENTS_0, records()))
    assert _sequences(script) == [0, 0, 2, 3]


def test_sequences_continue_at_0_after_the_largest() -> None:
    script, producer = _ready()
    script.always(ProduceRequest, produced())
    producer._sequences[EVENTS_0] = MAX_INT32 - 1
    for values in ([b"a", b"b", b"c"], [b"d"]):
        script.run(producer.append(EVENTS_0, records(*values)))
    assert _sequences(script) == [MAX_INT32 - 1, 1]


def test_a_repeated_batch_is_the_same_to_the_last_byte() -> None:
    script, producer = _ready()
    lost = [ConnectionLostError("lost"), RequestTimedOutError("late")]
    script.reply(ProduceRequest, *lost, produced(base_offset=9))
    assert script.run(producer.append(EVENTS_0, records())).base_offset == 9
    assert len(set(produced_batches(script))) == 1
    assert len(produced_batches(script)) == 3


def test_a_batch_follows_its_leader() -> None:
    script, producer = _ready()

    def deposed(call: Call) -> Response:
        script.leaders[0] = 1
        return produced(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)(call)

    script.reply(ProduceRequest, deposed, produced(base_offset=1))
    script.run(producer.append(EVENTS_0, records()))
    assert [call.node_id for call in script.calls_of(ProduceRequest)] == [0, 1]


@pytest.mark.parametrize(
    "refusal",
    [
        produced(error_code=ErrorCode.MESSAGE_TOO_LARGE),
        ConnectError("refused"),
        produced(error_code=ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
    ids=["too large", "unreachable", "too few replicas"],
)
def test_the_sequence_of_a_refused_batch_is_used_again(
    refusal: ClientError | Callable[[Call], Response],
) -> None:
    script, producer = _ready(NO_RETRY)
    script.reply(ProduceRequest, refusal, produced())
    with pytest.raises((KafkaError, ClientError)):
        script.run(producer.append(EVENTS_0, records(b"refused")))
    assert producer.state is State.READY
    script.run(producer.append(EVENTS_0, records(b"taken")))
    assert _sequences(script) == [0, 0]


def test_a_batch_whose_leader_could_not_be_asked_for_leaves_no_doubt() -> None:
    script, producer = _ready(NO_RETRY)
    script.reply(MetadataRequest, RequestTimedOutError("late"))
    with pytest.raises(ConnectError):
        script.run(producer.append(EVENTS_0, records()))
    assert producer.state is State.READY


@pytest.mark.parametrize(
    "failure",
    [
        RequestTimedOutError("late"),
        ConnectionLostError("lost"),
        ProtocolError("garbage"),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        produced(error_code=ErrorCode.REQUEST_TIMED_OUT),
        produced(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=lambda failure: getattr(type(failure), "__name__", "code"),
)
def test_after_an_unknown_outcome_a_new_id_comes_before_the_next_batch(
    failure: BaseException | Callable[[Call], Response],
) -> None:
    script, producer = _ready(NO_RETRY)
    script.reply(ProduceRequest, produced(), failure, produced())
    script.run(producer.append(EVENTS_0, records()))
    with pytest.raises((ClientError, KafkaError, KeyboardInterrupt, asyncio.CancelledError)):
        script.run(producer.append(EVENTS_0, records()))
    with pytest.raises(ClientStateError, match="DOUBTFUL"):
        script.run(producer.append(EVENTS_0, records()))
    _initialize(script, producer, producer_id=2)
    script.run(producer.append(EVENTS_0, records()))
    assert _stamps(script) == [(1, 0), (1, 1), (2, 0)]


def test_an_append_that_is_abandoned_leaves_a_doubt() -> None:
    """As when the event loop is torn down, or an interrupt hits between two wishes."""
    script, producer = _ready()
    step = producer.append(EVENTS_0, records())
    step.send(None)
    step.close()
    assert producer.state is State.DOUBTFUL
    _initialize(script, producer, producer_id=2)


def test_a_refusal_after_an_unknown_attempt_leaves_a_doubt() -> None:
    script, producer = _ready()
    refusal = produced(error_code=ErrorCode.MESSAGE_TOO_LARGE)
    script.reply(ProduceRequest, ConnectionLostError("lost"), refusal)
    with pytest.raises(OutcomeUnknownError):
        script.run(producer.append(EVENTS_0, records()))
    assert producer.state is State.DOUBTFUL


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ],
)
def test_a_broker_that_counts_differently_gets_a_new_id(code: ErrorCode) -> None:
    script, producer = _ready()
    script.reply(ProduceRequest, produced(error_code=code))
    with pytest.raises(KafkaError):
        script.run(producer.append(EVENTS_0, records()))
    assert producer.state is State.DOUBTFUL


def test_a_repeated_batch_that_is_a_duplicate_was_written_by_an_earlier_attempt() -> None:
    script, producer = _ready()
    duplicate = produced(error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1)
    script.reply(ProduceRequest, ConnectionLostError("lost"), duplicate, produced())
    assert script.run(producer.append(EVENTS_0, records())).base_offset is None
    script.run(producer.append(EVENTS_0, records()))
    assert _sequences(script) == [0, 0, 1]


def test_a_new_batch_that_is_a_duplicate_was_not_written() -> None:
    """The broker takes it for another one: to call that a success would lose the records."""
    script, producer = _ready()
    duplicate = produced(error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1)
    script.reply(ProduceRequest, duplicate)
    with pytest.raises(KafkaError) as caught:
        script.run(producer.append(EVENTS_0, records()))
    assert caught.value.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert producer.state is State.DOUBTFUL


def test_records_added_during_an_append_do_not_shift_the_sequence() -> None:
    script, producer = _ready()
    builder = records(b"a")

    def while_it_is_sent(call: Call) -> Response:
        builder.append(key=None, value=b"b", timestamp_ms=1)
        return produced()(call)

    script.reply(ProduceRequest, while_it_is_sent, produced())
    script.run(producer.append(EVENTS_0, builder))
    script.run(producer.append(EVENTS_0, records()))
    assert _sequences(script) == [0, 1]


def test_a_batch_that_cannot_be_built_changes_nothing() -> None:
    script, producer = _ready()
    with pytest.raises(EncodeError):
        script.run(producer.append(EVENTS_0, BatchBuilder()))
    assert producer.state is State.READY
    script.reply(ProduceRequest, produced())
    script.run(producer.append(EVENTS_0, records()))


def test_one_append_at_a_time_to_a_partition_but_many_to_several() -> None:
    script, producer = _ready()
    script.cluster.update(metadata(script.leaders))
    first = producer.append(EVENTS_0, records())
    first.send(None)
    with pytest.raises(ClientStateError, match="events-0 has to wait"):
        producer.append(EVENTS_0, records()).send(None)
    second = producer.append(EVENTS_1, records())
    second.send(None)
    with pytest.raises(ClientStateError, match=r"initialize\(\) has to wait"):
        producer.initialize().send(None)
    first.close()
    second.close()


def test_nothing_is_written_before_and_while_the_producer_gets_its_id() -> None:
    script = Script()
    producer = _producer(script, RETRY)
    with pytest.raises(ClientStateError, match="UNINITIALIZED"):
        script.run(producer.append(EVENTS_0, records()))
    _initialize(script, producer, producer_id=1)
    again = producer.initialize()
    again.send(None)
    with pytest.raises(ClientStateError, match="UNINITIALIZED"):
        script.run(producer.append(EVENTS_0, records()))
    again.close()


def test_an_id_that_could_not_be_renewed_is_not_used_any_more() -> None:
    script, producer = _ready(NO_RETRY)
    script.reply(InitProducerIdRequest, RequestTimedOutError("late"))
    with pytest.raises(RequestTimedOutError):
        script.run(producer.initialize())
    with pytest.raises(ClientStateError):
        script.run(producer.append(EVENTS_0, records()))
    _initialize(script, producer, producer_id=2)
    assert producer.state is State.READY


def test_an_identity_that_is_given_out_twice_is_not_accepted() -> None:
    """With the sequences at 0 again, new batches would pass for old ones."""
    script, producer = _ready()
    script.reply(ProduceRequest, produced())
    script.run(producer.append(EVENTS_0, records()))
    with pytest.raises(ProtocolError, match="second time"):
        _initialize(script, producer, producer_id=1)
    with pytest.raises(ClientStateError):
        script.run(producer.append(EVENTS_0, records()))


def test_mutant_a_sequence_used_again_after_an_unknown_outcome_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ProducerCore, "_failed", lambda *_: None)
    with pytest.raises(pytest.fail.Exception):
        test_after_an_unknown_outcome_a_new_id_comes_before_the_next_batch(
            RequestTimedOutError("late")
        )


def _ready(retry: Retry = RETRY) -> tuple[Script, ProducerCore]:
    script = Script()
    producer = _producer(script, retry)
    _initialize(script, producer, producer_id=1)
    return script, producer


def _producer(script: Script, retry: Retry) -> ProducerCore:
    return script.core.producer(None, transaction_timeout_ms=60_000, retry=retry)


def _initialize(script: Script, producer: ProducerCore, *, producer_id: int) -> None:
    answer = InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    script.reply(InitProducerIdRequest, answer)
    script.run(producer.initialize())


def _stamps(script: Script) -> list[tuple[int | None, int | None]]:
    """The producer id and the sequence of each batch that was sent."""
    headers = [parse_header(batch) for batch in produced_batches(script)]
    return [(header.producer_id, header.base_sequence) for header in headers]


def _sequences(script: Script) -> list[int | None]:
    return [sequence for _, sequence in _stamps(script)]
