"""Histories of logs: made by hand, by a simulated log, and by chance."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from jepsen_style.checkers.log_history import APPEND, FINAL_READ, READ, LogModel, LogOperation
from jepsen_style.operations import Status

MAX_RECORDS = 6
"""Of a small history, give or take one: brute force takes them in every order."""


def append(
    *values: int,
    at: int | None = None,
    t: tuple[int, int | None],
    status: Status | None = None,
    offsets: tuple[int, ...] | None = None,
    process: int = 0,
    partition: int = 0,
) -> LogOperation:
    """An append invoked at t[0]; one that does not return is of unknown outcome."""
    return LogOperation(
        process=process,
        f=APPEND,
        topic="t",
        partition=partition,
        status=status or (Status.INFO if t[1] is None else Status.OK),
        t_invoke_ns=t[0],
        t_return_ns=t[1],
        base_offset=at,
        offsets=offsets,
        values=values,
    )


def read(
    *values: int,
    start: int | None = 0,
    end: int | None = None,
    t: tuple[int, int],
    offsets: tuple[int, ...] | None = None,
    control: tuple[int, ...] = (),
    final: bool = False,
    status: Status = Status.OK,
    process: int = 0,
    session: int = 0,
    partition: int = 0,
) -> LogOperation:
    """A read that begins at `start` and is told that the log ends at `end`."""
    return LogOperation(
        process=process,
        session=session,
        f=FINAL_READ if final else READ,
        topic="t",
        partition=partition,
        status=status,
        t_invoke_ns=t[0],
        t_return_ns=t[1],
        base_offset=start,
        offsets=offsets,
        control_offsets=control,
        values=values,
        high_watermark=end,
    )


@dataclass(kw_only=True)
class _Call:
    operation: LogOperation
    unwritten: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    is_answered: bool = False


@dataclass(kw_only=True)
class SimulatedLog:
    """Clients that call a log which behaves as a model says; what they are told is the history."""

    random: Random
    model: LogModel
    operations: int
    processes: int = 3
    unknown_rate: float = 0.2
    control_rate: float = 0.1
    max_batch: int = 2
    max_records: int | None = None
    compacted: bool = False
    slots: list[int | None] = field(default_factory=list)
    history: list[LogOperation] = field(default_factory=list)
    now_ns: int = 0
    next_value: int = 0
    longest_read: int = 0
    lingering: list[int] = field(default_factory=list)
    """Records of appends that were given up: they may be written later."""
    calls: dict[int, _Call] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)

    def run(self) -> list[LogOperation]:
        invoked = 0
        while invoked < self.operations or self.calls:
            self.now_ns += self.random.randrange(3)
            self._meddle()
            process = self.random.randrange(self.processes)
            call = self.calls.get(process)
            if call is not None:
                self._go_on(process, call)
            elif invoked < self.operations:
                self.calls[process] = self._invoke(process)
                invoked += 1
        return self.history

    def read_to_the_end(self, *, told_end: bool = True) -> None:
        """The last phase: everything is read by a new client, until nothing comes."""
        position, done = 0, False
        while not done:
            self.now_ns += 2
            call = _Call(operation=self._call(READ, self.processes))
            self._answer(call, position, len(self.slots), told_end=told_end)
            done = position == len(self.slots)
            self.now_ns += 2
            position = call.operation.end_offset
            self.history.append(
                replace(call.operation, f=FINAL_READ, status=Status.OK, t_return_ns=self.now_ns)
            )

    def _meddle(self) -> None:
        if self.random.random() < self.control_rate / 2:
            self.slots.append(None)
        if self.lingering and self.random.random() < 0.2:
            at = self.random.randrange(len(self.lingering))
            self.slots.append(self.lingering.pop(at))
        if self.model is LogModel.ACKS1 and self.random.random() < 0.1:
            del self.slots[self.random.randint(self.longest_read, len(self.slots)) :]

    def _invoke(self, process: int) -> _Call:
        is_full = self.max_records is not None and self.next_value >= self.max_records
        if is_full or self.random.random() < 0.5:
            return _Call(operation=self._call(READ, process))
        count = self.random.randint(1, self.max_batch)
        values = tuple(range(self.next_value, self.next_value + count))
        self.next_value += count
        return _Call(
            operation=replace(self._call(APPEND, process), values=values), unwritten=list(values)
        )

    def _call(self, f: str, process: int) -> LogOperation:
        return LogOperation(
            process=process,
            f=f,
            topic="t",
            partition=0,
            status=Status.INFO,
            t_invoke_ns=self.now_ns,
        )

    def _go_on(self, process: int, call: _Call) -> None:
        if self.random.random() < self.unknown_rate / 2:
            del self.calls[process]
            unheard = not call.offsets and self.random.random() < 0.3
            status = Status.FAIL if unheard else Status.INFO
            given_up = replace(call.operation, t_return_ns=self.now_ns)  # a time-out, say
            self.history.append(_unanswered(given_up, status))
            if status is Status.INFO:
                self.lingering += call.unwritten
        elif call.unwritten:
            call.offsets.append(len(self.slots))
            self.slots.append(call.unwritten.pop(0))
        elif call.operation.is_read and not call.is_answered:
            end = self._visible_end(process)
            self._answer(call, self.random.randint(0, end), end)
        else:
            del self.calls[process]
            told = self._acknowledged(call) if call.offsets else call.operation
            self.history.append(replace(told, status=Status.OK, t_return_ns=self.now_ns))

    def _acknowledged(self, call: _Call) -> LogOperation:
        if self.random.random() < self.unknown_rate / 2:
            return call.operation  # acknowledged, and the client was not told where
        contiguous = call.offsets == list(range(call.offsets[0], call.offsets[-1] + 1))
        return replace(
            call.operation,
            base_offset=call.offsets[0],
            offsets=None if contiguous else tuple(call.offsets),
        )

    def _visible_end(self, process: int) -> int:
        end = len(self.slots)
        if self.model is not LogModel.STRICT_LOG:
            end = self.random.randint(self.reached.get(process, 0), end)
            self.reached[process] = end
        self.longest_read = max(self.longest_read, end)
        return end

    def _answer(self, call: _Call, start: int, end: int, *, told_end: bool | None = None) -> None:
        call.is_answered = True
        last = min(end, start + self.random.randint(1, 3))
        offsets, values, control = [], [], []
        for offset in range(start, last):
            value = self.slots[offset]
            if value is None:
                control.append(offset)
            elif told_end is not None or not self.compacted or self.random.random() < 0.8:
                offsets.append(offset)
                values.append(value)
        contiguous = offsets == list(range(start, start + len(offsets)))
        if told_end is None:
            told_end = self.random.random() < 0.7
        call.operation = replace(
            call.operation,
            base_offset=start,
            offsets=None if contiguous else tuple(offsets),
            values=tuple(values),
            control_offsets=tuple(control),
            high_watermark=end if told_end else None,
        )


def _unanswered(operation: LogOperation, status: Status) -> LogOperation:
    answer = operation.values if not operation.is_read else ()
    return replace(
        operation,
        status=status,
        values=answer,
        base_offset=None,
        offsets=None,
        control_offsets=(),
        high_watermark=None,
    )


def small_histories(
    seed: int, count: int, model: LogModel, *, compacted: bool = False
) -> Iterator[list[LogOperation]]:
    """A third is noise, a third is what the model's log does, a third is that, spoiled once."""
    random = Random(seed)
    for number in range(count):
        if number % 3 == 0:
            yield _noise(random)
            continue
        simulated = SimulatedLog(
            random=random,
            model=model,
            operations=random.randint(2, 6),
            max_records=MAX_RECORDS,
            unknown_rate=random.choice((0.0, 0.2, 0.5)),
            control_rate=random.choice((0.0, 0.0, 0.2)),
            compacted=compacted,
        )
        history = simulated.run()
        if None in simulated.slots or random.random() < 0.3:  # some reader names control batches
            simulated.read_to_the_end(told_end=random.random() < 0.5)
        yield history if number % 3 == 1 else spoiled(random, history)


