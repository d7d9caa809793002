"""What a client says of a write that failed: never "not applied" where it may have been."""

from collections.abc import Callable

import pytest

from kafka_wire.client import (
    ONCE,
    ClientClosedError,
    ClientError,
    ClientStateError,
    Committed,
    ConnectError,
    ConnectionLostError,
    NoCommonVersionError,
    NotEncodableError,
    OutcomeUnknownError,
    ProtocolError,
    RequestTimedOutError,
    Retry,
    UnroutableError,
    maybe_applied,
)
from kafka_wire.client.steps import Call
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import UnsupportedVersionError
from kafka_wire.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka_wire.messages.offset_commit import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_wire.schema import Response
from kafka_wire.types import Offset
from tests.wire.client.script import (
    EVENTS_0,
    EVENTS_1,
    TOPIC,
    Script,
    metadata,
    produced,
    produced_batches,
    records,
)

BATCH = records().build()
PATIENT = Retry(timeout_ms=10_000, backoff_ms=10, max_backoff_ms=50)
STUBBORN = Retry(timeout_ms=10_000, backoff_ms=10, repeat_unknown=True)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        # A topic that is deleted while its leader waits for the followers.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        # A coordinator that is deposed, or whose followers are slow, after it has appended.
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        # Somebody sent the batch before.
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ],
)
def test_a_code_that_may_follow_an_append_is_not_a_refusal(code: ErrorCode) -> None:
    assert maybe_applied(KafkaError(code))


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_a_code_that_is_given_before_the_append_is_a_refusal(code: ErrorCode) -> None:
    assert not maybe_applied(KafkaError(code))


