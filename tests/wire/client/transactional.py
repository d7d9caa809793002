"""A transactional producer, and a cluster in which everything that it wants succeeds."""

from kafka_wire.client import (
    Committed,
    Retry,
)
from kafka_wire.client.producer import ProducerCore
from kafka_wire.client.steps import Call
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka_wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)
from kafka_wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafka_wire.records import parse_header
from kafka_wire.schema import Response
from kafka_wire.types import Offset
from tests.wire.client.script import (
    EVENTS_0,
    TOPIC,
    Script,
    produced,
    produced_batches,
    records,
)

ONCE = Retry()
PATIENT = Retry(timeout_ms=3000, backoff_ms=100)
OFFSETS = {EVENTS_0: Committed(offset=Offset(3))}
PRODUCER_ID = 7


def begun(*, transaction_version: int, retry: Retry = ONCE) -> tuple[Script, ProducerCore]:
    """A producer in a transaction, and a cluster in which everything succeeds."""
    script = Script()
    script.cluster.update_features({"transaction.version": transaction_version}, epoch=1)
    epochs = iter(range(100))
    script.always(
        InitProducerIdRequest,
        lambda _: InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=next(epochs)),
    )
    script.always(ProduceRequest, produced())
    script.always(AddPartitionsToTxnRequest, _add)
    script.always(AddOffsetsToTxnRequest, lambda _: AddOffsetsToTxnResponse())
    script.always(TxnOffsetCommitRequest, _commit_offsets)
    script.always(EndTxnRequest, _end)
    producer = script.core.producer("tx", transaction_timeout_ms=60_000, retry=retry)
    script.run(producer.initialize())
    producer.begin()
    return script, producer


def written(*, transaction_version: int = 2, retry: Retry = ONCE) -> tuple[Script, ProducerCore]:
    script, producer = begun(transaction_version=transaction_version, retry=retry)
    script.run(producer.append(EVENTS_0, records()))
    return script, producer


def added(partition: int, code: ErrorCode) -> AddPartitionsToTxnResponse:
    result = AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=code)
    topic = AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=[result])
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def _add(call: Call) -> Response:
    assert isinstance(call.request, AddPartitionsToTxnRequest)
    (topic,) = call.request.v3_and_below_topics
    return added(topic.partitions[0], ErrorCode.NONE)


def _commit_offsets(_: Call) -> Response:
    partition = TxnOffsetCommitResponsePartition(partition_index=0)
    topic = TxnOffsetCommitResponseTopic(name=TOPIC, partitions=[partition])
    return TxnOffsetCommitResponse(topics=[topic])


def _end(call: Call) -> Response:
    assert isinstance(call.request, EndTxnRequest)
    if call.last_version < 5:
        return EndTxnResponse()
    return EndTxnResponse(
        producer_id=call.request.producer_id, producer_epoch=call.request.producer_epoch + 1
    )


def stamps(script: Script) -> list[tuple[int | None, int | None]]:
    """The epoch and the sequence of each batch that was sent."""
    headers = [parse_header(batch) for batch in produced_batches(script)]
    return [(header.producer_epoch, header.base_sequence) for header in headers]
