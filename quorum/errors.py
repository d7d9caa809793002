"""The quorum's errors, and the one place that maps Kafka's error codes to gRPC.

A call that fails as a whole carries a `google.rpc.ErrorInfo`: the domain is ours, the reason is the
name of the Kafka error (or of `Reason` in quorum.proto where Kafka has none), and the metadata
holds what a program needs to go on, such as the leader's address. Server and client use the same
two functions, so what one writes the other reads.
"""

from collections.abc import Mapping
from typing import Final

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from kafka_wire.error_codes import ErrorCode
from quorum.api import quorum_pb2 as pb

DOMAIN: Final = "floodmark"
STATUS_DETAILS_KEY: Final = "grpc-status-details-bin"

OUTCOME_UNKNOWN: Final = pb.Reason.Name(pb.OUTCOME_UNKNOWN)
OVERLOADED: Final = pb.Reason.Name(pb.OVERLOADED)


class QuorumError(Exception):
    """A request was refused and changed nothing."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class NotControllerError(QuorumError):
    """The voter is not the active controller. It changed nothing; ask the leader."""

    def __init__(
        self,
        message: str = "this voter is not the active controller",
        *,
        leader_id: int | None = None,
        leader_address: str | None = None,
        leader_epoch: int = 0,
    ) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, message)
        self.leader_id = leader_id
        self.leader_address = leader_address
        self.leader_epoch = leader_epoch


class OverloadedError(QuorumError):
    """Too many commands wait. Nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)


class DeadlineError(QuorumError):
    """The deadline had passed before the request was looked at. Nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class OutcomeUnknownError(Exception):
    """The change may have happened, or may yet happen: repeat it with the same request id.

    Not a `QuorumError`, so that whoever handles refusals does not take this for one.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


# What is not listed is the caller's mistake (INVALID_ARGUMENT) or, if it is retriable, UNAVAILABLE.
_STATUS: Final[Mapping[ErrorCode, grpc.StatusCode]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: grpc.StatusCode.INTERNAL,
    ErrorCode.NOT_CONTROLLER: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.STALE_CONTROLLER_EPOCH: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.STALE_BROKER_EPOCH: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.FENCED_LEADER_EPOCH: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.INVALID_UPDATE_VERSION: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.INELIGIBLE_REPLICA: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.FEATURE_UPDATE_FAILED: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.INCONSISTENT_CLUSTER_ID: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.BROKER_ID_NOT_REGISTERED: grpc.StatusCode.NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: grpc.StatusCode.NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: grpc.StatusCode.NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: grpc.StatusCode.ALREADY_EXISTS,
    ErrorCode.POLICY_VIOLATION: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.REQUEST_TIMED_OUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    ErrorCode.UNSUPPORTED_VERSION: grpc.StatusCode.UNIMPLEMENTED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: grpc.StatusCode.PERMISSION_DENIED,
}


def grpc_status(code: ErrorCode) -> grpc.StatusCode:
    """The gRPC status of a Kafka error."""
    known = _STATUS.get(code)
    if known is not None:
        return known
    return grpc.StatusCode.UNAVAILABLE if code.retriable else grpc.StatusCode.INVALID_ARGUMENT


def to_grpc(error: QuorumError | OutcomeUnknownError) -> tuple[grpc.StatusCode, str, bytes]:
    """Status, message, and the value of the trailing metadata's `STATUS_DETAILS_KEY`."""
    if isinstance(error, OutcomeUnknownError):
        status, reason = grpc.StatusCode.UNKNOWN, OUTCOME_UNKNOWN
    else:
        status = grpc_status(error.code)
        reason = OVERLOADED if isinstance(error, OverloadedError) else error.code.name
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN)
    if isinstance(error, NotControllerError):
        info.metadata["leader_epoch"] = str(error.leader_epoch)
        if error.leader_id is not None:
            info.metadata["leader_id"] = str(error.leader_id)
        if error.leader_address is not None:
            info.metadata["leader_address"] = error.leader_address
    detail = any_pb2.Any()
    detail.Pack(info)
    details = status_pb2.Status(code=status.value[0], message=error.message, details=[detail])
    return status, error.message, details.SerializeToString()


def from_grpc(message: str, details: bytes | None) -> QuorumError | OutcomeUnknownError | None:
    """The error that a server of ours wrote; None if there are no details of ours."""
    info = _error_info(details)
    if info is None:
        return None
    match info.reason:
        case "OUTCOME_UNKNOWN":
            return OutcomeUnknownError(message)
        case "OVERLOADED":
            return OverloadedError(message)
        case "NOT_CONTROLLER":
            return NotControllerError(
                message,
                leader_id=_number(info.metadata.get("leader_id")),
                leader_address=info.metadata.get("leader_address"),
                leader_epoch=_number(info.metadata.get("leader_epoch")) or 0,
            )
        case name if name in ErrorCode.__members__:
            return QuorumError(ErrorCode[name], message)
        case name:  # of a newer server; what it means to a person is in the message
            return QuorumError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{name}: {message}")


def _error_info(details: bytes | None) -> error_details_pb2.ErrorInfo | None:
    if details is None:
        return None
    info = error_details_pb2.ErrorInfo()
    for detail in status_pb2.Status.FromString(details).details:
        if detail.Unpack(info) and info.domain == DOMAIN:
            return info
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
