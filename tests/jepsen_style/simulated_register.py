"""Histories of a register that behaves, and ways to spoil them.

Clients run against a register in memory, in steps that a random generator picks: invoke, take
effect, return. Every effect lies between its invocation and its return, so what comes out is
linearizable by construction.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from random import Random

from jepsen_style.operations import Operation, Status

FUNCTIONS = ("read", "write", "cas")


@dataclass(slots=True, kw_only=True)
class _Call:
    f: str
    key: int
    value: Hashable
    t_invoke_ns: int
    loses_answer: bool
    done: bool = False
    output: Hashable = None


def linearizable_history(
    random: Random,
    *,
    operations: int,
    processes: int = 5,
    keys: int = 1,
    values: int | None = None,
    functions: tuple[str, ...] = FUNCTIONS,
    unknown_rate: float = 0.1,
) -> list[Operation]:
    """`values` limits the values written; None makes each written value unique.

    A call that loses its answer is of unknown outcome: it takes effect at some later moment, or
    never. Its process goes on under a new number, as a Jepsen client does.
    """
    state: dict[int, Hashable] = {}
    calls: dict[int, _Call] = {}
    lost: list[_Call] = []
    history: list[Operation] = []
    names = list(range(processes))
    next_name, now, started, unique = processes, 0, 0, 0
    while started < operations or calls:
        now += 1
        slot = random.randrange(processes)
        if lost and random.random() < 0.1:
            _take_effect(lost.pop(random.randrange(len(lost))), state)
        call = calls.get(slot)
        if call is None:
            if started == operations:
                continue
            started += 1
            unique += 1
            key = random.randrange(keys)
            new = unique if values is None else random.randrange(values)
            f = random.choice(functions)
            value: Hashable = {"read": None, "write": new}.get(f)
            if f == "cas":
                known = state.get(key)
                expected = known if values is None else random.randrange(values)
                value = (expected, new)
            loses = random.random() < unknown_rate
            calls[slot] = _Call(f=f, key=key, value=value, t_invoke_ns=now, loses_answer=loses)
        elif not call.done and not (call.loses_answer and random.random() < 0.5):
            _take_effect(call, state)
        else:
            del calls[slot]
            history.append(_completed(call, names[slot], now))
            if call.loses_answer:
                names[slot], next_name = next_name, next_name + 1
                if not call.done:
                    lost.append(call)
    return history


def _take_effect(call: _Call, state: dict[int, Hashable]) -> None:
    call.done = True
    held = state.get(call.key)
    match call.f, call.value:
        case "read", _:
            call.output = held
        case "write", value:
            state[call.key] = value
        case "cas", (expected, new):
            call.output = held == expected
            if held == expected:
                state[call.key] = new


def _completed(call: _Call, process: int, now: int) -> Operation:
    return Operation(
        process=process,
        f=call.f,
        key=call.key,
        value=call.value,
        output=None if call.loses_answer else call.output,
        t_invoke_ns=call.t_invoke_ns,
        t_return_ns=None if call.loses_answer else now,
        status=Status.INFO if call.loses_answer else Status.OK,
    )


def with_answer(history: list[Operation], index: int, output: Hashable) -> list[Operation]:
    """The history in which one client was told something else."""
    return [
        replace(each, output=output) if at == index else each for at, each in enumerate(history)
    ]
