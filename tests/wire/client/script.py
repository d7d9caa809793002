"""A third driver of the clients' steps: it answers from a script, and its clock stands still.

Replies are queued by the type of the request. A reply is a response, an error, or a function of
the call. What the script does not mention fails the test; only metadata and coordinators are
answered by a small cluster of two brokers, unless the test says otherwise.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from kafka_wire.client.cluster import Address, Cluster
from kafka_wire.client.core import ClientCore, Settings
from kafka_wire.client.errors import ClientError, RequestTimedOutError
from kafka_wire.client.steps import Call, CallAll, Now, Pause, Step, Wish
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka_wire.messages.find_coordinator import Coordinator
from kafka_wire.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.messages.produce import PartitionProduceResponse, TopicProduceResponse
from kafka_wire.records import BatchBuilder
from kafka_wire.schema import Request, Response
from kafka_wire.types import TopicPartition

T = TypeVar("T")
Body = TypeVar("Body", bound=Request)
Reply: TypeAlias = Response | BaseException | Callable[[Call], Response | None] | None

TOPIC = "events"
TOPIC_ID = b"the id of events"
EVENTS_0 = TopicPartition(TOPIC, 0)
EVENTS_1 = TopicPartition(TOPIC, 1)
BROKERS = {0: Address("zero", 9092), 1: Address("one", 9092)}
REQUEST_TIMEOUT_MS = 1000


class Script:
    """Runs steps, and remembers what they wished for."""

    def __init__(self, *, leaders: Mapping[int, int] | None = None) -> None:
        self.cluster = Cluster([Address("bootstrap", 9092)])
        self.core = ClientCore(self.cluster, Settings(request_timeout_ms=REQUEST_TIMEOUT_MS))
        self.calls: list[Call] = []
        self.pauses_ms: list[int] = []
        self.now_ms = 0
        self.leaders = dict(leaders or {0: 0, 1: 1})
        self.coordinator = 0
        self._replies: defaultdict[type[Request], deque[Reply]] = defaultdict(deque)
        self._always: dict[type[Request], Callable[[Call], Response]] = {
            MetadataRequest: lambda _: metadata(self.leaders),
            FindCoordinatorRequest: self._find_coordinator,
        }

    def reply(self, kind: type[Request], *replies: Reply) -> None:
        """The next requests of this type get these replies, one after another."""
        self._replies[kind].extend(replies)

    def always(self, kind: type[Request], answer: Callable[[Call], Response]) -> None:
        """Requests of this type get this answer where no reply is queued."""
        self._always[kind] = answer

    def sent(self, kind: type[Body]) -> list[Body]:
        return [call.request for call in self.calls if isinstance(call.request, kind)]

    def calls_of(self, kind: type[Request]) -> list[Call]:
        return [call for call in self.calls if isinstance(call.request, kind)]

    def run(self, step: Step[T]) -> T:
        outcome: Any = None
        failure: BaseException | None = None
        while True:
            try:
                wish = step.send(outcome) if failure is None else step.throw(failure)
            except StopIteration as done:
                result: T = done.value
                return result
            outcome, failure = None, None
            try:
                outcome = self.grant(wish)
            except BaseException as error:  # noqa: BLE001 - it is thrown into the step
                failure = error

    def grant(self, wish: Wish) -> Any:
        match wish:
            case Call():
                return self._answer(wish)
            case CallAll(calls=calls):
                return [self._answer_or_error(call) for call in calls]
            case Pause(ms=ms):
                self.pauses_ms.append(ms)
                self.now_ms += ms
                return None
            case Now():
                return self.now_ms

    def _answer_or_error(self, call: Call) -> Response | ClientError | None:
        try:
            return self._answer(call)
        except ClientError as error:
            return error

    def _answer(self, call: Call) -> Response | None:
        self.calls.append(call)
        kind = type(call.request)
        queue = self._replies[kind]
        assert queue or kind in self._always, f"the script has no reply to {call.request}"
        reply: Reply = queue.popleft() if queue else self._always[kind]
        if isinstance(reply, RequestTimedOutError):
            self.now_ms += call.timeout_ms
        if isinstance(reply, BaseException):
            raise reply
        return reply(call) if callable(reply) else reply

    def _find_coordinator(self, call: Call) -> Response:
        if call.first_version < 4:
            host, port = BROKERS[self.coordinator]
            return FindCoordinatorResponse(node_id=self.coordinator, host=host, port=port)
        return coordinator_response(self.coordinator)


def coordinator_response(
    node_id: int, *, error_code: ErrorCode = ErrorCode.NONE
) -> FindCoordinatorResponse:
    host, port = BROKERS[node_id]
    found = Coordinator(key="", node_id=node_id, host=host, port=port, error_code=error_code)
    return FindCoordinatorResponse(coordinators=[found])


def metadata(
    leaders: Mapping[int, int],
    *,
    epoch: int = 5,
    topic: str | None = TOPIC,
    topic_id: bytes = TOPIC_ID,
    error_code: ErrorCode = ErrorCode.NONE,
    brokers: Mapping[int, Address] = BROKERS,
) -> MetadataResponse:
    """A topic whose partitions have these leaders."""
    partitions = [
        MetadataResponsePartition(
            partition_index=partition,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=[0, 1],
            isr_nodes=[0, 1],
        )
        for partition, leader in leaders.items()
    ]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=host, port=port)
            for node_id, (host, port) in brokers.items()
        ],
        topics=[
            MetadataResponseTopic(
                name=topic, topic_id=topic_id, error_code=error_code, partitions=partitions
            )
        ],
    )


def produced(
    *,
    base_offset: int = 0,
    error_code: ErrorCode = ErrorCode.NONE,
    by_id: bool = False,
    partition_shift: int = 0,
) -> Callable[[Call], Response]:
    """Answers for every partition of a Produce request alike."""

    def answer(call: Call) -> Response:
        assert isinstance(call.request, ProduceRequest)
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name="" if by_id else topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=partition.index + partition_shift,
                            error_code=error_code,
                            base_offset=base_offset,
                        )
                        for partition in topic.partition_data
                    ],
                )
                for topic in call.request.topic_data
            ]
        )

    return answer


def records(*values: bytes) -> BatchBuilder:
    builder = BatchBuilder()
    for value in values or (b"value",):
        builder.append(key=None, value=value, timestamp_ms=1)
    return builder


def produced_batches(script: Script) -> list[bytes]:
    """The batches of all Produce requests, in the order in which they were sent."""
    return [
        bytes(partition.records or b"")
        for request in script.sent(ProduceRequest)
        for topic in request.topic_data
        for partition in topic.partition_data
    ]