def spoiled(random: Random, history: list[LogOperation]) -> list[LogOperation]:
    """The history with one operation told, timed or ended in another way, or gone."""
    index = random.randrange(len(history))
    changed = list(history)
    operation = changed.pop(index)
    if random.random() < 0.85:
        changed.insert(index, _spoiled(random, operation))
    return changed


def _spoiled(random: Random, operation: LogOperation) -> LogOperation:
    shift = random.choice((-2, -1, 1, 2))
    base = max(0, (operation.base_offset or 0) + shift)
    match random.randrange(7):
        case 0 if operation.high_watermark is not None:
            return replace(operation, high_watermark=max(0, operation.high_watermark + shift))
        case 1 if operation.base_offset is not None:
            placed = operation.record_offsets if random.random() < 0.5 else operation.offsets
            return replace(
                operation,
                base_offset=base,
                offsets=tuple(placed) if placed is not None and operation.is_read else None,
            )
        case 2 if operation.is_read and operation.values:
            if operation.offsets is None:
                return replace(operation, values=operation.values[:-1])
            return replace(operation, values=operation.values[1:], offsets=operation.offsets[1:])
        case 3 if operation.is_read and operation.values:
            offsets = tuple(operation.record_offsets or ())
            return replace(
                operation,
                values=(*operation.values, operation.values[-1]),
                offsets=(*offsets, offsets[-1]),
            )
        case 3 if operation.status is Status.OK and not operation.is_read:
            status = random.choice((Status.INFO, Status.FAIL))
            return replace(operation, status=status, base_offset=None, offsets=None)
        case 4 if operation.is_read and operation.values:
            offsets = tuple(operation.record_offsets or ())
            return replace(
                operation,
                values=operation.values[:-1],
                offsets=offsets[:-1],
                control_offsets=(*operation.control_offsets, offsets[-1]),
            )
        case 4 if operation.control_offsets:
            return replace(operation, control_offsets=operation.control_offsets[1:])
        case 5 if operation.is_read and operation.values:
            offsets = tuple(operation.record_offsets or ())
            return replace(
                operation,
                values=(*operation.values, operation.values[-1]),
                offsets=(*offsets, offsets[-1] + 1),
                high_watermark=None,
            )
    later = random.choice((-6, -3, 3, 6))
    end_ns = operation.t_return_ns
    return replace(
        operation,
        t_invoke_ns=operation.t_invoke_ns + later,
        t_return_ns=None if end_ns is None else end_ns + later,
    )


