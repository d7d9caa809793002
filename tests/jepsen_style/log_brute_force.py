"""The models of the log checker by their definitions: every order is tried. Slow, and simple."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jepsen_style.checkers.log_history import FINAL_READ, LogModel, LogOperation
from jepsen_style.operations import Status

CONTROL = None
NEVER = 1 << 40
IMPOSSIBLE = 1 << 40

Slots = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens at one moment: one record is appended, or one read looks at the log."""

    operation: LogOperation
    value: int | None = None
    offset: int | None = None
    t_return_ns: int = NEVER
    is_optional: bool = False

    @property
    def is_acknowledged(self) -> bool:
        return self.value is not None and self.operation.status is Status.OK


def is_explained(
    operations: Sequence[LogOperation], model: LogModel, *, compacted: bool = False
) -> bool:
    """Whether some order explains every answer."""
    any_will_do = IMPOSSIBLE - 1
    lost = fewest_lost(operations, model, compacted=compacted, good_enough=any_will_do)
    return lost < IMPOSSIBLE


def fewest_lost(
    operations: Sequence[LogOperation],
    model: LogModel,
    *,
    compacted: bool = False,
    good_enough: int = 0,
) -> int:
    """Acknowledged records that are left out, in the order that leaves out the fewest.

    The search ends with the first order that is good enough.
    """
    steps = _steps(operations, model)
    named = {
        offset
        for each in operations
        if each.is_read and each.status is Status.OK
        for offset in each.control_offsets
    }
    must = frozenset(index for index, each in enumerate(steps) if not each.is_optional)
    before = [
        frozenset(j for j in must if _precedes(steps[j], steps[i], model))
        for i in range(len(steps))
    ]

    @cache
    def search(slots: Slots, left: frozenset[int]) -> int:
        best = IMPOSSIBLE
        if not left & must:
            best = sum(steps[index].is_acknowledged for index in left)
        for index in left:
            if best <= good_enough:
                break
            if left & before[index]:
                continue
            after = _take(slots, steps[index], compacted=compacted)
            if after is not None:
                best = min(best, search(after, left - {index}))
        if best > good_enough and len(slots) in named:
            best = min(best, search((*slots, CONTROL), left))
        return best

    return search((), frozenset(range(len(steps))))


def _steps(operations: Sequence[LogOperation], model: LogModel) -> list[Step]:
    steps = []
    for each in operations:
        if each.is_read and each.status is Status.OK:
            steps.append(Step(operation=each, t_return_ns=each.t_return_ns or 0))
        if each.is_read or each.status is Status.FAIL:
            continue
        offsets = each.record_offsets if each.status is Status.OK else None
        optional = each.status is Status.INFO or model is LogModel.ACKS1
        for number, value in enumerate(each.values):
            steps.append(
                Step(
                    operation=each,
                    value=value,
                    offset=None if offsets is None else offsets[number],
                    t_return_ns=NEVER if optional else each.t_return_ns or 0,
                    is_optional=optional,
                )
            )
    return steps


def _precedes(one: Step, other: Step, model: LogModel) -> bool:
    if one.t_return_ns >= other.operation.t_invoke_ns:
        return False
    if model is LogModel.STRICT_LOG or other.operation.f in ("append", FINAL_READ):
        return True
    mine, yours = one.operation, other.operation
    same_session = (mine.process, mine.session) == (yours.process, yours.session)
    return mine.f != "append" and same_session


def _take(slots: Slots, step: Step, *, compacted: bool) -> Slots | None:
    if step.value is not None:
        fits = step.offset is None or step.offset == len(slots)
        return (*slots, step.value) if fits else None
    return slots if _sees(step.operation, slots, compacted=compacted) else None


def _sees(read: LogOperation, slots: Slots, *, compacted: bool) -> bool:
    """Whether this is an answer that the log gives in this state."""
    told_end = read.high_watermark
    passed_nothing = not read.values and not read.control_offsets
    if read.f == FINAL_READ and told_end is None and passed_nothing:
        told_end = read.start_offset
    if told_end is not None and told_end != len(slots):
        return False
    at = list(read.record_offsets or ())
    if at != sorted(set(at)) or any(offset < read.start_offset for offset in at):
        return False
    told: dict[int, int | None] = dict(zip(at, read.values, strict=True))
    if told.keys() & set(read.control_offsets):
        return False
    told.update((offset, CONTROL) for offset in read.control_offsets)
    end = max((offset + 1 for offset in told), default=read.start_offset)
    if end > len(slots) or any(slots[offset] != thing for offset, thing in told.items()):
        return False
    passed = slots[read.start_offset : end]
    return compacted or all(
        thing is CONTROL or read.start_offset + number in told
        for number, thing in enumerate(passed)
    )
