"""Registers: one value per key, with `read`, `write` and compare-and-set.

A write stores its value. A read returns the value stored. `cas (expected, new)` stores `new` and
answers True if the value is `expected`, and answers False and stores nothing if it is not. A
refused cas is an answer like any (`ok` with output False), since it says something about the
value; `fail` is for an operation of which nothing is known but that it did not happen.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Literal

from floodmark.invariant import invariant
from jepsen_style.checkers.linearizability import DEFAULT_BUDGET, Budget, by_key, check
from jepsen_style.checkers.model import ILLEGAL, Effect, Illegal, State, Symbol
from jepsen_style.checkers.verdict import Validity, Verdict
from jepsen_style.checkers.zones import judge_zones
from jepsen_style.operations import Operation, Status

MAX_WRITERS_TOLD = 3


class _Value(Enum):
    """Values that no client can write."""

    ANYTHING = "any value"
    UNSEEN = "a value that nobody read"


def check_register(
    operations: Iterable[Operation],
    initial: Hashable = None,
    *,
    budget: Budget = DEFAULT_BUDGET,
) -> Verdict:
    """Judge a history of reads, writes and compare-and-sets on any number of keys.

    Keys without cas whose written values are unique are settled by their zones, in n log n; a few
    operations of the zones that exclude each other are then the evidence. The rest is searched.
    """
    keys = by_key(operations)
    judged = sum(len(each) for each in keys.values())
    model = Register(initial)
    hard: list[Operation] = []
    for each in keys.values():
        zones = judge_zones(each, initial)
        if zones is None:
            hard.extend(each)
        elif not zones.is_linearizable:
            refuted = check(zones.conflict, model)
            invariant(
                refuted.validity is Validity.INVALID,
                "zones and search agree",
                conflict=zones.conflict,
            )
            return replace(refuted, operations=judged)
    return replace(check(hard, model, budget=budget), operations=judged)


class Register:
    """The model. Symbols: (read, v), (write, v), (cas, expected, new), (refused, expected)."""

    def __init__(self, initial: Hashable = None) -> None:
        self._initial = initial

    @property
    def initial(self) -> State:
        return self._initial

    @property
    def anything(self) -> State | None:
        return _Value.ANYTHING

    def step(self, state: State, symbol: Symbol) -> State | Literal[Illegal.ILLEGAL]:
        match symbol:
            case ("write", value):
                return value
            case ("read", value):
                return value if state in (value, _Value.ANYTHING) else ILLEGAL
            case ("cas", expected, new):
                return new if state in (expected, _Value.ANYTHING) else ILLEGAL
            case ("refused", expected):
                return ILLEGAL if state == expected else state
        raise ValueError(f"not a symbol of a register: {symbol!r}")

    def effect(self, symbol: Symbol) -> Effect:
        match symbol:
            case ("write", _):
                return Effect.BLIND
            case ("read" | "refused", _):
                return Effect.PURE
        return Effect.MIXED

    def encode(self, operations: Sequence[Operation]) -> list[Symbol | None]:
        """An operation of unknown outcome whose value no answer depends on is dropped.

        It could help only to explain a refused cas, by holding any other value at that moment.
        Where there are such answers, all these operations write the same value, UNSEEN.
        """
        plain = [_plain_symbol(operation) for operation in operations]
        named, refused = _named_values(operations, plain)
        symbols: list[Symbol | None] = []
        for operation, symbol in zip(operations, plain, strict=True):
            if operation.status is Status.OK:
                symbols.append(symbol)
                continue
            match symbol:
                case ("write", value):
                    known = value in named
                    replaced: Symbol = ("write", value if known else _Value.UNSEEN)
                    symbols.append(replaced if known or refused else None)
                case ("cas", expected, new):
                    known = new in named
                    replaced = ("cas", expected, new if known else _Value.UNSEEN)
                    symbols.append(replaced if known or refused else None)
                case _:
                    symbols.append(None)
        return symbols

    def separable(self, operations: Sequence[Operation]) -> list[list[int]]:
        """All operations on a set of values that no successful cas connects with another.

        Without them the register goes from the value before to the value after, which nobody can
        tell, but for a cas that was refused: those go first, all of them.
        """
        symbols = [_plain_symbol(operation) for operation in operations]
        refused = [
            index
            for index, symbol in enumerate(symbols)
            if symbol is not None and symbol[0] == "refused"
        ]
        if refused:
            return [refused]
        leader: dict[Hashable, Hashable] = {}

        def find(value: Hashable) -> Hashable:
            while leader.setdefault(value, value) != value:
                value = leader[value]
            return value

        for symbol in symbols:
            if symbol is not None and symbol[0] == "cas":
                leader[find(symbol[1])] = find(symbol[2])
        groups: dict[Hashable, list[int]] = {}
        for index, symbol in enumerate(symbols):
            if symbol is not None:
                groups.setdefault(find(symbol[1]), []).append(index)
        return list(groups.values())

    def describe_state(self, state: State) -> str:
        return state.value if isinstance(state, _Value) else repr(state)

    def remarks(self, culprit: Operation, operations: Sequence[Operation]) -> list[str]:
        """Where the value came from that the culprit was told, or that it needed."""
        match _plain_symbol(culprit):
            case ("read", value) | ("cas", value, _):
                wanted = value
            case _:
                return []
        last_ns = culprit.t_return_ns or 0
        writers = sorted(
            (each for each in operations if each != culprit and _written(each) == (wanted,)),
            key=lambda each: -each.t_invoke_ns,
        )
        in_time = [each for each in writers if each.t_invoke_ns <= last_ns]
        remarks = [f"{wanted!r}: {each.describe()}" for each in in_time[:MAX_WRITERS_TOLD]]
        if len(in_time) > MAX_WRITERS_TOLD:
            remarks.append(f"{wanted!r}: written {len(in_time) - MAX_WRITERS_TOLD} times before")
        if writers and not in_time:
            remarks.append(f"{wanted!r} was first written later: {writers[-1].describe()}")
        if wanted == self._initial:
            remarks.append(f"{wanted!r}: the initial value")
        return remarks or [f"{wanted!r} was never written"]


def _plain_symbol(operation: Operation) -> tuple[Hashable, ...] | None:
    """What the operation does by itself, or None for a read that was told nothing."""
    is_ok = operation.status is Status.OK
    match operation.f, operation.value:
        case "read", _:
            return ("read", operation.output) if is_ok else None
        case "write", value:
            return ("write", value)
        case "cas", (expected, new):
            if is_ok and not isinstance(operation.output, bool):
                raise ValueError(f"a cas that is ok answers True or False: {operation.describe()}")
            swapped = not is_ok or operation.output is True
            return ("cas", expected, new) if swapped else ("refused", expected)
    raise ValueError(f"not an operation of a register: {operation.describe()}")


def _written(operation: Operation) -> tuple[Hashable, ...]:
    match _plain_symbol(operation):
        case ("write", value) | ("cas", _, value):
            return (value,)
    return ()


def _named_values(
    operations: Sequence[Operation], symbols: Sequence[tuple[Hashable, ...] | None]
) -> tuple[set[Hashable], bool]:
    """The values that some answer depends on, and whether any cas was refused."""
    named: set[Hashable] = set()
    refused = False
    sources: dict[Hashable, list[Hashable]] = {}
    for operation, symbol in zip(operations, symbols, strict=True):
        match symbol:
            case ("refused", expected):
                refused = True
                named.add(expected)
            case ("read", value):
                named.add(value)
            case ("cas", expected, new):
                if operation.status is Status.OK:
                    named.add(expected)
                else:
                    sources.setdefault(new, []).append(expected)
    if refused:
        # Any cas of unknown outcome may have made way for a refusal.
        return named.union(*sources.values()), refused
    reached = list(named)
    while reached:
        for expected in sources.pop(reached.pop(), ()):
            if expected not in named:
                named.add(expected)
                reached.append(expected)
    return named, refused
