"""What every RPC has in common: a deadline, and errors that a program can read."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar

import grpc.aio

from kafka_wire.error_codes import ErrorCode
from quorum.errors import (
    STATUS_DETAILS_KEY,
    DeadlineError,
    OutcomeUnknownError,
    QuorumError,
    to_grpc,
)

MAX_CALL_S: Final = 30.0
"""How long a call waits whose caller set no deadline, or a later one."""
ANSWER_MARGIN: Final = 0.95
"""The share of the caller's time after which we answer, so that our word on the outcome arrives
before the caller's own clock ends the call."""

R = TypeVar("R")

logger = logging.getLogger(__name__)


async def answered(
    context: grpc.aio.ServicerContext[Any, Any], call: Callable[[float], Awaitable[R]]
) -> R:
    """Runs `call` with the seconds that it has, and turns its errors into a gRPC status."""
    try:
        return await call(_seconds(context))
    except (QuorumError, OutcomeUnknownError) as error:
        logger.debug("refused: %s", error)
        await abort(context, error)
    except (asyncio.CancelledError, grpc.aio.AbortError):
        raise
    except Exception as error:
        logger.exception("a call failed")
        # A bug of ours: whether it happened after the change was proposed nobody can tell.
        message = f"internal error ({type(error).__name__}); the voter's log tells more"
        await abort(context, OutcomeUnknownError(message))


async def abort(
    context: grpc.aio.ServicerContext[Any, Any], error: QuorumError | OutcomeUnknownError
) -> NoReturn:
    status, message, details = to_grpc(error)
    await context.abort(status, message, ((STATUS_DETAILS_KEY, details),))
    raise RuntimeError("abort() has returned")


def _seconds(context: grpc.aio.ServicerContext[Any, Any]) -> float:
    remaining: float | None = context.time_remaining()
    if remaining is None:
        return MAX_CALL_S
    if remaining <= 0:
        raise DeadlineError("the deadline had passed before the request was looked at")
    return min(remaining * ANSWER_MARGIN, MAX_CALL_S)


def unexpected(answer: object) -> QuorumError:
    """The controller answered with another command's answer: a request id was used twice."""
    return QuorumError(
        ErrorCode.INVALID_REQUEST,
        f"the request id was used before, for a command that was answered {type(answer).__name__}",
    )
