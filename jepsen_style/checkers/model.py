"""What the linearizability checker needs to know of an object: its sequential behaviour.

A model turns the operations of one object into *symbols*, and says what a symbol does to a state.
Two operations with the same symbol are interchangeable but for their times; the search makes use
of that. Nothing here knows of time.
"""

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Final, Literal, Protocol

from jepsen_style.operations import Operation

Symbol = Hashable
State = Hashable


class Illegal(Enum):
    """The answer of `step` where a state does not allow a symbol. None is a state like any."""

    ILLEGAL = "illegal"


ILLEGAL: Final = Illegal.ILLEGAL


class Effect(Enum):
    """How a symbol and the state depend on each other. The search prunes by it.

    PURE: it looks at the state and never changes it. Where it is legal it can be linearized at
    once: any order that has it later still holds with it here.

    BLIND: it is legal in every state, and the state after it does not depend on the one before.
    An operation of unknown outcome is therefore never needed just before it.

    MIXED: anything else.
    """

    PURE = "pure"
    BLIND = "blind"
    MIXED = "mixed"


class Model(Protocol):
    """The sequential behaviour of an object, deterministic and without side effects."""

    @property
    def initial(self) -> State:
        """The state before the first operation."""

    @property
    def anything(self) -> State | None:
        """A state that stands for any, for windows that begin in the middle of a history.

        What is legal in some state must be legal in this one. None if the model has no such
        state; then windows begin where the history begins.
        """

    def encode(self, operations: Sequence[Operation]) -> list[Symbol | None]:
        """The symbol of each operation, or None for one that no verdict can depend on.

        It sees all operations of the object at once, so that it can drop operations of unknown
        outcome whose effect nobody saw. No operation is a failed one. The symbol of an operation
        of unknown outcome is what it does if it takes effect: if it is known to have changed the
        state, it must be able to do the same when its outcome is taken as unknown.
        """

    def step(self, state: State, symbol: Symbol) -> State | Literal[Illegal.ILLEGAL]:
        """The state after the symbol, or ILLEGAL."""

    def effect(self, symbol: Symbol) -> Effect:
        """How the symbol depends on the state, in every state."""

    def separable(self, operations: Sequence[Operation]) -> list[list[int]]:
        """Groups of operations, by index, that evidence may do without.

        If the operations are linearizable, so are they without any of the groups: so what stays
        invalid without them is a conflict of its own. PURE operations need not be named.
        """

    def describe_state(self, state: State) -> str:
        """The state in words."""

    def remarks(self, culprit: Operation, operations: Sequence[Operation]) -> list[str]:
        """What a reader of the evidence wants to know besides; `operations` are all of the key."""
