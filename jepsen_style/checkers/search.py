"""The search for a linearization of the operations of one object.

The algorithm is Wing and Gong's with Lowe's memoization ("Testing for linearizability", 2017):
depth first, linearize any operation that was invoked before the first outstanding return, take it
back where nothing follows, and never enter the same configuration twice. Invocations and returns
are a doubly linked list in arrays, so that taking an operation out and back in costs nothing. No
recursion, no randomness, no hash in place of a set: a verdict is exact and repeatable.

A configuration is the set of linearized operations and the state. The set is kept small: the ok
operations are numbered by invocation, all below `base` are linearized, `mask` holds those above;
operations of unknown outcome are counted by symbol, since of two alike the one invoked first can
always be taken first.

Four rules cut the search and change no verdict:

- A PURE operation that is legal is linearized at once, without alternatives.
- An operation of unknown outcome comes last among the alternatives, must change the state, and is
  never followed by a BLIND one: without it, the rest would be a linearization as well. So writes
  that timed out and that nobody saw cost nothing.
- A configuration is skipped if one was entered before that differs only in having used fewer
  operations of unknown outcome: it can do whatever this one can.
- Symbols and states are interned, and every transition is asked of the model once.
"""

from collections.abc import Sequence
from enum import Enum

from jepsen_style.checkers.model import ILLEGAL, Effect, Model, State, Symbol
from jepsen_style.operations import Operation, Status

# What a remembered configuration takes at least: a key of three numbers, its entry, its value.
BYTES_PER_CONFIGURATION = 320
MAX_STATES_KEPT = 8

_MAYBE_LATER = -1
"""Among the choices: the operations of unknown outcome, looked up once all else has failed."""


class Outcome(Enum):
    LINEARIZABLE = "linearizable"
    NOT_LINEARIZABLE = "not linearizable"
    OUT_OF_STEPS = "out of steps"
    OUT_OF_MEMORY = "out of memory"


