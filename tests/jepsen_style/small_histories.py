"""Histories of one register that are small enough for the brute-force checker."""

from collections.abc import Hashable, Iterator
from random import Random

from jepsen_style.operations import Operation, Status
from tests.jepsen_style.simulated_register import FUNCTIONS, linearizable_history, with_answer

VALUES = 3


def op(
    f: str,
    begin: int,
    end: int | None,
    *,
    value: Hashable = None,
    output: Hashable = None,
    key: Hashable = None,
    status: Status | None = None,
) -> Operation:
    """An operation of a process of its own; one without an end is of unknown outcome."""
    if status is None:
        status = Status.INFO if end is None else Status.OK
    return Operation(
        process=begin,
        f=f,
        key=key,
        value=value,
        output=output,
        t_invoke_ns=begin,
        t_return_ns=end,
        status=status,
    )


def small_histories(seed: int, count: int) -> Iterator[list[Operation]]:
    """A third is noise, a third is what a register does, a third is that with one answer spoiled.

    All have unknown outcomes and compare-and-sets; the same seed gives the same histories.
    """
    random = Random(seed)
    for number in range(count):
        if number % 3 == 0:
            yield [_noise(random) for _ in range(random.randrange(1, 8))]
            continue
        history = linearizable_history(
            random,
            operations=random.randrange(3, 10),
            processes=random.randrange(2, 5),
            values=VALUES,
            unknown_rate=random.choice((0.0, 0.2, 0.4)),
        )
        yield history if number % 3 == 1 else spoiled(random, history)


def _noise(random: Random) -> Operation:
    begin = random.randrange(12)
    end = None if random.random() < 0.3 else begin + random.randrange(6)
    f = random.choice(FUNCTIONS)
    pair = (random.randrange(VALUES), random.randrange(VALUES))
    value: Hashable = {"read": None, "write": pair[0], "cas": pair}[f]
    return op(f, begin, end, value=value, output=None if end is None else _answer(random, f))


def spoiled(random: Random, history: list[Operation]) -> list[Operation]:
    """The history in which one client was told something else, or the same by chance."""
    answered = [
        index
        for index, each in enumerate(history)
        if each.status is Status.OK and each.f != "write"
    ]
    if not answered:
        return history
    index = random.choice(answered)
    return with_answer(history, index, _answer(random, history[index].f))


def _answer(random: Random, f: str) -> Hashable:
    answers: dict[str, Hashable] = {
        "read": random.choice((None, *range(VALUES))),
        "write": None,
        "cas": random.random() < 0.5,
    }
    return answers[f]
