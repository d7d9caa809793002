"""One connection's core: versions are agreed on, answers belong to their requests or to nobody."""

import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.client import (
    ClientStateError,
    NoCommonVersionError,
    NotEncodableError,
    ProtocolError,
)
from kafka_wire.client.connection import (
    MAX_IN_FLIGHT,
    ConnectionCore,
    InFlight,
    api_versions_request,
)
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.framing import frame
from kafka_wire.messages import (
    ApiVersionsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    ProduceRequest,
)
from kafka_wire.messages.api_versions import ApiVersion, FinalizedFeatureKey
from kafka_wire.protocol import decode_request_header, encode_response

MAX_FRAME_BYTES = 1000


def test_the_newest_version_that_both_sides_have_is_used() -> None:
    core = _core({ApiKey.LIST_GROUPS: (0, 3)})
    assert _version(core, ListGroupsRequest()) == 3
    core = _core({ApiKey.LIST_GROUPS: (2, 99)})
    assert _version(core, ListGroupsRequest()) == ListGroupsRequest.versions.last


def test_an_api_that_the_broker_lacks_is_named() -> None:
    with pytest.raises(NoCommonVersionError, match="does not know ListGroupsRequest"):
        _core({}).send(ListGroupsRequest())


def test_versions_that_do_not_meet_are_named() -> None:
    core = _core({ApiKey.LIST_GROUPS: (0, 2)})
    with pytest.raises(NoCommonVersionError, match="the broker has 0 to 2, wanted is 4 to 5"):
        core.send(ListGroupsRequest(), first_version=4)


def test_a_request_that_cannot_be_written_leaves_the_connection_usable() -> None:
    core = _core({ApiKey.PRODUCE: (3, 9), ApiKey.LIST_GROUPS: (0, 5)})
    with pytest.raises(NotEncodableError):
        core.send(ProduceRequest(acks=99999, timeout_ms=1, topic_data=[]))
    waiting = _sent(core)
    assert list(core.receive(_answer(waiting))) == [waiting]


def test_a_request_without_acks_waits_for_no_answer() -> None:
    core = _core({ApiKey.PRODUCE: (3, 9)})
    waiting, parts = core.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]))
    assert waiting is None
    assert parts
    assert core.is_idle


def test_pipelined_requests_are_answered_in_order_however_the_bytes_are_cut() -> None:
    core = _core()
    waiting = [_sent(core) for _ in range(3)]
    stream = b"".join(map(_answer, waiting))
    answered = [done for byte in stream for done in core.receive(bytes([byte]))]
    assert answered == waiting
    assert all(isinstance(done.response, ListGroupsResponse) for done in answered)
    assert core.is_idle


def test_an_answer_to_another_request_is_a_protocol_error() -> None:
    core = _core()
    _, second = _sent(core), _sent(core)
    with pytest.raises(ProtocolError, match="answered request 1, request 0 is next"):
        list(core.receive(_answer(second)))


def test_an_answer_to_no_request_is_a_protocol_error() -> None:
    core = _core()
    waiting = _sent(core)
    list(core.receive(_answer(waiting)))
    with pytest.raises(ProtocolError, match="never sent"):
        list(core.receive(_answer(waiting)))


@pytest.mark.parametrize(
    "garbage",
    [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\1\0", b"HTTP/1.1 400 Bad Request"],
    ids=["oversized", "negative", "truncated", "another protocol"],
)
def test_garbage_is_a_protocol_error(garbage: bytes) -> None:
    core = _core()
    _sent(core)
    with pytest.raises(ProtocolError, match="unreadable"):
        list(core.receive(garbage))


def test_an_answer_that_came_before_the_garbage_counts() -> None:
    core = _core()
    first, _ = _sent(core), _sent(core)
    answers = core.receive(_answer(first) + b"\0\0\0\1\0")
    assert next(answers) is first
    with pytest.raises(ProtocolError):
        next(answers)


def test_correlation_ids_continue_at_0_after_the_largest() -> None:
    core = _core()
    core._next_correlation_id = 2**31 - 1
    assert [_sent(core).correlation_id for _ in range(2)] == [2**31 - 1, 0]


def test_the_requests_in_flight_are_limited() -> None:
    core = _core()
    waiting = [_sent(core) for _ in range(MAX_IN_FLIGHT)]
    with pytest.raises(ClientStateError):
        _sent(core)
    list(core.receive(_answer(waiting[0])))
    _sent(core)


@pytest.mark.parametrize(
    ("offered", "version"),
    [([(0, 2)], 2), ([(0, 99)], 4), ([], 0), ([(-5, -3)], 0)],
    ids=["older", "newer", "silent", "nonsense"],
)
def test_a_broker_that_does_not_know_our_version_is_asked_in_its_own(
    offered: list[tuple[int, int]], version: int
) -> None:
    ranges = [
        ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=first, max_version=last)
        for first, last in offered
    ]
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=ranges)
    assert _bare_core().accept_api_versions(refusal) == version


def test_a_refusal_of_our_version_counts_though_the_rest_cannot_be_read() -> None:
    """As librdkafka's mock cluster sends it, bytes and all."""
    core = _bare_core()
    core.send(api_versions_request())
    refusal = bytes.fromhex("000000110000000000230100120000000200000000")
    (answered,) = core.receive(refusal)
    assert isinstance(answered.response, ApiVersionsResponse)
    assert core.accept_api_versions(answered.response) == 0


def test_versions_that_cannot_be_read_are_a_protocol_error() -> None:
    core = _bare_core()
    core.send(api_versions_request())
    with pytest.raises(ProtocolError, match="no version that we know"):
        list(core.receive(bytes.fromhex("000000080000000000007fff")))


def test_a_broker_that_refuses_to_tell_its_versions_is_refused() -> None:
    refusal = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, api_keys=[])
    with pytest.raises(KafkaError):
        _bare_core().accept_api_versions(refusal)


def test_the_finalized_features_come_with_their_epoch() -> None:
    core = _bare_core()
    level = FinalizedFeatureKey(name="metadata.version", max_version_level=2, min_version_level=0)
    core.accept_api_versions(
        ApiVersionsResponse(api_keys=[], finalized_features=[level], finalized_features_epoch=9)
    )
    assert core.finalized_features == {"metadata.version": 2}
    assert core.finalized_features_epoch == 9


def _bare_core() -> ConnectionCore:
    return ConnectionCore(client_id="test", max_frame_bytes=MAX_FRAME_BYTES)


def _core(versions: dict[int, tuple[int, int]] | None = None) -> ConnectionCore:
    if versions is None:
        versions = {ApiKey.LIST_GROUPS: (0, 5), ApiKey.METADATA: MetadataRequest.versions}
    core = _bare_core()
    core.accept_api_versions(
        ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in versions.items()
            ]
        )
    )
    return core


def _sent(core: ConnectionCore) -> InFlight:
    waiting, _ = core.send(ListGroupsRequest())
    assert waiting is not None
    return waiting


def _version(core: ConnectionCore, request: ListGroupsRequest) -> int:
    _, parts = core.send(request)
    header, _ = decode_request_header(b"".join(parts)[4:])
    return header.api_version


def _answer(waiting: InFlight) -> bytes:
    parts = encode_response(
        ListGroupsResponse(groups=[]),
        api_version=waiting.api_version,
        correlation_id=waiting.correlation_id,
    )
    return b"".join(frame(parts))
