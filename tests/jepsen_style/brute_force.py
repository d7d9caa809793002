"""Linearizability by trying every order: slow, and too simple to be wrong."""

from collections.abc import Hashable, Sequence

from jepsen_style.operations import Operation, Status


def is_linearizable(operations: Sequence[Operation], initial: Hashable = None) -> bool:
    """Of one register, by the definition: some order respects the times and explains the answers.

    An order is built from its beginning and given up where it explains an answer no longer.
    """
    happened = [each for each in operations if each.status is not Status.FAIL]
    dead_ends: set[tuple[Hashable, frozenset[int]]] = set()

    def completes(held: Hashable, left: frozenset[int]) -> bool:
        if all(happened[index].status is Status.INFO for index in left):
            return True
        if (held, left) in dead_ends:
            return False
        for index in left:
            if any(_precedes(happened[other], happened[index]) for other in left):
                continue
            allowed, after = _take(held, happened[index])
            if allowed and completes(after, left - {index}):
                return True
        dead_ends.add((held, left))
        return False

    return completes(initial, frozenset(range(len(happened))))


def is_linearizable_from_some_state(operations: Sequence[Operation]) -> bool:
    """From any value that the operations name, or from one that they do not."""
    states: set[Hashable] = {"a value that nobody names"}
    for each in operations:
        states.update(each.value if isinstance(each.value, tuple) else (each.value,))
        states.add(each.output)
    return any(is_linearizable(operations, state) for state in states)


def _precedes(one: Operation, other: Operation) -> bool:
    return (
        one.status is Status.OK
        and one.t_return_ns is not None
        and one.t_return_ns < other.t_invoke_ns
    )


def _take(held: Hashable, operation: Operation) -> tuple[bool, Hashable]:
    """Whether the answer is the one that the register gives, and what it holds then."""
    is_ok = operation.status is Status.OK
    match operation.f, operation.value:
        case "read", _:
            return not is_ok or operation.output == held, held
        case "write", value:
            return True, value
        case "cas", (expected, new):
            swaps = held == expected
            return not is_ok or operation.output == swaps, new if swaps else held
    raise ValueError(f"not an operation of a register: {operation.describe()}")
