"""The transactional producer's core, with transaction.version 2 and below, step by step."""

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
)
from kafka_wire.client.producer import ProducerCore, State
from kafka_wire.client.steps import Call, Step
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from kafka_wire.schema import LATEST, Response
from tests.wire.client.script import (
    EVENTS_0,
    EVENTS_1,
    TOPIC,
    Script,
    produced,
    records,
)
from tests.wire.client.transactional import OFFSETS, PATIENT, PRODUCER_ID, added, begun, stamps

# ---------------------------------------------------------------- transaction.version 2 and below


def test_with_version_2_partitions_and_groups_join_by_being_written() -> None:
    script, producer = begun(transaction_version=2)
    script.run(producer.append(EVENTS_0, records()))
    script.run(producer.commit_offsets("group", OFFSETS))
    script.run(producer.commit())
    assert script.sent(AddPartitionsToTxnRequest) == []
    assert script.sent(AddOffsetsToTxnRequest) == []
    for kind in (ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest):
        assert script.calls_of(kind)[0].last_version == LATEST


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_below_version_2_partitions_and_groups_are_added_once_before(
    transaction_version: int,
) -> None:
    script, producer = begun(transaction_version=transaction_version)
    for target in (EVENTS_0, EVENTS_0, EVENTS_1):
        script.run(producer.append(target, records()))
    for _ in range(2):
        script.run(producer.commit_offsets("group", OFFSETS))
    script.run(producer.commit())
    added = [
        (topic.name, topic.partitions)
        for request in script.sent(AddPartitionsToTxnRequest)
        for topic in request.v3_and_below_topics
    ]
    assert added == [(TOPIC, [0]), (TOPIC, [1])]
    assert len(script.sent(AddOffsetsToTxnRequest)) == 1
    assert script.calls_of(AddPartitionsToTxnRequest)[0].last_version == 3
    assert script.calls_of(ProduceRequest)[0].last_version == 11
    assert script.calls_of(TxnOffsetCommitRequest)[0].last_version == 4
    assert script.calls_of(EndTxnRequest)[0].last_version == 4


def test_the_transaction_version_does_not_change_within_a_transaction() -> None:
    script, producer = begun(transaction_version=0)
    script.run(producer.append(EVENTS_0, records()))
    script.cluster.update_features({"transaction.version": 2}, epoch=2)
    script.run(producer.append(EVENTS_1, records()))
    script.run(producer.commit())
    assert len(script.sent(AddPartitionsToTxnRequest)) == 2
    assert script.calls_of(EndTxnRequest)[0].last_version == 4
    producer.begin()
    script.run(producer.append(EVENTS_0, records()))
    assert len(script.sent(AddPartitionsToTxnRequest)) == 2


def test_a_broker_that_is_behind_does_not_turn_the_features_back() -> None:
    script = Script()
    script.cluster.update_features({"transaction.version": 2}, epoch=5)
    script.cluster.update_features({}, epoch=-1)
    script.cluster.update_features({"transaction.version": 1}, epoch=4)
    assert script.cluster.finalized_features == {"transaction.version": 2}


def test_with_version_2_every_end_brings_a_new_epoch_and_new_sequences() -> None:
    script, producer = begun(transaction_version=2)
    for end in (producer.commit, producer.abort):
        script.run(producer.append(EVENTS_0, records(b"a", b"b")))
        script.run(end())
        producer.begin()
    script.run(producer.append(EVENTS_0, records()))
    assert stamps(script) == [(0, 0), (1, 0), (2, 0)]


def test_below_version_2_the_sequences_continue() -> None:
    script, producer = begun(transaction_version=1)
    for end in (producer.commit, producer.abort):
        script.run(producer.append(EVENTS_0, records(b"a", b"b")))
        script.run(end())
        producer.begin()
    script.run(producer.append(EVENTS_0, records()))
    assert stamps(script) == [(0, 0), (0, 2), (0, 4)]


def test_a_transaction_without_writes_ends_without_a_request() -> None:
    script, producer = begun(transaction_version=2)
    script.run(producer.commit())
    producer.begin()
    script.run(producer.abort())
    assert script.sent(EndTxnRequest) == []
    assert producer.state is State.READY


# ------------------------------------------------------------------------------- failed writes


