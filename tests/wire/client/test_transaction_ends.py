"""The end of a transaction: what may have happened is not called failed, nor decided twice."""

import asyncio

import pytest

from kafka_wire.client import (
    ClientError,
    ClientStateError,
    ConnectError,
    ConnectionLostError,
    CoordinatorType,
    OutcomeUnknownError,
    RequestTimedOutError,
    maybe_applied,
)
from kafka_wire.client.producer import State
from kafka_wire.client.steps import Call
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import (
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    InitProducerIdRequest,
)
from kafka_wire.schema import Response
from tests.wire.client.script import (
    EVENTS_0,
    Script,
    coordinator_response,
    records,
)
from tests.wire.client.transactional import OFFSETS, ONCE, PATIENT, begun, stamps, written


@pytest.mark.parametrize(
    "failure",
    [
        RequestTimedOutError("late"),
        ConnectionLostError("lost"),
        EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR),
        EndTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
    ids=["late", "lost", "deposed coordinator", "slow followers"],
)
def test_a_commit_that_may_have_happened_can_be_repeated_but_not_revoked(
    failure: ClientError | EndTxnResponse,
) -> None:
    script, producer = written()
    script.reply(EndTxnRequest, failure)
    with pytest.raises((ClientError, KafkaError)) as caught:
        script.run(producer.commit())
    assert isinstance(caught.value, ClientError | KafkaError)
    assert maybe_applied(caught.value)
    with pytest.raises(ClientStateError, match="COMMITTING"):
        script.run(producer.abort())
    script.run(producer.commit())
    first, second = script.sent(EndTxnRequest)
    assert first == second
    assert producer.state is State.READY


@pytest.mark.parametrize(
    "second", [ConnectError("refused"), EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)]
)
def test_a_commit_in_doubt_stays_in_doubt_though_the_next_one_fails_for_sure(
    second: ClientError | EndTxnResponse,
) -> None:
    script, producer = written()
    script.reply(EndTxnRequest, RequestTimedOutError("late"), second)
    with pytest.raises(RequestTimedOutError):
        script.run(producer.commit())
    with pytest.raises(OutcomeUnknownError):
        script.run(producer.commit())
    assert producer.state is State.COMMITTING


def test_a_commit_that_was_lost_once_is_in_doubt_though_the_coordinator_is_busy_after() -> None:
    script, producer = written(retry=PATIENT)
    script.reply(EndTxnRequest, ConnectionLostError("lost"))
    script.always(
        EndTxnRequest, lambda _: EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    )
    with pytest.raises(OutcomeUnknownError):
        script.run(producer.commit())
    assert producer.state is State.COMMITTING


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), KeyboardInterrupt()])
def test_a_commit_that_is_cut_off_may_have_happened(failure: BaseException) -> None:
    script, producer = written()
    script.reply(EndTxnRequest, failure)
    with pytest.raises(type(failure)):
        script.run(producer.commit())
    assert producer.state is State.COMMITTING


@pytest.mark.parametrize(
    "failure",
    [
        ConnectError("refused"),
        EndTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE),
    ],
    ids=["unreachable", "loading", "refused"],
)
def test_a_commit_that_surely_did_not_happen_can_be_given_up(
    failure: ClientError | EndTxnResponse,
) -> None:
    script, producer = written()
    script.reply(EndTxnRequest, failure)
    with pytest.raises((ClientError, KafkaError)) as caught:
        script.run(producer.commit())
    assert isinstance(caught.value, ClientError | KafkaError)
    assert not maybe_applied(caught.value)
    script.run(producer.abort())
    assert [request.committed for request in script.sent(EndTxnRequest)] == [True, False]


def test_a_commit_whose_coordinator_is_not_found_surely_did_not_happen() -> None:
    script, producer = written()
    script.cluster.forget_coordinator(CoordinatorType.TRANSACTION, "tx")
    unavailable = coordinator_response(0, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    script.reply(FindCoordinatorRequest, unavailable)
    with pytest.raises(KafkaError) as caught:
        script.run(producer.commit())
    assert not maybe_applied(caught.value)
    assert producer.state is State.IN_TRANSACTION


def test_below_version_2_a_late_commit_cannot_end_the_next_transaction() -> None:
    """The commit that got no answer may arrive yet: a new epoch fences it off."""
    script, producer = written(transaction_version=1)
    script.reply(EndTxnRequest, RequestTimedOutError("late"))
    with pytest.raises(RequestTimedOutError):
        script.run(producer.commit())
    script.run(producer.commit())
    producer.begin()
    script.run(producer.append(EVENTS_0, records()))
    assert stamps(script)[-1] == (1, 0)


def test_a_commit_that_happened_has_not_failed_because_the_new_epoch_does_not_come() -> None:
    script, producer = written(transaction_version=1)
    script.reply(EndTxnRequest, RequestTimedOutError("late"))
    with pytest.raises(RequestTimedOutError):
        script.run(producer.commit())
    script.reply(InitProducerIdRequest, ConnectError("refused"))
    script.run(producer.commit())
    assert producer.state is State.UNINITIALIZED


def test_a_commit_that_the_coordinator_wants_aborted_can_be() -> None:
    script, producer = written()
    script.reply(EndTxnRequest, EndTxnResponse(error_code=ErrorCode.TRANSACTION_ABORTABLE))
    with pytest.raises(KafkaError):
        script.run(producer.commit())
    assert producer.state is State.ABORT_ONLY
    script.run(producer.abort())


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_producer_fenced_at_its_commit_is_fenced(code: ErrorCode) -> None:
    script, producer = written(retry=PATIENT)
    script.reply(EndTxnRequest, ConnectionLostError("lost"), EndTxnResponse(error_code=code))
    with pytest.raises(OutcomeUnknownError):
        script.run(producer.commit())
    assert producer.state is State.FENCED


def test_the_end_follows_the_coordinator_where_it_moves() -> None:
    script, producer = written(retry=PATIENT)

    def moved(_: Call) -> Response:
        script.coordinator = 1
        return EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)

    script.reply(EndTxnRequest, moved)
    script.run(producer.commit())
    assert [call.node_id for call in script.calls_of(EndTxnRequest)] == [0, 1]


@pytest.mark.parametrize("first", ["append", "commit_offsets"])
def test_a_transaction_does_not_end_while_something_is_written(first: str) -> None:
    script, producer = begun(transaction_version=2)
    write = (
        producer.append(EVENTS_0, records())
        if first == "append"
        else producer.commit_offsets("group", OFFSETS)
    )
    write.send(None)
    for end in (producer.commit, producer.abort):
        with pytest.raises(ClientStateError, match="has to wait"):
            script.run(end())
    write.close()


def test_a_transaction_does_not_end_twice_at_once() -> None:
    script, producer = written()
    first = producer.commit()
    first.send(None)
    with pytest.raises(ClientStateError, match="has to wait"):
        script.run(producer.commit())
    with pytest.raises(ClientStateError):
        producer.begin()
    first.close()


def test_a_transaction_needs_a_transactional_id() -> None:
    script = Script()
    producer = script.core.producer(None, transaction_timeout_ms=1, retry=ONCE)
    with pytest.raises(ClientStateError, match="transactional id"):
        producer.begin()
