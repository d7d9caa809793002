"""A retried request is answered, not repeated.

The answer of a command with a request id is written into the batch that carries out the command,
the last one if there are several, so that the two are committed together. A retry finds it in the
image, whichever voter is active then.

A command that changed nothing is not remembered: an error, a dry run, a change to what already is.
If its answer got lost, its sender cannot tell whether it was decided then or is decided now, and
now is right. The number of answers remembered is bounded (`request_log.py`), so a retry has to
come soon: within the next 20,000 requests.
"""

from typing import Final

import msgspec

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    AdminAnswer,
    AlterPartitionReassignments,
    BrokerUnregistered,
    Command,
    ConfigsAltered,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    FeaturesUpdated,
    IncrementalAlterConfigs,
    LeadersElected,
    PartitionReassignmentsAltered,
    PartitionsCreated,
    Refused,
    TopicsCreated,
    TopicsDeleted,
    UnregisterBroker,
    UpdateFeatures,
)
from quorum.metadata.image import MetadataImage
from quorum.metadata.records import MetadataFormatError, RequestAnsweredRecord
from quorum.metadata.result import Result

MAX_REQUEST_ID: Final = 100

_ANSWERS: Final[dict[type[Command], type[AdminAnswer]]] = {
    UnregisterBroker: BrokerUnregistered,
    CreateTopics: TopicsCreated,
    DeleteTopics: TopicsDeleted,
    CreatePartitions: PartitionsCreated,
    ElectLeaders: LeadersElected,
    AlterPartitionReassignments: PartitionReassignmentsAltered,
    IncrementalAlterConfigs: ConfigsAltered,
    UpdateFeatures: FeaturesUpdated,
}

_DECODERS: Final = {kind: msgspec.msgpack.Decoder(kind) for kind in _ANSWERS.values()}


def answered(image: MetadataImage, command: Command) -> AdminAnswer | Refused | None:
    """The answer that this request had before; None if it is new."""
    request_id = _request_id(command)
    if request_id is None:
        return None
    if not 0 < len(request_id) <= MAX_REQUEST_ID:
        return Refused(
            code=ErrorCode.INVALID_REQUEST,
            message=f"a request id has 1 to {MAX_REQUEST_ID} characters",
        )
    found = image.requests.get(request_id)
    if found is None:
        return None
    expected = _ANSWERS[type(command)]
    if found.kind != expected.__name__:
        return Refused(
            code=ErrorCode.INVALID_REQUEST,
            message=f"request id {request_id} was used for another kind of request",
        )
    try:
        return _DECODERS[expected].decode(found.answer)
    except msgspec.MsgspecError as error:
        raise MetadataFormatError(f"the answer of {request_id} cannot be read: {error}") from error


def remember(command: Command, result: Result) -> Result:
    """The result with a record of its answer."""
    request_id = _request_id(command)
    if request_id is None or not result.batches:
        return result
    record = RequestAnsweredRecord(
        request_id=request_id,
        kind=type(result.answer).__name__,
        answer=msgspec.msgpack.encode(result.answer),
    )
    *first, last = result.batches
    return Result(answer=result.answer, batches=(*first, (*last, record)))


def _request_id(command: Command) -> str | None:
    if isinstance(
        command,
        UnregisterBroker
        | CreateTopics
        | DeleteTopics
        | CreatePartitions
        | ElectLeaders
        | AlterPartitionReassignments
        | IncrementalAlterConfigs
        | UpdateFeatures,
    ):
        return command.request_id
    return None