@pytest.mark.parametrize(
    "failure",
    [
        produced(error_code=ErrorCode.MESSAGE_TOO_LARGE),
        ConnectError("refused"),
        RequestTimedOutError("late"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
    ],
    ids=["refused", "unreachable", "late", "cancelled", "interrupted"],
)
def test_a_transaction_with_a_failed_write_can_only_be_aborted(
    failure: BaseException | Callable[[Call], Response],
) -> None:
    script, producer = begun(transaction_version=2)
    script.reply(ProduceRequest, failure)
    with pytest.raises((ClientError, KafkaError, asyncio.CancelledError, KeyboardInterrupt)):
        script.run(producer.append(EVENTS_0, records()))
    with pytest.raises(ClientStateError, match="ABORT_ONLY"):
        script.run(producer.commit())
    script.run(producer.abort())
    assert [request.committed for request in script.sent(EndTxnRequest)] == [False]
    assert producer.state is State.READY


def test_below_version_2_a_doubt_brings_a_new_epoch_after_the_abort() -> None:
    script, producer = begun(transaction_version=1)
    script.reply(ProduceRequest, RequestTimedOutError("late"))
    with pytest.raises(RequestTimedOutError):
        script.run(producer.append(EVENTS_0, records()))
    script.run(producer.abort())
    request = script.sent(InitProducerIdRequest)[-1]
    assert (request.producer_id, request.producer_epoch) == (PRODUCER_ID, 0)
    assert script.calls_of(InitProducerIdRequest)[-1].first_version == 3
    producer.begin()
    script.run(producer.append(EVENTS_0, records()))
    assert stamps(script) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("failure", [RequestTimedOutError("late"), ConnectError("refused")])
def test_no_transaction_begins_while_a_doubt_lasts(failure: ClientError) -> None:
    """The abort succeeds, the new epoch does not come: the old sequences are still in doubt."""
    script, producer = begun(transaction_version=1)
    script.reply(ProduceRequest, RequestTimedOutError("late"))
    with pytest.raises(RequestTimedOutError):
        script.run(producer.append(EVENTS_0, records()))
    script.reply(InitProducerIdRequest, failure)
    script.run(producer.abort())
    with pytest.raises(ClientStateError, match="UNINITIALIZED"):
        producer.begin()
    script.run(producer.initialize())
    producer.begin()
    script.run(producer.append(EVENTS_0, records()))
    assert stamps(script)[-1] == (1, 0)


@pytest.mark.parametrize("last", [ConnectError("refused"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_partition_that_may_have_been_added_is_fenced_off(last: ClientError | ErrorCode) -> None:
    """The coordinator may hold a transaction open that this side never knew of."""
    script, producer = begun(transaction_version=1, retry=PATIENT)
    answer = last if isinstance(last, ClientError) else added(0, last)
    script.reply(AddPartitionsToTxnRequest, ConnectionLostError("lost"), *[answer] * 10)
    with pytest.raises(OutcomeUnknownError):
        script.run(producer.append(EVENTS_0, records()))
    script.run(producer.abort())
    assert script.sent(InitProducerIdRequest)[-1].producer_epoch == 0
    assert producer.state is State.READY


def test_a_partition_that_the_coordinator_says_nothing_about_was_not_added() -> None:
    script, producer = begun(transaction_version=1)
    script.reply(AddPartitionsToTxnRequest, added(1, ErrorCode.NONE))
    with pytest.raises(ProtocolError):
        script.run(producer.append(EVENTS_0, records()))
    assert script.sent(ProduceRequest) == []


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_stays_fenced(code: ErrorCode) -> None:
    script, producer = begun(transaction_version=2)
    other = producer.append(EVENTS_1, records())
    other.send(None)
    script.reply(ProduceRequest, produced(error_code=code))
    with pytest.raises(KafkaError):
        script.run(producer.append(EVENTS_0, records()))
    with pytest.raises(ConnectionLostError):
        other.throw(ConnectionLostError("lost"))
    assert producer.state is State.FENCED
    for operation in (producer.commit, producer.abort, producer.initialize):
        with pytest.raises(ClientStateError, match="FENCED"):
            script.run(operation())


def test_a_producer_that_is_fenced_when_it_renews_its_epoch_is_fenced() -> None:
    script, producer = begun(transaction_version=1)
    script.run(producer.commit())
    fenced = InitProducerIdResponse(
        error_code=ErrorCode.PRODUCER_FENCED, producer_id=-1, producer_epoch=-1
    )
    script.reply(InitProducerIdRequest, fenced)
    with pytest.raises(KafkaError):
        script.run(producer.initialize())
    assert producer.state is State.FENCED


def test_mutant_a_producer_that_is_ready_before_its_new_epoch_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renew = ProducerCore._renew

    def too_early(self: ProducerCore) -> Step[None]:
        try:
            yield from renew(self)
        finally:
            self.state = State.READY

    monkeypatch.setattr(ProducerCore, "_renew", too_early)
    with pytest.raises(pytest.fail.Exception):
        test_no_transaction_begins_while_a_doubt_lasts(ConnectError("refused"))
