"""What producers promise, under any faults: acknowledged once and only once, refused never.

The producers' core runs against a model of a broker; hypothesis chooses which requests and
answers get lost, come late, are refused or cut off.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.client import (
    ClientError,
    ConnectError,
    RequestTimedOutError,
    Retry,
    errors,
    maybe_applied,
)
from kafka_wire.client.producer import ProducerCore, State
from kafka_wire.client.steps import Step
from kafka_wire.error_codes import ErrorCode, KafkaError
from tests.wire.client.model_broker import Fault, ModelBroker
from tests.wire.client.script import EVENTS_0, records

WRITES = 8
TRANSACTIONS = 5
RETRY = Retry(timeout_ms=40, backoff_ms=10)
LONGEST_BURST = 6
MUTANT_SEEDS = 1000
BURSTS = st.lists(st.tuples(st.sampled_from(Fault), st.integers(1, LONGEST_BURST)), max_size=15)
FAULTS = BURSTS.map(lambda bursts: [fault for fault, count in bursts for _ in range(count)])


@dataclass
class Outcomes:
    """Every value that was written stands in one of these."""

    acknowledged: list[bytes] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    unknown: list[bytes] = field(default_factory=list)


@given(faults=FAULTS)
@settings(max_examples=150)
def test_an_acknowledged_batch_is_written_once_and_a_refused_one_never(
    faults: Sequence[Fault],
) -> None:
    check_idempotent(faults)


@given(faults=FAULTS)
@settings(max_examples=150)
def test_a_transaction_is_seen_as_a_whole_or_not_at_all(faults: Sequence[Fault]) -> None:
    check_transactions(faults, transaction_version=2)


@given(faults=FAULTS)
@settings(max_examples=150)
def test_a_transaction_of_an_older_cluster_is_seen_as_a_whole_or_not_at_all(
    faults: Sequence[Fault],
) -> None:
    check_transactions(faults, transaction_version=1)


# ------------------------------------------------------------------------------------- mutants


def test_mutant_a_sequence_used_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new batch passes for the old one, which was written, and is acknowledged in its place."""
    monkeypatch.setattr(ProducerCore, "_failed", lambda *_: None)
    assert "acknowledged where another one stands" in _caught(check_idempotent)


def test_mutant_a_timeout_called_not_applied_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestTimedOutError, "maybe_applied", False)
    _caught(check_idempotent)


def test_mutant_an_earlier_attempt_forgotten_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_wire.client.steps.OutcomeUnknownError", ConnectError)
    assert "refused, but written" in _caught(check_idempotent)
    assert "refused, but written" in _caught(check_transactions)


def test_mutant_a_deposed_coordinator_believed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = errors._DECIDED_BEFORE_APPEND | {ErrorCode.NOT_COORDINATOR}
    monkeypatch.setattr(errors, "_DECIDED_BEFORE_APPEND", decided)
    assert "refused, but written" in _caught(check_transactions)


def test_mutant_an_epoch_kept_after_a_doubt_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late write of an aborted transaction ends up in the next one."""
    monkeypatch.setattr(ProducerCore, "_renew", _renew_only_once)
    _caught(lambda faults: check_transactions(faults, transaction_version=1))


def _renew_only_once(self: ProducerCore) -> Step[None]:
    if self.identity is None:
        assert self._transactions is not None
        self._take((yield from self._transactions.init(None)))
    self._doubtful = False
    self.state = State.READY


def _caught(check: Callable[[Sequence[Fault]], None]) -> str:
    """What is wrong under some faults out of many."""
    for seed in range(MUTANT_SEEDS):
        rng = random.Random(seed)
        bursts = [[rng.choice(list(Fault))] * rng.randint(1, LONGEST_BURST) for _ in range(12)]
        try:
            check([fault for burst in bursts for fault in burst])
        except AssertionError as error:
            return str(error)
    pytest.fail(f"{MUTANT_SEEDS} seeds do not show the mutant")


# -------------------------------------------------------------------------------- the promises


def check_idempotent(faults: Sequence[Fault]) -> None:
    broker = ModelBroker(faults, transaction_version=2)
    producer = broker.script.core.producer(None, transaction_timeout_ms=1, retry=RETRY)
    outcomes = Outcomes()
    for number in range(WRITES):
        value = b"%d" % number
        if producer.state is not State.READY and not _try(broker, producer.initialize()):
            continue
        try:
            done = broker.script.run(producer.append(EVENTS_0, records(value)))
        except asyncio.CancelledError:
            outcomes.unknown.append(value)
        except (ClientError, KafkaError) as error:
            (outcomes.unknown if maybe_applied(error) else outcomes.refused).append(value)
        else:
            outcomes.acknowledged.append(value)
            assert done.base_offset is not None
            assert broker.log[done.base_offset] == value, "acknowledged where another one stands"
    broker.flush()
    _check(outcomes, broker.log)


def check_transactions(faults: Sequence[Fault], transaction_version: int = 2) -> None:
    broker = ModelBroker(faults, transaction_version=transaction_version)
    outcomes = Outcomes()
    producer = _new_producer(broker)
    transactions = []
    for number in range(TRANSACTIONS):
        values = [b"%d.%d" % (number, part) for part in range(2)]
        transactions.append(values)
        if producer.state is not State.READY:
            producer = _new_producer(broker)
        if producer.state is not State.READY and not _try(broker, producer.initialize()):
            continue
        producer.begin()
        appends = [producer.append(EVENTS_0, records(value)) for value in values]
        written = all(_try(broker, append) for append in appends)
        if not written or number % 3 == 2:
            outcomes.refused += values
            _try(broker, producer.abort())
            continue
        _commit(broker, producer, values, outcomes)
    broker.flush()
    _check(outcomes, broker.visible)
    for values in transactions:
        assert len({value in broker.visible for value in values}) == 1, "seen in part"


def _commit(
    broker: ModelBroker, producer: ProducerCore, values: list[bytes], outcomes: Outcomes
) -> None:
    """Commits; where it is in doubt, once more; where it surely failed, gives up."""
    for _ in range(2):
        try:
            broker.script.run(producer.commit())
        except asyncio.CancelledError:
            continue
        except (ClientError, KafkaError) as error:
            if not maybe_applied(error):
                outcomes.refused += values
                if producer.state is State.IN_TRANSACTION:
                    _try(broker, producer.abort())
                return
            if producer.state is not State.COMMITTING:
                break
        else:
            outcomes.acknowledged += values
            return
    outcomes.unknown += values


def _new_producer(broker: ModelBroker) -> ProducerCore:
    return broker.script.core.producer("tx", transaction_timeout_ms=1, retry=RETRY)


def _try(broker: ModelBroker, step: Step[object]) -> bool:
    try:
        broker.script.run(step)
    except (ClientError, KafkaError, asyncio.CancelledError):
        return False
    return True


def _check(outcomes: Outcomes, log: list[bytes]) -> None:
    counts = Counter(log)
    assert all(counts[value] == 1 for value in outcomes.acknowledged), "acknowledged, but not once"
    assert not any(counts[value] for value in outcomes.refused), "refused, but written"
    assert all(counts[value] <= 1 for value in outcomes.unknown), "written twice"
