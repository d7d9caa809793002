"""A broker in a few lines, for producers with an identity: sequences, epochs and transactions.

Every request meets a fault of the test's choice. A request that is `LATE` times out, and arrives
after all, when a later one is met by `FLUSH` or the test is over: the case for which epochs exist.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from kafka_wire.client.errors import ConnectError, ConnectionLostError, RequestTimedOutError
from kafka_wire.client.steps import Call
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
)
from kafka_wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)
from kafka_wire.records import iter_records, parse_header
from kafka_wire.schema import Response
from tests.wire.client.script import Script, produced

REMEMBERED_BATCHES = 5


class Fault(Enum):
    NONE = auto()
    UNREACHABLE = auto()
    LOST_REQUEST = auto()
    LOST_ANSWER = auto()
    LATE = auto()
    CANCELLED = auto()
    BUSY = auto()
    """A retriable refusal."""
    REFUSED = auto()
    """A refusal for good."""
    DEPOSED = auto()
    """Carried out, and answered with a code that does not say so."""
    FLUSH = auto()


@dataclass
class _Producer:
    """What the broker knows of a producer id; in a transaction, what it has written in it."""

    epoch: int
    next_sequence: int = 0
    batches: dict[int, int] = field(default_factory=dict)
    """The offsets of the last batches by their sequences."""
    ongoing: list[bytes] | None = None
    last_end: tuple[int, bool] | None = None
    renewed_from: int | None = None

    def renew(self) -> None:
        self.epoch += 1
        self.next_sequence = 0
        self.batches.clear()


class ModelBroker:
    """Has one partition, `log`; with transactions only `visible` counts."""

    def __init__(self, faults: Iterable[Fault], *, transaction_version: int) -> None:
        self.log: list[bytes] = []
        self.visible: list[bytes] = []
        self.script = Script()
        self.script.cluster.update_features({"transaction.version": transaction_version}, epoch=1)
        self._is_implicit = transaction_version >= 2
        self._faults = iter(faults)
        self._late: list[Call] = []
        self._producers: dict[int, _Producer] = {}
        self._transactional: _Producer | None = None
        for kind in (
            ProduceRequest,
            InitProducerIdRequest,
            AddPartitionsToTxnRequest,
            EndTxnRequest,
        ):
            self.script.always(kind, self._meet)

    def flush(self) -> None:
        late, self._late = self._late, []
        for call in late:
            self._serve(call)

    def _meet(self, call: Call) -> Response:
        fault = next(self._faults, Fault.NONE)
        match fault:
            case Fault.UNREACHABLE:
                raise ConnectError("refused")
            case Fault.LOST_REQUEST:
                raise ConnectionLostError("the request is lost")
            case Fault.LOST_ANSWER:
                self._serve(call)
                raise ConnectionLostError("the answer is lost")
            case Fault.LATE if self._is_implicit or not isinstance(call.request, EndTxnRequest):
                # Below version 2 a late end can end the wrong transaction: that is why there is 2.
                self._late.append(call)
                raise RequestTimedOutError("late")
            case Fault.CANCELLED:
                self._serve(call)
                raise asyncio.CancelledError
            case Fault.BUSY:
                return self._refusal(call, ErrorCode.NOT_ENOUGH_REPLICAS)
            case Fault.REFUSED if isinstance(call.request, ProduceRequest):
                return self._refusal(call, ErrorCode.MESSAGE_TOO_LARGE)
            case Fault.DEPOSED:
                self._serve(call)
                return self._refusal(call, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case Fault.FLUSH:
                self.flush()
        return self._serve(call)

    def _serve(self, call: Call) -> Response:
        match call.request:
            case ProduceRequest() as request:
                return self._produce(call, request)
            case InitProducerIdRequest() as request:
                return self._init(call, request)
            case AddPartitionsToTxnRequest() as request:
                return self._add(call, request)
            case EndTxnRequest() as request:
                return self._end(call, request)
            case request:
                raise AssertionError(f"unexpected {request}")

    def _produce(self, call: Call, request: ProduceRequest) -> Response:
        batch = bytes(request.topic_data[0].partition_data[0].records or b"")
        header = parse_header(batch)
        assert header.producer_id is not None
        assert header.base_sequence is not None
        producer = self._producers[header.producer_id]
        if header.producer_epoch != producer.epoch:
            return self._refusal(call, ErrorCode.INVALID_PRODUCER_EPOCH)
        if header.base_sequence in producer.batches:
            return produced(base_offset=producer.batches[header.base_sequence])(call)
        if header.base_sequence != producer.next_sequence:
            return self._refusal(call, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        values = [record.value or b"" for record in iter_records(batch)]
        if header.is_transactional:
            if producer.ongoing is None and not self._is_implicit:
                return self._refusal(call, ErrorCode.INVALID_TXN_STATE)
            producer.ongoing = [*(producer.ongoing or ()), *values]
        producer.next_sequence += len(values)
        producer.batches[header.base_sequence] = len(self.log)
        while len(producer.batches) > REMEMBERED_BATCHES:
            del producer.batches[min(producer.batches)]
        self.log += values
        return produced(base_offset=len(self.log) - len(values))(call)

    def _init(self, call: Call, request: InitProducerIdRequest) -> Response:
        if request.transactional_id is None or self._transactional is None:
            producer = _Producer(epoch=0)
            self._producers[len(self._producers)] = producer
            self._transactional = producer if request.transactional_id else None
            return InitProducerIdResponse(producer_id=len(self._producers) - 1, producer_epoch=0)
        producer = self._transactional
        is_repeated = request.producer_epoch == producer.renewed_from is not None
        if request.producer_epoch not in (-1, producer.epoch) and not is_repeated:
            return self._refusal(call, ErrorCode.PRODUCER_FENCED)
        if not is_repeated:
            producer.ongoing = None
            producer.last_end = None
            producer.renewed_from = producer.epoch if request.producer_epoch >= 0 else None
            producer.renew()
        (producer_id,) = self._producers
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=producer.epoch)

    def _add(self, call: Call, request: AddPartitionsToTxnRequest) -> Response:
        producer = self._producers[request.v3_and_below_producer_id]
        if request.v3_and_below_producer_epoch != producer.epoch:
            return self._refusal(call, ErrorCode.PRODUCER_FENCED)
        producer.ongoing = producer.ongoing or []
        return _added(ErrorCode.NONE)

    def _end(self, call: Call, request: EndTxnRequest) -> Response:
        producer = self._producers[request.producer_id]
        end = (request.producer_epoch, request.committed)
        if producer.ongoing is None and end == producer.last_end:
            return self._ended(request, producer)
        if request.producer_epoch != producer.epoch:
            return self._refusal(call, ErrorCode.PRODUCER_FENCED)
        if producer.ongoing is None and (request.committed or not self._is_implicit):
            return self._refusal(call, ErrorCode.INVALID_TXN_STATE)
        if request.committed:
            self.visible += producer.ongoing or ()
        producer.ongoing = None
        producer.last_end = end
        producer.renewed_from = None
        if self._is_implicit:
            producer.renew()
        return self._ended(request, producer)

    def _ended(self, request: EndTxnRequest, producer: _Producer) -> Response:
        if not self._is_implicit:
            return EndTxnResponse()
        return EndTxnResponse(producer_id=request.producer_id, producer_epoch=producer.epoch)

    def _refusal(self, call: Call, code: ErrorCode) -> Response:
        match call.request:
            case ProduceRequest():
                return produced(error_code=code, base_offset=-1)(call)
            case InitProducerIdRequest():
                code = _COORDINATORS.get(code, code)
                return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
            case AddPartitionsToTxnRequest():
                return _added(_COORDINATORS.get(code, code))
            case _:
                return EndTxnResponse(error_code=_COORDINATORS.get(code, code))


_COORDINATORS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
}
"""What a coordinator answers where a leader would answer the other."""


def _added(code: ErrorCode) -> AddPartitionsToTxnResponse:
    result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
    topic = AddPartitionsToTxnTopicResult(name="events", results_by_partition=[result])
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
