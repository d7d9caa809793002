"""Blocks of producer ids: each id is given to one broker, once, for ever."""

from typing import Final

from kafka_wire.error_codes import ErrorCode
from kafka_wire.types import ProducerId
from quorum.metadata.brokers import checked_broker
from quorum.metadata.commands import AllocateProducerIds, ProducerIdsAllocated, Refused
from quorum.metadata.image import MetadataImage
from quorum.metadata.records import ProducerIdsRecord
from quorum.metadata.result import Result, refuse

BLOCK_SIZE: Final = 1000
LAST_PRODUCER_ID: Final = 2**63 - 1


def allocate(image: MetadataImage, command: AllocateProducerIds) -> Result:
    """The next block. Asking again gives another one: ids are plenty."""
    broker = checked_broker(image, command.broker_id, command.broker_epoch)
    if isinstance(broker, Refused):
        return Result(answer=broker)
    first = image.next_producer_id
    if first > LAST_PRODUCER_ID - BLOCK_SIZE:
        return refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been given out")
    record = ProducerIdsRecord(
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        next_producer_id=ProducerId(first + BLOCK_SIZE),
    )
    return Result(
        answer=ProducerIdsAllocated(first_producer_id=first, count=BLOCK_SIZE),
        batches=((record,),),
    )
