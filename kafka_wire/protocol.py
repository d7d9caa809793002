"""Requests and responses with their headers, as they stand in a frame.

A frame is a length of four bytes, a header and a body. The header's version follows from the
body's: flexible bodies have flexible headers, with one exception that keeps the protocol alive.
A client that asks for ApiVersions does not know yet what the broker understands, so the
response to it has always the oldest header.

Functions here take and return frames without the length; `kafka_wire.framing` adds it.
"""

import struct
from typing import Final

import msgspec

from kafka_wire.api_keys import ApiKey
from kafka_wire.error_codes import ErrorCode
from kafka_wire.errors import DecodeError, EncodeError, UnknownApiKeyError
from kafka_wire.messages import REQUESTS, RESPONSES, ApiVersionsResponse
from kafka_wire.schema import RawTaggedField, Request, Response
from kafka_wire.types import Buffer
from kafka_wire.varint import read_unknown_tags, write_tags

_FIXED: Final = struct.Struct(">hhi")
_FIXED_AND_LENGTH: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_UNSUPPORTED_VERSION: Final = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


class RequestHeader(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What stands before a request's body.

    Version 0 has no client id (only requests that are long gone used it), version 2 has tagged
    fields. The client id is in the legacy format in every version.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    unknown_tagged_fields: tuple[RawTaggedField, ...] = ()


class ResponseHeader(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What stands before a response's body: version 1 has tagged fields."""

    correlation_id: int
    unknown_tagged_fields: tuple[RawTaggedField, ...] = ()


def request_header_version(api_key: int, api_version: int) -> int:
    """1, or 2 for a flexible request; defined for versions that we do not know, too."""
    request = REQUESTS.get(api_key)
    if request is None:
        raise UnknownApiKeyError(f"there is no request with API key {api_key} here")
    return 2 if api_version >= request.flexible_since else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """0, or 1 for a flexible response, but always 0 for ApiVersions."""
    response = RESPONSES.get(api_key)
    if response is None:
        raise UnknownApiKeyError(f"there is no response with API key {api_key} here")
    return int(api_key != ApiKey.API_VERSIONS and response.is_flexible(api_version))


def encode_request_header(header: RequestHeader, header_version: int) -> bytearray:
    try:
        out = bytearray(_FIXED.pack(header.api_key, header.api_version, header.correlation_id))
        if header_version >= 1:
            client_id = None if header.client_id is None else header.client_id.encode()
            out += struct.pack(">h", -1 if client_id is None else len(client_id))
            out += client_id or b""
    except (struct.error, UnicodeEncodeError) as error:
        raise EncodeError(f"the request header does not fit its format: {error}") from error
    if header_version >= 2:
        write_tags(out, (), header.unknown_tagged_fields)
    return out


def decode_request_header(
    frame: Buffer, header_version: int | None = None
) -> tuple[RequestHeader, int]:
    """The header of a request, and the position of its body.

    Without `header_version` it follows from the API key and version that the frame begins with.
    """
    try:
        if header_version == 0:
            api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
            header = RequestHeader(
                api_key=api_key, api_version=api_version, correlation_id=correlation_id
            )
            return header, _FIXED.size
        api_key, api_version, correlation_id, length = _FIXED_AND_LENGTH.unpack_from(frame)
        if header_version is None:
            header_version = request_header_version(api_key, api_version)
        position = _FIXED_AND_LENGTH.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise DecodeError(f"the client id has {length} bytes, the frame ends before")
            client_id = str(frame[position:end], "utf-8")
            position = end
        elif length < -1:
            raise DecodeError(f"the client id has a length of {length}")
        unknown: tuple[RawTaggedField, ...] = ()
        if header_version >= 2:
            if frame[position]:
                unknown, position = read_unknown_tags(frame, position, len(frame))
            else:
                position += 1
    except (struct.error, IndexError):
        raise DecodeError(f"a frame of {len(frame)} bytes ends inside a request header") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"the client id is not UTF-8: {error}") from None
    header = RequestHeader(
        api_key=api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
        unknown_tagged_fields=unknown,
    )
    return header, position


def encode_request(
    request: Request, *, api_version: int, correlation_id: int, client_id: str | None = None
) -> list[Buffer]:
    """A request with its header, as buffers."""
    header = RequestHeader(
        api_key=request.api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    header_version = 2 if request.is_flexible(api_version) else 1
    return [encode_request_header(header, header_version), *request.encode_parts(api_version)]


def decode_request(frame: Buffer) -> tuple[RequestHeader, Request]:
    """A request with its header. Its records are slices of `frame`."""
    header, position = decode_request_header(frame)
    decode = REQUESTS[header.api_key].decoder(header.api_version)
    request, _ = decode(frame, position, len(frame))
    return header, request


def encode_response(
    response: Response,
    *,
    api_version: int,
    correlation_id: int,
    unknown_tagged_fields: tuple[RawTaggedField, ...] = (),
) -> list[Buffer]:
    """A response with its header, as buffers: records are not copied.

    An ApiVersions response that refuses the version of its request is in the oldest version,
    whatever that version was: it is all that both sides can be sure of (KIP-511).
    """
    if isinstance(response, ApiVersionsResponse) and (
        response.error_code == ErrorCode.UNSUPPORTED_VERSION
    ):
        api_version = 0
    try:
        out = bytearray(_CORRELATION_ID.pack(correlation_id))
    except struct.error as error:
        raise EncodeError(f"the response header does not fit its format: {error}") from error
    if response_header_version(response.api_key, api_version) >= 1:
        write_tags(out, (), unknown_tagged_fields)
    return [out, *response.encode_parts(api_version)]


def decode_response_header(frame: Buffer, header_version: int) -> tuple[ResponseHeader, int]:
    """The header of a response, and the position of its body."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        position = _CORRELATION_ID.size
        unknown: tuple[RawTaggedField, ...] = ()
        if header_version >= 1:
            unknown, position = read_unknown_tags(frame, position, len(frame))
    except (struct.error, IndexError):
        raise DecodeError(f"a frame of {len(frame)} bytes ends inside a response header") from None
    return ResponseHeader(correlation_id=correlation_id, unknown_tagged_fields=unknown), position


def decode_response(
    frame: Buffer, *, api_key: int, api_version: int
) -> tuple[ResponseHeader, Response]:
    """A response with its header; the API key and version are those of its request."""
    header_version = response_header_version(api_key, api_version)
    header, position = decode_response_header(frame, header_version)
    if api_key == ApiKey.API_VERSIONS and frame[position : position + 2] == _UNSUPPORTED_VERSION:
        # The broker does not know the version of the request, so it answers in the oldest.
        api_version = 0
    decode = RESPONSES[api_key].decoder(api_version)
    response, _ = decode(frame, position, len(frame))
    return header, response