class Search:
    """One search, which can be interrupted after any number of steps and go on later."""

    def __init__(self, operations: Sequence[Operation], model: Model, *, initial: State) -> None:
        self._model = model
        self._transitions = _Transitions(model, initial)
        self._load(operations)
        self.steps = 0
        self.memory_bytes = 0
        self.outcome: Outcome | None = Outcome.LINEARIZABLE if not self._required else None
        # The configuration.
        self._state = 0
        self._base = 0
        self._mask = 0
        self._used = 0
        self._linearized = 0
        # What leads back: before each move the configuration, and what has not been tried there.
        self._moves: list[tuple[int, int, int, int, int]] = []
        self._choices: list[list[int]] = []
        self._seen: dict[tuple[int, int, int], tuple[int, ...]] = {}
        # The latest return that no configuration got past, and the states in which they stood.
        self._furthest = 0
        self._furthest_states: dict[int, None] = {}
        if self.outcome is None:
            self._choices.append(self._alternatives())

    @property
    def culprit(self) -> Operation:
        """The operation at whose return the last configuration died, so far."""
        return self._required[self._operation_at[self._furthest]]

    @property
    def possible_states(self) -> list[State]:
        """States in which configurations stood at the culprit's return; some, in order."""
        return [self._transitions.states[state] for state in self._furthest_states]

    def run(self, *, max_steps: int, max_memory_bytes: int) -> Outcome:
        """Go on until there is an outcome, or until all steps so far are `max_steps`."""
        choices = self._choices
        while self.outcome is None:
            if self.steps >= max_steps:
                return Outcome.OUT_OF_STEPS
            if self.memory_bytes >= max_memory_bytes:
                return Outcome.OUT_OF_MEMORY
            here = choices[-1]
            if not here:
                choices.pop()
                if not choices:
                    self.outcome = Outcome.NOT_LINEARIZABLE
                    break
                self._take_back()
                continue
            choice = here.pop()
            if choice == _MAYBE_LATER:
                here.extend(self._unknown_outcomes())
            elif self._advance(choice):
                if self._linearized == len(self._required):
                    self.outcome = Outcome.LINEARIZABLE
                    break
                choices.append(self._alternatives())
        return self.outcome

    # ------------------------------------------------------------------------------- the moves

    def _alternatives(self) -> list[int]:
        """What can be linearized next; the last is tried first."""
        following, operation_at, is_call = self._following, self._operation_at, self._is_call
        state = self._state
        after_unknown = self._used & 1
        targets = self._transitions.targets[state]
        legal: list[int] = []
        at = following[0]
        while is_call[at]:
            operation = operation_at[at]
            at = following[at]
            self.steps += 1
            symbol = self._symbols[operation]
            target = targets.get(symbol)
            if target is None:
                target = self._transitions.compute(state, symbol)
            if target < 0:
                continue
            effect = self._effects[symbol]
            if effect is Effect.PURE and target == state:
                return [operation]
            if not (after_unknown and effect is Effect.BLIND):
                legal.append(operation)
        if at >= self._furthest:
            if at > self._furthest:
                self._furthest = at
                self._furthest_states.clear()
            if len(self._furthest_states) < MAX_STATES_KEPT:
                self._furthest_states[state] = None
        if self._unknown:
            legal.append(_MAYBE_LATER)
        legal.reverse()
        return legal

    def _unknown_outcomes(self) -> list[int]:
        """The choices (numbers beyond the ok operations) of operations of unknown outcome."""
        following, is_call = self._following, self._is_call
        at = following[0]
        while is_call[at]:
            at = following[at]
        deadline_ns = self._time_ns[at]
        after_unknown = self._used & 1
        legal: list[int] = []
        for number, (symbol, times_ns) in enumerate(self._unknown):
            self.steps += 1
            count = self._counts[number]
            if count == len(times_ns) or times_ns[count] > deadline_ns:
                continue
            target = self._transitions.target(self._state, symbol)
            if target < 0 or target == self._state:
                continue
            if not (after_unknown and self._effects[symbol] is Effect.BLIND):
                legal.append(len(self._required) + number)
        legal.reverse()
        return legal

    def _advance(self, choice: int) -> bool:
        """Linearize the choice, unless that leads to where the search has been."""
        base, mask, used = self._base, self._mask, self._used & ~1
        unknown = choice - len(self._required)
        if unknown < 0:
            symbol = self._symbols[choice]
            mask |= 1 << (choice - base)
            if mask & 1:
                whole = (~mask & (mask + 1)).bit_length() - 1
                mask >>= whole
                base += whole
        else:
            symbol = self._unknown[unknown][0]
            used += self._units[unknown] + 1
        target = self._transitions.targets[self._state][symbol]
        if not self._is_new((base, mask, target), used):
            return False
        self._moves.append((choice, self._state, self._base, self._mask, self._used))
        self._state, self._base, self._mask, self._used = target, base, mask, used
        if unknown < 0:
            self._linearized += 1
            self._unlink(self._call_of[choice])
            self._unlink(self._return_of[choice])
        else:
            self._counts[unknown] += 1
        return True

    def _take_back(self) -> None:
        choice, self._state, self._base, self._mask, self._used = self._moves.pop()
        unknown = choice - len(self._required)
        if unknown < 0:
            self._linearized -= 1
            self._relink(self._return_of[choice])
            self._relink(self._call_of[choice])
        else:
            self._counts[unknown] -= 1

    def _is_new(self, key: tuple[int, int, int], used: int) -> bool:
        """Whether no configuration entered before can do all that this one can.

        Every count has a guard bit above it: it survives the subtraction if and only if the count
        is at least the other.
        """
        guards = self._guards
        before = self._seen.get(key, ())
        self.steps += len(before)
        for other in before:
            if ((used | guards) - other) & guards == guards:
                return False
        self._seen[key] = (*before, used)
        self.memory_bytes += BYTES_PER_CONFIGURATION + (key[1].bit_length() + self._used_bits) // 8
        return True

    def _unlink(self, at: int) -> None:
        before, after = self._preceding[at], self._following[at]
        self._following[before] = after
        self._preceding[after] = before

    def _relink(self, at: int) -> None:
        self._following[self._preceding[at]] = at
        self._preceding[self._following[at]] = at

    # ---------------------------------------------------------------------------- preparations

    def _load(self, operations: Sequence[Operation]) -> None:
        happened = [each for each in operations if each.status is not Status.FAIL]
        numbers: dict[Symbol, int] = {}
        required: list[tuple[Operation, int]] = []
        unknown: dict[int, list[int]] = {}
        for operation, symbol in zip(happened, self._model.encode(happened), strict=True):
            if symbol is None:
                continue
            number = numbers.setdefault(symbol, len(numbers))
            if operation.status is Status.OK:
                required.append((operation, number))
            elif self._model.effect(symbol) is not Effect.PURE:
                unknown.setdefault(number, []).append(operation.t_invoke_ns)
        required.sort(key=lambda pair: pair[0].t_invoke_ns)
        self._required = [operation for operation, _ in required]
        self._symbols = [number for _, number in required]
        self._effects = [self._model.effect(symbol) for symbol in numbers]
        self._transitions.symbols = list(numbers)
        self._unknown = [(number, sorted(times_ns)) for number, times_ns in unknown.items()]
        self._counts = [0] * len(self._unknown)
        self._lay_out_counts()
        self._link()

    def _lay_out_counts(self) -> None:
        """`used` packs the counts, each with its guard bit; bit 0 says that one was just used.

        That bit has a guard as well: who has just used one may do less.
        """
        self._units: list[int] = []
        self._guards = 1 << 1
        shift = 2
        for _, times_ns in self._unknown:
            self._units.append(1 << shift)
            shift += len(times_ns).bit_length()
            self._guards |= 1 << shift
            shift += 1
        self._used_bits = shift

    def _link(self) -> None:
        """Invocations and returns by time, invocations first: equal times are concurrent."""
        events: list[tuple[int, int, int]] = []
        for number, operation in enumerate(self._required):
            events.append((operation.t_invoke_ns, 0, number))
            events.append((operation.t_return_ns or 0, 1, number))
        events.sort()
        size = len(events) + 2  # a head before the first and a tail after the last
        self._following = list(range(1, size + 1))
        self._preceding = list(range(-1, size - 1))
        self._is_call = bytearray(size)
        self._operation_at = [0] * size
        self._time_ns = [0] * size
        self._call_of = [0] * len(self._required)
        self._return_of = [0] * len(self._required)
        for at, (time_ns, is_return, number) in enumerate(events, start=1):
            self._is_call[at] = 1 - is_return
            self._operation_at[at] = number
            self._time_ns[at] = time_ns
            (self._return_of if is_return else self._call_of)[number] = at


class _Transitions:
    """The model's transitions between interned states, each computed once."""

    def __init__(self, model: Model, initial: State) -> None:
        self._model = model
        self.symbols: list[Symbol] = []
        self.states: list[State] = [initial]
        self._numbers: dict[State, int] = {initial: 0}
        self.targets: list[dict[int, int]] = [{}]
        """By state, then by symbol: the state after, or -1 if it is illegal."""

    def target(self, state: int, symbol: int) -> int:
        found = self.targets[state].get(symbol)
        return self.compute(state, symbol) if found is None else found

    def compute(self, state: int, symbol: int) -> int:
        after = self._model.step(self.states[state], self.symbols[symbol])
        if after is ILLEGAL:
            number = -1
        else:
            number = self._numbers.setdefault(after, len(self.states))
            if number == len(self.states):
                self.states.append(after)
                self.targets.append({})
        self.targets[state][symbol] = number
        return number
