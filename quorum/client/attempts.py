"""One call of the active controller, tried until it is answered or its time is over.

What an attempt's end means for the next:

    an answer, or a refusal        the call is over; whatever earlier attempts did is in it
    NOT_CONTROLLER                 nothing happened; ask the leader that it names, or others
    OVERLOADED                     nothing happened; wait and ask again
    OUTCOME_UNKNOWN, a lost        it may have happened: ask again with the same request id, and
    connection, no answer          never report a plain failure from then on
    no connection                  nothing was sent; ask the next voter
"""

import asyncio
import random
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import grpc
import grpc.aio

from kafka_wire.error_codes import ErrorCode
from quorum.api.quorum_pb2_grpc import ControllerServiceStub
from quorum.client.channels import Channels, details_key_value
from quorum.errors import (
    STATUS_DETAILS_KEY,
    DeadlineError,
    NotControllerError,
    OutcomeUnknownError,
    OverloadedError,
    QuorumError,
    from_grpc,
)

CONNECT_TIMEOUT_S: Final = 0.5
ATTEMPT_TIMEOUT_S: Final = 1.0
"""A voter that does not answer for so long may stand still; another may lead by then. Well below a
broker's session, so that a leader that stands still costs no broker its lease."""
FIRST_BACKOFF_S: Final = 0.02
MAX_BACKOFF_S: Final = 0.5

Q = TypeVar("Q")
R = TypeVar("R")

if TYPE_CHECKING:
    # Neither the asynchronous stub nor a generic call exists at run time.
    from quorum.api.quorum_pb2_grpc import ControllerServiceAsyncStub

    Rpc: TypeAlias = Callable[[ControllerServiceAsyncStub], grpc.aio.UnaryUnaryMultiCallable[Q, R]]


class _Next(Enum):
    SAME_VOTER = "ask the same voter again"
    NAMED_LEADER = "ask the leader that was named"
    OTHER_VOTER = "ask another voter"


class LeaderCalls:
    """Calls of whoever leads; remembers who did."""

    def __init__(self, channels: Channels, *, attempt_timeout_s: float = ATTEMPT_TIMEOUT_S) -> None:
        self._channels = channels
        self._attempt_timeout_s = attempt_timeout_s
        self._address = channels.addresses[0]
        self.attempts = 0

    @property
    def address(self) -> str:
        """Of the voter that is asked first."""
        return self._address

    async def call(self, rpc: "Rpc[Q, R]", request: Q, timeout_s: float) -> R:
        """The answer. Raises `QuorumError` if the request did not and will not happen, and
        `OutcomeUnknownError` if it may."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        backoff_s = FIRST_BACKOFF_S
        redirects = 0
        is_unknown = False
        problem = "no voter was asked"
        while (left_s := deadline - loop.time()) > 0:
            try:
                return await self._attempt(rpc, request, left_s)
            except (QuorumError, OutcomeUnknownError, _NoConnection) as error:
                problem = f"{self._address}: {error}"
                is_unknown = is_unknown or isinstance(error, OutcomeUnknownError)
                step = self._next(error)
            redirects += step is _Next.NAMED_LEADER
            if step is _Next.NAMED_LEADER and redirects == 1:
                continue
            left_s = deadline - loop.time()
            await asyncio.sleep(min(backoff_s * random.uniform(0.5, 1), max(left_s, 0)))
            backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)
        if is_unknown:
            raise OutcomeUnknownError(f"no answer within {timeout_s:g} s; the last was {problem}")
        raise DeadlineError(f"no leader took it within {timeout_s:g} s; the last was {problem}")

    def _next(self, error: "QuorumError | OutcomeUnknownError | _NoConnection") -> _Next:
        """Where to ask next; raises what ends the call."""
        if isinstance(error, NotControllerError):
            leader = error.leader_address
            if leader and leader != self._address and self._channels.may_follow(leader):
                self._address = leader
                return _Next.NAMED_LEADER
            # None is known, or a voter that does not lead names itself: it was not told where
            # the others are.
            if not leader or leader == self._address:
                self._rotate()
            return _Next.OTHER_VOTER
        if isinstance(error, OverloadedError):
            return _Next.SAME_VOTER
        if isinstance(error, QuorumError) and error.code is not ErrorCode.REQUEST_TIMED_OUT:
            raise error
        self._rotate()
        return _Next.OTHER_VOTER

    def _rotate(self) -> None:
        addresses = self._channels.addresses
        if self._address in addresses:
            at = addresses.index(self._address) + 1
            self._address = addresses[at % len(addresses)]
        else:
            self._address = addresses[0]

    async def _attempt(self, rpc: "Rpc[Q, R]", request: Q, left_s: float) -> R:
        self.attempts += 1
        channel = self._channels[self._address]
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(min(left_s, CONNECT_TIMEOUT_S)):
                await channel.channel_ready()
        except TimeoutError:
            raise _NoConnection("there is no connection") from None
        left_s = min(left_s - (loop.time() - began), self._attempt_timeout_s)
        try:
            stub: ControllerServiceAsyncStub = ControllerServiceStub(channel)
            return await rpc(stub)(request, timeout=max(left_s, 0.001))
        except grpc.aio.AioRpcError as error:
            raise _meaning(error) from None


class _NoConnection(Exception):  # noqa: N818 - not an error that leaves this module
    """Nothing was sent."""


def _meaning(error: grpc.aio.AioRpcError) -> QuorumError | OutcomeUnknownError:
    message = error.details() or ""
    ours = from_grpc(message, details_key_value(error, STATUS_DETAILS_KEY))
    if ours is not None:
        return ours
    status = error.code()
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        if "larger than max" in message:
            return QuorumError(ErrorCode.MESSAGE_TOO_LARGE, message)
        return OverloadedError(message)
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return QuorumError(ErrorCode.UNSUPPORTED_VERSION, message)
    return OutcomeUnknownError(f"{status.name}: {message}")