def test_only_what_was_sent_may_have_been_applied() -> None:
    sent = {ConnectionLostError, RequestTimedOutError, ProtocolError, OutcomeUnknownError}
    unsent = {
        ConnectError,
        ClientClosedError,
        ClientStateError,
        NoCommonVersionError,
        NotEncodableError,
    }
    assert sent | unsent == set(ClientError.__subclasses__())
    assert all(maybe_applied(kind("")) for kind in sent)
    assert not any(maybe_applied(kind("")) for kind in unsent)
    assert not maybe_applied(UnroutableError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


@pytest.mark.parametrize(
    "last",
    [
        ConnectError("refused"),
        NoCommonVersionError("downgraded"),
        ClientClosedError("closed"),
        produced(error_code=ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=["unreachable", "downgraded", "closed", "refused"],
)
def test_an_error_tells_of_all_attempts(
    last: ClientError | Callable[[Call], Response],
) -> None:
    script = Script()
    script.reply(ProduceRequest, ConnectionLostError("lost"), last)
    script.always(ProduceRequest, produced(error_code=ErrorCode.NOT_ENOUGH_REPLICAS))
    with pytest.raises(OutcomeUnknownError) as caught:
        script.run(script.core.produce(EVENTS_0, BATCH, retry=STUBBORN))
    assert not isinstance(caught.value.__cause__, ConnectionLostError)


def test_a_write_with_an_unknown_outcome_is_not_repeated_by_default() -> None:
    script = Script()
    script.reply(ProduceRequest, ConnectionLostError("lost"))
    with pytest.raises(ConnectionLostError):
        script.run(script.core.produce(EVENTS_0, BATCH, retry=PATIENT))


def test_a_write_with_an_unknown_outcome_is_repeated_where_the_caller_accepts_it() -> None:
    script = Script()
    script.reply(ProduceRequest, ConnectionLostError("lost"), produced(base_offset=7))
    done = script.run(script.core.produce(EVENTS_0, BATCH, retry=STUBBORN))
    assert done.base_offset == 7
    assert produced_batches(script) == [BATCH, BATCH]


def test_a_write_that_was_not_sent_is_repeated() -> None:
    script = Script()
    script.reply(ProduceRequest, ConnectError("refused"), produced())
    script.run(script.core.produce(EVENTS_0, BATCH, retry=PATIENT))


def test_nothing_is_retried_by_default() -> None:
    script = Script()
    script.reply(ProduceRequest, ConnectError("refused"))
    with pytest.raises(ConnectError):
        script.run(script.core.produce(EVENTS_0, BATCH, retry=ONCE))
    assert script.pauses_ms == []


def test_retries_back_off_and_end_with_the_time() -> None:
    script = Script()
    script.always(ProduceRequest, produced(error_code=ErrorCode.NOT_ENOUGH_REPLICAS))
    with pytest.raises(KafkaError) as caught:
        script.run(script.core.produce(EVENTS_0, BATCH, retry=Retry(timeout_ms=300, backoff_ms=20)))
    assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert script.pauses_ms == [20, 40, 80, 160]
    assert script.now_ms == 300


@pytest.mark.parametrize(
    "error", [ClientClosedError("closed"), NoCommonVersionError("old"), NotEncodableError("bad")]
)
def test_what_cannot_get_better_is_not_retried(error: ClientError) -> None:
    script = Script()
    script.reply(ProduceRequest, error)
    with pytest.raises(type(error)):
        script.run(script.core.produce(EVENTS_0, BATCH, retry=PATIENT))
    assert script.pauses_ms == []


@pytest.mark.parametrize("error", [RequestTimedOutError("late"), ConnectionLostError("lost")])
def test_a_write_whose_leader_was_not_found_was_not_applied(error: ClientError) -> None:
    script = Script()
    script.reply(MetadataRequest, error)
    with pytest.raises(ConnectError) as caught:
        script.run(script.core.produce(EVENTS_0, BATCH))
    assert not maybe_applied(caught.value)


def test_a_write_to_a_topic_that_metadata_does_not_know_was_not_applied() -> None:
    script = Script()
    script.reply(MetadataRequest, metadata({}, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    with pytest.raises(KafkaError) as caught:
        script.run(script.core.produce(EVENTS_0, BATCH))
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not maybe_applied(caught.value)


@pytest.mark.parametrize(
    "failure", [NoCommonVersionError("old"), ConnectError("down"), RequestTimedOutError("late")]
)
def test_the_failure_of_one_leader_does_not_hide_what_another_has_done(
    failure: ClientError,
) -> None:
    script = Script()
    script.reply(ProduceRequest, produced(base_offset=3), failure)
    outcomes = script.run(script.core.produce_all({EVENTS_0: BATCH, EVENTS_1: BATCH}))
    written = outcomes[EVENTS_0]
    assert not isinstance(written, Exception)
    assert written.base_offset == 3
    assert outcomes[EVENTS_1] is failure


def test_a_partition_that_the_answer_leaves_out_may_have_been_written() -> None:
    script = Script()
    script.reply(ProduceRequest, ProduceResponse(responses=[]))
    outcome = script.run(script.core.produce_all({EVENTS_0: BATCH}))[EVENTS_0]
    assert isinstance(outcome, ProtocolError)
    assert maybe_applied(outcome)


def test_an_answer_about_something_else_is_not_handed_on() -> None:
    script = Script(leaders={0: 0, 1: 0})
    script.reply(ProduceRequest, produced(partition_shift=1))
    outcomes = script.run(script.core.produce_all({EVENTS_0: BATCH}))
    assert outcomes.keys() == {EVENTS_0}
    assert isinstance(outcomes[EVENTS_0], ProtocolError)


def test_an_answer_by_topic_id_is_understood_though_the_metadata_changed_meanwhile() -> None:
    """Other tasks of the asyncio client refresh the metadata at any time."""
    script = Script()

    def forgotten_meanwhile(call: Call) -> Response:
        gone = metadata({}, error_code=ErrorCode.LEADER_NOT_AVAILABLE)
        script.cluster.update(gone)
        return produced(base_offset=4, by_id=True)(call)

    script.reply(ProduceRequest, forgotten_meanwhile)
    assert script.run(script.core.produce(EVENTS_0, BATCH)).base_offset == 4


def test_produce_names_topics_by_id_only_where_it_has_the_ids() -> None:
    with_ids, without_ids = Script(), Script()
    without_ids.reply(MetadataRequest, metadata({0: 0}, topic_id=bytes(16)))
    for script in (with_ids, without_ids):
        script.reply(ProduceRequest, produced())
        script.run(script.core.produce(EVENTS_0, BATCH))
    assert with_ids.calls_of(ProduceRequest)[0].last_version > 12
    assert without_ids.calls_of(ProduceRequest)[0].last_version == 12


def test_any_request_that_is_repeated_tells_of_all_attempts() -> None:
    script = Script()
    script.reply(CreateTopicsRequest, ConnectionLostError("lost"))
    script.always(CreateTopicsRequest, _unreachable)
    request = CreateTopicsRequest(topics=[])
    step = script.core.request(request, CreateTopicsResponse, node_id=None, retry=STUBBORN)
    with pytest.raises(OutcomeUnknownError):
        script.run(step)


def test_a_version_that_no_side_has_is_an_unsupported_version_and_a_client_error() -> None:
    assert issubclass(NoCommonVersionError, UnsupportedVersionError)


# ------------------------------------------------------------------------------ offset commits

OFFSETS = {EVENTS_0: Committed(offset=Offset(1)), EVENTS_1: Committed(offset=Offset(2))}


def test_offsets_of_which_some_were_taken_have_an_unknown_outcome() -> None:
    script = Script()
    answer = _committed({0: ErrorCode.NONE, 1: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    script.reply(OffsetCommitRequest, answer)
    with pytest.raises(OutcomeUnknownError, match="OFFSET_METADATA_TOO_LARGE: events-1"):
        script.run(script.core.commit_offsets("group", OFFSETS))


def test_offsets_of_which_none_was_taken_were_refused() -> None:
    script = Script()
    script.reply(
        OffsetCommitRequest, _committed(dict.fromkeys((0, 1), ErrorCode.STALE_MEMBER_EPOCH))
    )
    with pytest.raises(KafkaError) as caught:
        script.run(script.core.commit_offsets("group", OFFSETS))
    assert caught.value.code == ErrorCode.STALE_MEMBER_EPOCH
    assert not maybe_applied(caught.value)


def test_offsets_are_not_committed_before_every_partition_was_answered_for() -> None:
    script = Script()
    script.reply(OffsetCommitRequest, _committed({0: ErrorCode.NONE}))
    with pytest.raises(ProtocolError, match="events-1"):
        script.run(script.core.commit_offsets("group", OFFSETS))


def test_a_commit_that_was_lost_once_is_doubtful_whatever_comes_after() -> None:
    script = Script()
    refused = _committed(dict.fromkeys((0, 1), ErrorCode.UNKNOWN_MEMBER_ID))
    script.reply(OffsetCommitRequest, RequestTimedOutError("late"), refused)
    with pytest.raises(OutcomeUnknownError):
        script.run(script.core.commit_offsets("group", OFFSETS, retry=PATIENT))


# ------------------------------------------------------------------------------------- mutants


def test_mutant_a_timeout_called_not_applied_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestTimedOutError, "maybe_applied", False)
    with pytest.raises(AssertionError):
        test_only_what_was_sent_may_have_been_applied()


def test_mutant_an_earlier_attempt_forgotten_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_wire.client.steps.OutcomeUnknownError", ConnectError)
    with pytest.raises(ConnectError):
        test_a_commit_that_was_lost_once_is_doubtful_whatever_comes_after()


def _unreachable(_: Call) -> Response:
    raise ConnectError("refused")


def _committed(codes: dict[int, ErrorCode]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=TOPIC,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition, error_code=code)
                    for partition, code in codes.items()
                ],
            )
        ]
    )
