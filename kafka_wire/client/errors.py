"""What can go wrong between a client and a cluster, apart from the error codes of an answer.

The one question a caller has about a failed write is whether it may have happened all the same.
`maybe_applied` answers it: a request that was never sent surely did not happen, one that was
sent and not answered may have. Where there is a doubt the answer is yes.
"""

from typing import ClassVar

from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import EncodeError, UnsupportedVersionError


class ClientError(Exception):
    """A request without an answer."""

    maybe_applied: ClassVar[bool] = False
    retriable: ClassVar[bool] = True
    """Whether the same call may succeed later."""


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
    """The last attempt failed for sure, but an earlier one, or a part, may have succeeded."""

    maybe_applied = True
    retriable = False


class ClientClosedError(ClientError):
    """The client was closed before the request was sent."""

    retriable = False


class NoCommonVersionError(ClientError, UnsupportedVersionError):
    """The broker has no version of the request that will do: nothing was sent."""

    retriable = False


class NotEncodableError(ClientError, EncodeError):
    """A value of the request does not fit the wire format: nothing was sent."""

    retriable = False


class ClientStateError(ClientError):
    """A call that does not fit the state of the client: nothing was sent."""


class UnroutableError(KafkaError):
    """A code that says why there is no leader or coordinator to send to: nothing was sent."""


_DECIDED_BEFORE_APPEND = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
_UNDECIDED = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


def maybe_applied(error: ClientError | KafkaError) -> bool:
    """Whether a write that failed so may have been carried out all the same.

    A retriable code is no proof that nothing was written: a leader that is deposed while it
    waits for its followers answers NOT_LEADER_OR_FOLLOWER to a batch that is in its log, and
    that the next leader may have, too (or UNKNOWN_TOPIC_OR_PARTITION, if the topic is deleted
    meanwhile). A coordinator in the same place answers NOT_COORDINATOR, and one whose followers
    were too slow COORDINATOR_NOT_AVAILABLE. Codes that are not retriable are refusals, apart
    from the one that stands for anything, and the one that says that the batch was there before.
    """
    if isinstance(error, ClientError):
        return error.maybe_applied
    if isinstance(error, UnroutableError):
        return False
    if error.code in _UNDECIDED:
        return True
    return error.retriable and error.code not in _DECIDED_BEFORE_APPEND