def _noise(random: Random) -> list[LogOperation]:
    return _wild(random) if random.random() < 0.3 else _mistimed(random)


def _mistimed(random: Random) -> list[LogOperation]:
    """Answers that agree about one log, at times that need not fit."""
    values = list(range(random.randint(1, 4)))
    slots: list[int | None] = random.sample(values, random.randint(1, len(values)))
    if random.random() < 0.2:
        slots.insert(random.randint(0, len(slots)), None)
    history = []
    for value in values:
        begin = random.randrange(8)
        at = slots.index(value) if value in slots and random.random() < 0.6 else None
        is_ok = at is not None or random.random() < 0.4
        returned = begin + random.randrange(4) if is_ok else None
        history.append(append(value, at=at, t=(begin, returned), process=value))
    sessions, final_rate = random.choice((1, 2)), random.choice((0.2, 0.5))
    for _ in range(random.randint(1, 4)):
        begin = random.randrange(12)
        end = random.randint(0, len(slots))
        start = random.randint(0, end)
        passed = range(start, random.randint(start, end))
        records = {at: record for at in passed if (record := slots[at]) is not None}
        history.append(
            read(
                *records.values(),
                start=start,
                end=random.choice((None, end, end)),
                t=(begin, begin + random.randrange(4)),
                offsets=tuple(records),
                control=tuple(at for at in passed if slots[at] is None),
                final=random.random() < final_rate,
                process=random.randrange(sessions),
                session=random.randrange(sessions),
            )
        )
    return history


def _wild(random: Random) -> list[LogOperation]:
    history = []
    for number in range(random.randint(1, 5)):
        begin = random.randrange(10)
        end = begin + random.randrange(5)
        if random.random() < 0.5:
            status = random.choice((Status.OK, Status.OK, Status.INFO, Status.FAIL))
            at = random.choice((None, *range(4))) if status is Status.OK else None
            history.append(append(number, at=at, t=(begin, end), status=status, process=number))
        else:
            count = random.choice((0, 1, 1, 2))
            start = random.randrange(3)
            spread = tuple(random.randrange(start, 4) for _ in range(count))
            history.append(
                read(
                    *(random.randrange(5) for _ in range(count)),
                    start=start,
                    end=random.choice((None, *range(5))),
                    t=(begin, end),
                    offsets=random.choice((None, None, None, spread)),
                    control=random.choice(((), (), (), (random.randrange(4),))),
                    final=random.random() < 0.2,
                    process=random.randrange(2),
                )
            )
    return history
