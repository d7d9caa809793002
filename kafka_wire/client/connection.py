"""One connection of a client, without its socket.

Requests go out with rising correlation ids and may be pipelined; Kafka answers a connection's
requests in order, so the next response belongs to the oldest request. Before anything else the
two sides agree on versions: ApiVersions is sent in our newest version, and a broker that does
not know that version answers in version 0 with the range that it knows (KIP-511).
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from kafka_wire import __version__
from kafka_wire.api_keys import ApiKey
from kafka_wire.client.errors import (
    ClientStateError,
    NoCommonVersionError,
    NotEncodableError,
    ProtocolError,
)
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import DecodeError, EncodeError, WireError
from kafka_wire.framing import FrameReader, frame
from kafka_wire.messages import ApiVersionsRequest, ApiVersionsResponse, ProduceRequest
from kafka_wire.protocol import (
    ResponseHeader,
    decode_response,
    decode_response_header,
    encode_request,
)
from kafka_wire.schema import LATEST, Request, Response, Versions
from kafka_wire.types import Buffer

MAX_IN_FLIGHT: Final = 1000
"""Requests that may wait for their answers on one connection."""

_MAX_CORRELATION_ID: Final = 2**31 - 1

NEGOTIATION_ROUNDS: Final = 2
"""ApiVersions in our newest version, and once more in the newest that the broker knows."""

CLIENT_SOFTWARE_NAME: Final = "floodmark"


CONNECT_FAILURES: Final = (OSError, ValueError, OverflowError)
"""What is raised for an address where nobody answers, or that cannot be one."""


class InFlight:
    """A request that was sent and the response to it, once there is one."""

    __slots__ = ("api_key", "api_version", "correlation_id", "response")

    def __init__(self, *, api_key: int, api_version: int, correlation_id: int) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.response: Response | None = None


class ConnectionCore:
    """Turns requests into bytes to write, and bytes read into answered requests."""

    def __init__(self, *, client_id: str, max_frame_bytes: int) -> None:
        self.api_versions: dict[int, Versions] = {}
        self.finalized_features: dict[str, int] = {}
        self.finalized_features_epoch = -1
        self._client_id = client_id
        self._frames = FrameReader(max_frame_bytes)
        self._in_flight: deque[InFlight] = deque()
        self._next_correlation_id = 0

    def send(
        self, request: Request, *, first_version: int = 0, last_version: int = LATEST
    ) -> tuple[InFlight | None, list[Buffer]]:
        """The bytes of a request, in the newest version that both sides and the caller allow.

        There is no `InFlight` for a Produce request with acks=0: nobody will answer it.
        """
        version = self.choose_version(request, first_version, last_version)
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            raise ClientStateError(f"{MAX_IN_FLIGHT} requests wait for answers: wait for some")
        correlation_id = self._next_correlation_id
        try:
            parts = frame(
                encode_request(
                    request,
                    api_version=version,
                    correlation_id=correlation_id,
                    client_id=self._client_id,
                )
            )
        except EncodeError as error:
            raise NotEncodableError(f"the request cannot be written: {error}") from error
        self._next_correlation_id = (correlation_id + 1) & _MAX_CORRELATION_ID
        if isinstance(request, ProduceRequest) and request.acks == 0:
            return None, parts
        waiting = InFlight(
            api_key=request.api_key, api_version=version, correlation_id=correlation_id
        )
        self._in_flight.append(waiting)
        return waiting, parts

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for an answer."""
        return not self._in_flight

    def receive(self, chunk: Buffer) -> Iterator[InFlight]:
        """The requests that `chunk` answers, up to an answer that cannot be read.

        Their records refer to `chunk`: do not reuse it.
        """
        try:
            for response_frame in self._frames.feed(chunk):
                yield self._answered(response_frame)
        except WireError as error:
            raise ProtocolError(f"the broker sent something unreadable: {error}") from error

    def choose_version(self, request: Request, first_version: int, last_version: int) -> int:
        ours = type(request).versions
        if request.api_key == ApiKey.API_VERSIONS:
            return min(ours.last, last_version)
        theirs = self.api_versions.get(request.api_key)
        name = type(request).__name__
        if theirs is None:
            raise NoCommonVersionError(f"the broker does not know {name}")
        first = max(ours.first, theirs.first, first_version)
        last = min(ours.last, theirs.last, last_version)
        if first > last:
            raise NoCommonVersionError(
                f"no common version of {name}: the broker has {theirs.first} to {theirs.last}, "
                f"wanted is {max(ours.first, first_version)} to {min(ours.last, last_version)}"
            )
        return last

    def accept_api_versions(self, response: ApiVersionsResponse) -> int | None:
        """Takes the broker's versions; or returns the version of ApiVersions to ask again in."""
        offered = {item.api_key: item for item in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = offered.get(ApiKey.API_VERSIONS)
            last = 0 if known is None else known.max_version
            return max(0, min(last, ApiVersionsRequest.versions.last))
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode.of(response.error_code), "the broker refused ApiVersions")
        self.api_versions = {
            key: Versions(item.min_version, item.max_version) for key, item in offered.items()
        }
        self.finalized_features = {
            feature.name: feature.max_version_level for feature in response.finalized_features
        }
        self.finalized_features_epoch = response.finalized_features_epoch
        return None

    def _answered(self, response_frame: memoryview) -> InFlight:
        if not self._in_flight:
            raise ProtocolError("the broker answered a request that was never sent")
        waiting = self._in_flight.popleft()
        try:
            header, waiting.response = decode_response(
                response_frame, api_key=waiting.api_key, api_version=waiting.api_version
            )
        except WireError:
            if waiting.api_key != ApiKey.API_VERSIONS:
                raise
            header, waiting.response = _refused_api_versions(response_frame)
        if header.correlation_id != waiting.correlation_id:
            raise ProtocolError(
                f"the broker answered request {header.correlation_id}, "
                f"request {waiting.correlation_id} is next"
            )
        return waiting


def _refused_api_versions(
    response_frame: memoryview,
) -> tuple[ResponseHeader, ApiVersionsResponse]:
    """An answer that begins like a refusal of our version, and goes on in a version of its own.

    librdkafka's mock cluster answers so; it is then asked in version 0, which everybody knows.
    """
    header, position = decode_response_header(response_frame, 0)
    code = int.from_bytes(response_frame[position : position + 2], "big", signed=True)
    if code != ErrorCode.UNSUPPORTED_VERSION:
        raise DecodeError("the answer to ApiVersions is in no version that we know")
    return header, ApiVersionsResponse(error_code=code, api_keys=[])


def api_versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(
        client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__
    )
