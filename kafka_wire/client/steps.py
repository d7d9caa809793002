"""What a client does, written once for both drivers.

An operation is a generator: it yields what it wants done (a `Call`, a `Pause`, ...) and gets the
outcome back, so it holds the whole logic and no IO. The blocking client and the asyncio client
each have one small loop that carries these wishes out, and the tests have a third.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from kafka_wire.client.errors import (
    ClientError,
    OutcomeUnknownError,
    ProtocolError,
    maybe_applied,
)
from kafka_wire.error_codes import KafkaError
from kafka_wire.schema import LATEST, Request, Response

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R", bound=Response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Send a request and return its response; `None` for a Produce request with acks=0.

    Without a node any broker will do. A failure is raised as a `ClientError`.
    """

    node_id: int | None
    request: Request
    timeout_ms: int
    first_version: int = 0
    last_version: int = LATEST


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAll:
    """Send requests to several brokers at once; return the answer to each."""

    calls: Sequence[Call]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait."""

    ms: int


@dataclass(frozen=True, slots=True)
class Now:
    """Return the milliseconds of a clock that never goes back."""


Wish: TypeAlias = Call | CallAll | Pause | Now
Answer: TypeAlias = Response | ClientError | None
"""What became of one of the calls of a `CallAll`."""
Step: TypeAlias = Generator[Wish, Any, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How long to try again, and how often. The default is to try once.

    An error code that Kafka calls retriable is tried again, and so is a request that surely was
    not carried out. One whose outcome is unknown is tried again if repeating it does no harm
    (a read, an idempotent write), or if `repeat_unknown` accepts that it happens twice.
    """

    timeout_ms: int = 0
    backoff_ms: int = 50
    max_backoff_ms: int = 1000
    repeat_unknown: bool = False


ONCE = Retry()


def call(
    request: Request,
    response_type: type[R],
    *,
    timeout_ms: int,
    node_id: int | None = None,
    first_version: int = 0,
    last_version: int = LATEST,
) -> Step[R]:
    """Sends one request and returns its response."""
    response = yield Call(
        node_id=node_id,
        request=request,
        timeout_ms=timeout_ms,
        first_version=first_version,
        last_version=last_version,
    )
    return expect(response, response_type)


def expect(response: object, response_type: type[R]) -> R:
    if not isinstance(response, response_type):
        raise ProtocolError(f"expected a {response_type.__name__}, got {response!r}")
    return response


def only(items: Sequence[T], what: str) -> T:
    """The one item that an answer must have."""
    if len(items) != 1:
        raise ProtocolError(f"expected one {what} in the answer, got {len(items)}")
    return items[0]


def expect_all(asked: Iterable[K], answered: Collection[K]) -> None:
    """An answer that leaves out something that it was asked about is no answer."""
    missing = [item for item in asked if item not in answered]
    if missing:
        raise ProtocolError(f"the answer leaves out {missing[0]} (in all {len(missing)})")


def retrying(
    attempt: Callable[[], Step[T]],
    policy: Retry,
    *,
    repeatable: bool,
    is_write: bool = False,
    doubtful: bool = False,
) -> Step[T]:
    """Runs `attempt` until it succeeds, fails for good, or the policy's time is over.

    The error of a write tells of all attempts, not just of the last one: if an earlier one may
    have been carried out (`doubtful`: before this call already), the outcome is unknown.
    """
    start_ms = yield Now()
    backoff_ms = policy.backoff_ms
    while True:
        try:
            return (yield from attempt())
        except (ClientError, KafkaError) as error:
            now_ms = yield Now()
            left_ms = start_ms + policy.timeout_ms - now_ms
            if left_ms <= 0 or not _may_repeat(error, policy, repeatable=repeatable):
                if doubtful and not maybe_applied(error):
                    raise OutcomeUnknownError(
                        f"an earlier attempt may have been carried out; the last one: {error}"
                    ) from error
                raise
            doubtful = doubtful or (is_write and maybe_applied(error))
        yield Pause(ms=min(backoff_ms, left_ms))
        backoff_ms = min(2 * backoff_ms, policy.max_backoff_ms)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items by a key such as their topic or leader, in order of first appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _may_repeat(error: ClientError | KafkaError, policy: Retry, *, repeatable: bool) -> bool:
    if not error.retriable:
        return False
    return repeatable or policy.repeat_unknown or not maybe_applied(error)
