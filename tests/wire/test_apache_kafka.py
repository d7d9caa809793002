"""What a real Apache Kafka answers, we decode and encode again exactly: every API, every version.

The broker is also the judge of our requests: it closes the connection on one that it cannot read.
"""

from collections.abc import Iterator

import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.messages import REQUESTS
from kafka_wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.protocol import decode_response
from kafka_wire.schema import ArrayOf, Response, Versions, fields_of
from tests.support.apache_kafka import ApacheKafka
from tests.support.round_trip import response_problem
from tests.wire.kafka_admin_requests import ADMIN_REQUESTS
from tests.wire.kafka_requests import CLIENT_REQUESTS, World, ask, prepare

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]  # Maven may have to download first

MAKE_REQUEST = CLIENT_REQUESTS | ADMIN_REQUESTS

NOT_ADVERTISED = {
    ApiKey.PRODUCE: "Kafka says that it knows 0 to 2, for librdkafka's sake, and refuses them",
    ApiKey.WRITE_TXN_MARKERS: "0 is of Kafka 3",
}
"""Where our versions and Kafka's differ, and why."""

NOTHING_TO_TELL = {
    (ApiKey.JOIN_GROUP, 4): "the member has to come back with the id that it was given",
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0): "with one broker there is nothing to reassign",
    (ApiKey.SASL_HANDSHAKE, 0): "the listener has no SASL, so there are no mechanisms",
    (ApiKey.SASL_HANDSHAKE, 1): "the listener has no SASL, so there are no mechanisms",
}
"""Answers that have arrays, all of them empty here."""


@pytest.fixture(scope="module")
def world(apache_kafka: ApacheKafka) -> Iterator[World]:
    with apache_kafka.connect() as client:
        yield prepare(client)


@pytest.fixture(scope="module")
def advertised(world: World) -> dict[int, Versions]:
    answer = ask(
        world.client,
        ApiVersionsRequest(client_software_name="test", client_software_version="1"),
        4,
        ApiVersionsResponse,
    )
    return {api.api_key: Versions(api.min_version, api.max_version) for api in answer.api_keys}


def test_there_is_a_request_of_every_api() -> None:
    assert MAKE_REQUEST.keys() == REQUESTS.keys() == set(ApiKey)


def test_our_versions_are_those_of_kafka(advertised: dict[int, Versions]) -> None:
    different = {key for key in REQUESTS if REQUESTS[key].versions != advertised.get(key)}
    assert different == NOT_ADVERTISED.keys()


@pytest.mark.parametrize("api_key", MAKE_REQUEST, ids=lambda key: key.name.lower())
def test_answers_of_every_version_are_read_exactly(
    api_key: ApiKey, world: World, advertised: dict[int, Versions]
) -> None:
    ours, theirs = REQUESTS[api_key].versions, advertised[api_key]
    for version in range(max(ours.first, theirs.first), min(ours.last, theirs.last) + 1):
        request = MAKE_REQUEST[api_key](world, version)
        answer = world.client.exchange(request, version)
        assert response_problem(answer, api_key=api_key, api_version=version) is None
        _, response = decode_response(answer, api_key=api_key, api_version=version)
        expected = (api_key, version) not in NOTHING_TO_TELL
        assert tells_something(response, version) == expected, response


def tells_something(response: Response, version: int) -> bool:
    """Whether any array in it has elements; true also of those that have no arrays."""
    arrays = [
        getattr(response, field.name)
        for field in fields_of(type(response))
        if isinstance(field.wire, ArrayOf) and version in field.versions and field.tag is None
    ]
    return not arrays or any(arrays)
