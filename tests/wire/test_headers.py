"""Headers before requests and responses: which version, what is in them, what does not fit."""

import pytest

from kafka_wire.error_codes import ErrorCode
from kafka_wire.errors import EncodeError, UnknownApiKeyError
from kafka_wire.messages import ApiVersionsResponse, HeartbeatRequest
from kafka_wire.messages.api_versions import ApiVersion
from kafka_wire.protocol import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)


def test_the_response_to_api_versions_has_the_oldest_header_in_every_version() -> None:
    for version in range(5):
        assert response_header_version(18, version) == 0
        parts = encode_response(
            ApiVersionsResponse(api_keys=[]), api_version=version, correlation_id=7
        )
        assert bytes(parts[0]) == bytes.fromhex("00000007")
    assert response_header_version(12, 4) == 1
    assert [request_header_version(18, version) for version in (2, 3, 99)] == [1, 2, 2]


@pytest.mark.parametrize("version", [0, 2, 3, 4, 99])
def test_a_refused_version_of_api_versions_is_answered_in_the_oldest(version: int) -> None:
    """Found by fuzzing: a body in the version that was refused would not be read back."""
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
    )
    frame = b"".join(encode_response(response, api_version=version, correlation_id=7))
    assert frame == bytes.fromhex("00000007 0023 00000001 0012 0000 0004")
    _, decoded = decode_response(frame, api_key=18, api_version=version)
    assert decoded == response


def test_a_request_comes_back_with_its_header() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    for version in range(5):
        frame = b"".join(
            encode_request(request, api_version=version, correlation_id=9, client_id="me")
        )
        header, decoded = decode_request(frame)
        assert decoded == request
        assert header == RequestHeader(
            api_key=12, api_version=version, correlation_id=9, client_id="me"
        )


def test_a_response_comes_back_with_its_header() -> None:
    response = ApiVersionsResponse(api_keys=[])
    for version in range(5):
        frame = b"".join(encode_response(response, api_version=version, correlation_id=-1))
        header, decoded = decode_response(frame, api_key=18, api_version=version)
        assert decoded == response
        assert header.correlation_id == -1


@pytest.mark.parametrize("api_key", [-1, 4, 5, 6, 7, 999])
def test_an_unknown_api_key_is_a_typed_error(api_key: int) -> None:
    frame = api_key.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(UnknownApiKeyError, match=f"API key {api_key}"):
        decode_request(frame)
    with pytest.raises(UnknownApiKeyError, match=f"API key {api_key}"):
        decode_response(frame, api_key=api_key, api_version=0)


def test_a_header_that_does_not_fit_is_an_encode_error() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    with pytest.raises(EncodeError, match="the request header does not fit"):
        encode_request(request, api_version=4, correlation_id=2**31)
    with pytest.raises(EncodeError, match="the request header does not fit"):
        encode_request(request, api_version=4, correlation_id=0, client_id="x" * 40_000)
    with pytest.raises(EncodeError, match="the request header does not fit"):
        encode_request(request, api_version=4, correlation_id=0, client_id="\ud800")
    with pytest.raises(EncodeError, match="the response header does not fit"):
        encode_response(ApiVersionsResponse(api_keys=[]), api_version=4, correlation_id=2**31)
