"""What can go wrong between a client and a cluster, apart from the error codes of an answer.

The one question a caller has about a failed write is whether it may have happened all the same.
`maybe_applied` answers it: a request that was never sent surely did not happen, one that was
sent and not answered may have.
"""

from typing import ClassVar

from kafka_wire.error_codes import ErrorCode, KafkaError


class ClientError(Exception):
    """A request without an answer."""

    maybe_applied: ClassVar[bool] = False


class ConnectError(ClientError):
    """No connection could be made, so nothing was sent."""


class ConnectionLostError(ClientError):
    """The connection broke after the request was sent and before it was answered."""

    maybe_applied = True


class RequestTimedOutError(ClientError):
    """The answer did not come in time; the connection was closed, for it may yet come."""

    maybe_applied = True


class ProtocolError(ClientError):
    """The answer could not be read, or belongs to no request; the connection was closed."""

    maybe_applied = True


class OutcomeUnknownError(ClientError):
    """Several attempts, the last of which was refused, but an earlier one may have succeeded."""

    maybe_applied = True


class ClientClosedError(ClientError):
    """The client was closed before the request was sent."""


class ClientStateError(ClientError):
    """A call that does not fit the state of the client: nothing was sent."""


_DECIDED_BEFORE_APPEND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)


def maybe_applied(error: ClientError | KafkaError) -> bool:
    """Whether a write that failed so may have been carried out all the same.

    A retriable code is no proof that nothing was written: a leader that is deposed while it
    waits for its followers answers NOT_LEADER_OR_FOLLOWER to a batch that is in its log, and
    that the next leader may have, too. Codes that are not retriable are refusals.
    """
    if isinstance(error, ClientError):
        return error.maybe_applied
    if error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
        return True
    return error.retriable and error.code not in _DECIDED_BEFORE_APPEND
