"""The machine can fail: each rule that is left out is caught, and by a check that has a name.

Which check comes first depends on the life that Hypothesis thinks of; the one beside a mutant is
the one that says what is wrong with it.

A mutant replaces a function wherever it was imported; the product has no switch for it.
"""

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from floodmark.invariant import InvariantViolation
from quorum.metadata import brokers, elections, image, isr, partition_change, requests, speculation
from quorum.metadata.commands import Command, IsrMember, Refused, RegisterBroker
from quorum.metadata.heartbeats import Heartbeats
from quorum.metadata.image import Applied, MetadataImage
from quorum.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    decode_batch,
)
from quorum.metadata.result import Result
from quorum.metadata.types import BrokerId, MetadataOffset, PartitionEpoch
from tests.quorum.metadata import controller_machine, invariants
from tests.quorum.metadata.controller_machine import ControllerMachine

NAMES = {
    name
    for module in (controller_machine, invariants)
    for name in re.findall(r'"([a-z][^"\n]{8,})"\)?$', inspect.getsource(module), re.MULTILINE)
}
"""The checks of the machine, by the message that each has."""

SETTINGS = settings(
    max_examples=1500,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)

Plant = Callable[[pytest.MonkeyPatch], None]


def everywhere(monkeypatch: pytest.MonkeyPatch, original: object, mutant: object) -> None:
    """Replaces a function in every module of the metadata that holds it."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("quorum.metadata"):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    monkeypatch.setattr(module, attribute, mutant)


def leader_stays_though_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(
        partition: PartitionRecord, is_candidate: elections.IsCandidate, *, unclean: bool
    ) -> PartitionRecord:
        return partition

    everywhere(monkeypatch, elections.with_new_leader, mutant)


def leader_epoch_is_not_bumped(monkeypatch: pytest.MonkeyPatch) -> None:
    original = partition_change.change_record

    def mutant(old: PartitionRecord, new: PartitionRecord) -> PartitionChangeRecord | None:
        record = original(old, new)
        return record and msgspec.structs.replace(record, leader_epoch=None)

    everywhere(monkeypatch, original, mutant)


def partition_epoch_is_not_bumped(monkeypatch: pytest.MonkeyPatch) -> None:
    original = partition_change.change_record

    def mutant(old: PartitionRecord, new: PartitionRecord) -> PartitionChangeRecord | None:
        record = original(old, new)
        epoch = PartitionEpoch(old.partition_epoch)
        return record and msgspec.structs.replace(record, partition_epoch=epoch)

    everywhere(monkeypatch, original, mutant)


def elr_is_kept_when_min_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(partition: PartitionRecord, effective_min_isr: int) -> PartitionRecord:
        return msgspec.structs.replace(partition, effective_min_isr=effective_min_isr)

    everywhere(monkeypatch, partition_change.with_min_isr, mutant)


def elr_is_kept_when_isr_is_at_min(monkeypatch: pytest.MonkeyPatch) -> None:
    original = partition_change.with_isr

    def mutant(
        partition: PartitionRecord,
        isr: tuple[BrokerId, ...],
        *,
        lost_data: tuple[BrokerId, ...] = (),
    ) -> PartitionRecord:
        after = original(partition, isr, lost_data=lost_data)
        before = (*partition.isr, *partition.elr)
        elr = tuple(b for b in partition.replicas if b in before and b not in isr)
        elr = tuple(b for b in elr if b not in lost_data)
        return msgspec.structs.replace(after, elr=elr, last_known_elr=())

    everywhere(monkeypatch, original, mutant)


def directories_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(
        image: MetadataImage,
        partition: PartitionRecord,
        command: RegisterBroker,
        existing: RegisterBrokerRecord | None,
    ) -> bool:
        return False

    monkeypatch.setattr(brokers, "_lost_data", mutant)


def former_leader_may_leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(
        image: MetadataImage,
        partition: PartitionRecord,
        broker_id: BrokerId,
        heartbeats: Heartbeats,
    ) -> bool:
        return True

    everywhere(monkeypatch, isr.may_leave, mutant)


def member_epochs_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    original = isr._why_ineligible

    def mutant(image: MetadataImage, member: IsrMember, *, joins: bool) -> str | None:
        broker = image.brokers.get(member.broker_id)
        epoch = member.broker_epoch if broker is None else broker.epoch
        return original(image, dataclasses.replace(member, broker_epoch=epoch), joins=joins)

    monkeypatch.setattr(isr, "_why_ineligible", mutant)


def fenced_brokers_join(monkeypatch: pytest.MonkeyPatch) -> None:
    original = isr._why_ineligible

    def mutant(image: MetadataImage, member: IsrMember, *, joins: bool) -> str | None:
        return original(image, member, joins=False)

    monkeypatch.setattr(isr, "_why_ineligible", mutant)


def partition_epochs_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(partition: PartitionRecord, broker_id: BrokerId, change: object) -> Refused | None:
        return None

    monkeypatch.setattr(isr, "_check_epochs", mutant)


def unfenced_before_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(broker: RegisterBrokerRecord, metadata_offset: MetadataOffset) -> bool:
        return True

    monkeypatch.setattr(brokers, "_knows_its_fencing", mutant)


def new_controller_fences_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: Heartbeats, image: MetadataImage, now_ms: int) -> None:
        self.clear()
        self._began_ms = -(10**9)

    monkeypatch.setattr(Heartbeats, "begin", mutant)


def failed_speculation_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(base: MetadataImage, data: bytes, *, offset: MetadataOffset, epoch: int) -> Applied:
        records = decode_batch(data).records if data else ()
        after = base.replay(records, offset=offset, epoch=epoch)
        return Applied(image=after.chained(data) if data else after, accepted=True)

    everywhere(monkeypatch, image.apply_batch, mutant)
    monkeypatch.setattr(speculation, "apply_batch", mutant)
    controller_machine = sys.modules[ControllerMachine.__module__]
    monkeypatch.setattr(controller_machine, "apply_batch", mutant)


def old_leader_is_dropped_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    original = elections.with_preferred_leader

    def mutant(image: MetadataImage, partition: PartitionRecord) -> PartitionRecord | Refused:
        after = original(image, partition)
        if isinstance(after, Refused) or len(after.isr) < 2:
            return after
        stay = tuple(b for b in after.isr if b != partition.leader)
        return partition_change.with_isr(after, stay)

    everywhere(monkeypatch, original, mutant)


def restarted_broker_goes_on_leading(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(
        image: MetadataImage, command: RegisterBroker, existing: RegisterBrokerRecord | None
    ) -> list[Record]:
        return []

    monkeypatch.setattr(brokers, "_leaving_records", mutant)


def shutdown_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that shuts down is fenced before its leaders have moved and it knows."""

    def mutant(image: MetadataImage, broker_id: BrokerId) -> list[Record]:
        return []

    monkeypatch.setattr(brokers, "shutdown_records", mutant)


