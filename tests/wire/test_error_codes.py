"""Error codes are Kafka's own: kio generates its table from Kafka, kafka-python wrote one."""

import inspect
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from kafka_wire import errors
from kafka_wire.error_codes import ErrorCode, KafkaError
from tests.wire.other_clients import kafka_python_errors

NOT_IN_KIO: dict[ErrorCode, str] = {}
"""Codes that kio lacks, with the reason; empty as long as kio knows all of Kafka's."""

RETRIABLE_UNLIKE_KAFKA_PYTHON = {
    ErrorCode.CORRUPT_MESSAGE: "Kafka's CorruptRecordException is retriable: the wire may be noisy",
}
UNKNOWN_TO_KAFKA_PYTHON_FROM = 128


def test_codes_have_kafkas_names_numbers_and_retriability() -> None:
    ours = {c.name: (c.value, c.retriable) for c in ErrorCode if c not in NOT_IN_KIO}
    theirs = {c.name.upper(): (int(c.value), c.retriable) for c in KioErrorCode}
    assert ours == theirs


def test_retriability_agrees_with_kafka_python() -> None:
    classes: list[Any] = [e for e in vars(kafka_python_errors).values() if inspect.isclass(e)]
    theirs = {e.errno: e.retriable for e in classes if isinstance(getattr(e, "errno", None), int)}
    differing = {c for c in ErrorCode if c in theirs and theirs[c] != c.retriable}
    assert differing == set(RETRIABLE_UNLIKE_KAFKA_PYTHON)
    assert {c for c in ErrorCode if c not in theirs} == {
        c for c in ErrorCode if c >= UNKNOWN_TO_KAFKA_PYTHON_FROM
    }


def test_numbers_are_without_gaps() -> None:
    assert sorted(ErrorCode) == list(range(-1, max(ErrorCode) + 1))


def test_unknown_number_is_an_unknown_server_error() -> None:
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(32_000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not ErrorCode.of(32_000).retriable


def test_kafka_error_says_code_and_message() -> None:
    error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "2 of 3 replicas are in sync")
    assert str(error) == "NOT_ENOUGH_REPLICAS: 2 of 3 replicas are in sync"
    assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert error.retriable
    assert str(KafkaError(ErrorCode.NONE)) == "NONE"


@pytest.mark.parametrize(
    "error", [e for e in vars(errors).values() if inspect.isclass(e) and issubclass(e, Exception)]
)
def test_every_wire_error_is_one_wire_error_with_a_code(error: type[errors.WireError]) -> None:
    assert issubclass(error, errors.WireError)
    assert error.code is not ErrorCode.NONE
