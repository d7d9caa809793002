"""Decode what a peer sent, encode it again, and tell where the two differ.

A field that the codec drops, reorders or reads with a wrong type shows as a difference, and one
that it does not know at the end of a frame shows as bytes left over.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import WireError
from kafka_wire.messages import REQUESTS, RESPONSES
from kafka_wire.messages.produce import ProduceRequest
from kafka_wire.protocol import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response,
    request_header_version,
    response_header_version,
)
from kafka_wire.records import Record, iter_batches, iter_records, validate_produced_batch
from tests.support.fake_broker import Received

_CONTEXT_BYTES = 24


def request_problem(frame: bytes) -> str | None:
    """What is wrong with our reading of a request; None if it is exact."""
    try:
        header, body_start = decode_request_header(frame)
        name = f"{ApiKey(header.api_key).name} v{header.api_version} request"
        request = REQUESTS[header.api_key]
        body, position = request.decode_from(frame, body_start, header.api_version)
        header_version = request_header_version(header.api_key, header.api_version)
        again = bytes(encode_request_header(header, header_version))
        again += body.encode(header.api_version)
    except WireError as error:
        return f"{error!r} in {frame.hex()}"
    return _difference(name, frame, position, again)


def response_problem(frame: bytes, *, api_key: int, api_version: int) -> str | None:
    """What is wrong with our reading of a response; None if it is exact."""
    name = f"{ApiKey(api_key).name} v{api_version} response"
    try:
        header_version = response_header_version(api_key, api_version)
        header, body_start = decode_response_header(frame, header_version)
        body, position = RESPONSES[api_key].decode_from(frame, body_start, api_version)
        again = b"".join(
            encode_response(
                body,
                api_version=api_version,
                correlation_id=header.correlation_id,
                unknown_tagged_fields=header.unknown_tagged_fields,
            )
        )
    except WireError as error:
        return f"{name}: {error!r} in {frame.hex()}"
    return _difference(name, frame, position, again)


def check_requests(
    requests: Iterable[Received], *, tails: Mapping[ApiKey, bytes] | None = None
) -> dict[ApiKey, set[int]]:
    """Fail if we read any request inexactly; returns the versions seen of each API.

    `tails` are bytes that a client is known to send needlessly after its requests of an API.
    """
    seen: defaultdict[ApiKey, set[int]] = defaultdict(set)
    problems = []
    for request in requests:
        seen[request.api_key].add(request.api_version)
        tail = (tails or {}).get(request.api_key, b"")
        assert request.frame.endswith(tail), f"{request.api_key.name} is sent as it should be now"
        problem = request_problem(request.frame.removesuffix(tail))
        if problem is not None:
            problems.append(problem)
    assert not problems, f"{len(problems)} requests differ:\n" + "\n".join(problems[:5])
    return dict(seen)


def produced_records(requests: Iterable[Received]) -> Iterator[Record]:
    """The records of all Produce requests; their batches have to be as Kafka demands."""
    for request in requests:
        if request.api_key == ApiKey.PRODUCE:
            for topic in request.expect(ProduceRequest).topic_data:
                for partition in topic.partition_data:
                    for _, batch in iter_batches(partition.records or b""):
                        validate_produced_batch(batch)
                        yield from iter_records(batch)


def _difference(name: str, frame: bytes, position: int, again: bytes) -> str | None:
    if position != len(frame):
        return f"{name}: {len(frame) - position} bytes are left over: {frame[position:].hex()}"
    if again == frame:
        return None
    at = next(
        (i for i, (left, right) in enumerate(zip(frame, again, strict=False)) if left != right),
        min(len(frame), len(again)),
    )
    start, end = max(at - _CONTEXT_BYTES, 0), at + _CONTEXT_BYTES
    return (
        f"{name}: differs from byte {at} on ({len(frame)} bytes received, {len(again)} encoded): "
        f"received ..{frame[start:end].hex()}.., encoded ..{again[start:end].hex()}.."
    )