def requests_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(command: Command, result: Result) -> Result:
        return result

    monkeypatch.setattr(requests, "remember", mutant)


MUTANTS: list[tuple[Plant, str]] = [
    (leader_stays_though_it_left, "a leader is (in the ISR|alive)"),
    (leader_epoch_is_not_bumped, "a new leader has a new epoch|a restart ends a leadership"),
    (partition_epoch_is_not_bumped, "the partition epoch grows by one with every change"),
    (elr_is_kept_when_min_is_lowered, "a lower min empties the ELR|the ELR is empty"),
    (elr_is_kept_when_isr_is_at_min, "the ELR is empty while the ISR is at min"),
    (directories_are_not_compared, "who lost its data is in no ELR"),
    (former_leader_may_leave_at_once, "who leaves the ISR knows the leader"),
    (member_epochs_are_not_checked, "a stale member epoch was taken"),
    (fenced_brokers_join, "who is fenced leads and syncs nothing"),
    (partition_epochs_are_not_compared, "a stale (leader|partition) epoch was taken|only the"),
    (unfenced_before_it_knows, "who is unfenced has read its losses"),
    (new_controller_fences_at_once, "nobody is fenced within its session"),
    (failed_speculation_counts, "the partition epoch grows by one|no such|exists"),
    (old_leader_is_dropped_in_one_step, "no leader is dropped|who leaves the ISR knows"),
    (restarted_broker_goes_on_leading, "who is fenced leads|a new process|who lost its data"),
    (shutdown_does_not_wait, "who is told to stop (led nothing|leads nothing|knows)"),
    (requests_are_forgotten, "a retry has the answer of the first|a retry changes nothing"),
]


@pytest.mark.parametrize(
    ("plant", "caught_by"), MUTANTS, ids=[plant.__name__ for plant, _ in MUTANTS]
)
def test_left_out_rule_is_caught(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, caught_by: str
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, InvariantViolation, KeyError)) as caught:
        run_state_machine_as_test(ControllerMachine, settings=SETTINGS)
    message = str(caught.value)
    assert re.search(caught_by, message) or message in NAMES, message
