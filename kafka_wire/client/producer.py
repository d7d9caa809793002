"""A producer with an identity: idempotent, and with a transactional id also transactional.

KIP-98: every batch carries the producer's id and epoch and a sequence number of its partition,
so a broker recognises a batch that was sent twice. A batch is therefore repeated with the same
sequence until its outcome is known, and only then the next one may follow.

    UNINITIALIZED --initialize--> READY --begin--> IN_TRANSACTION --commit--> COMMITTING --> READY
    READY --doubt--> DOUBTFUL --initialize--> READY
    IN_TRANSACTION --failure--> ABORT_ONLY
    IN_TRANSACTION, ABORT_ONLY --abort--> ABORTING --> READY
    READY, DOUBTFUL --initialize, failed--> UNINITIALIZED
    any --fenced--> FENCED

* A doubt is a batch whose outcome is still unknown when its time is over: nobody knows whether
  its sequence is taken. A new batch with the same sequence could pass for the old one and be
  acknowledged without being written, so a new id or epoch has to come first, in which
  sequences begin at 0 (KIP-360). The end of a transaction sees to that itself, if it can;
  otherwise it leaves the producer UNINITIALIZED.
* COMMITTING and ABORTING last until the coordinator has answered. If it does not, the call may
  be repeated, but the decision may not be changed, unless it surely was not heard.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from typing import Final

from kafka_wire.client.cluster import Cluster
from kafka_wire.client.errors import (
    ClientError,
    ClientStateError,
    ProtocolError,
    maybe_applied,
)
from kafka_wire.client.offsets import ANYBODY, Committed, Membership
from kafka_wire.client.producing import Produced, produce
from kafka_wire.client.steps import Retry, Step
from kafka_wire.client.transactions import (
    ProducerIdentity,
    TransactionRequests,
    init_idempotent,
)
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.records import BatchBuilder, ProducerStamp
from kafka_wire.schema import LATEST
from kafka_wire.types import Sequence, TopicPartition

_SEQUENCE_MASK: Final = 2**31 - 1
"""After the largest int32 sequences continue at 0."""

_FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_LOST_TRACK: Final = _FENCING | {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}
"""Refusals that show that the broker's idea of the sequences is not ours."""


class State(Enum):
    """Where a producer stands; the transitions are in the module's docstring."""

    UNINITIALIZED = auto()
    READY = auto()
    DOUBTFUL = auto()
    IN_TRANSACTION = auto()
    ABORT_ONLY = auto()
    COMMITTING = auto()
    ABORTING = auto()
    FENCED = auto()


class ProducerCore:
    """The state of one producer, and its operations as steps."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        transactional_id: str | None,
        transaction_timeout_ms: int,
        ack_timeout_ms: int,
        timeout_ms: int,
        retry: Retry,
    ) -> None:
        self.state = State.UNINITIALIZED
        self.identity: ProducerIdentity | None = None
        self._cluster = cluster
        self._transactions: TransactionRequests | None = None
        if transactional_id is not None:
            self._transactions = TransactionRequests(
                cluster,
                transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                timeout_ms=timeout_ms,
                retry=retry,
            )
        self._ack_timeout_ms = ack_timeout_ms
        self._timeout_ms = timeout_ms
        self._retry = retry
        self._sequences: dict[TopicPartition, int] = {}
        self._under_way: set[TopicPartition | str] = set()
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._doubtful = False

    def initialize(self) -> Step[None]:
        """Gets an id and an epoch; with a transactional id, fences its former owner."""
        self._require(State.UNINITIALIZED, State.READY, State.DOUBTFUL)
        with self._busy("initialize()", alone=True):
            yield from self._renew()

    def begin(self) -> None:
        """Begins a transaction; the brokers hear of it with the first write."""
        transactions = self._transactional()
        self._require(State.READY)
        transactions.begin()
        self._partitions.clear()
        self._groups.clear()
        self.state = State.IN_TRANSACTION

    def append(self, target: TopicPartition, records: BatchBuilder) -> Step[Produced]:
        """Appends the records as one batch, acknowledged by all in-sync replicas.

        One append at a time to a partition: the next one's sequence follows from the outcome.
        """
        transactions = self._transactions
        self._require(State.READY if transactions is None else State.IN_TRANSACTION)
        with self._busy(target):
            sequence = self._sequences.get(target, 0)
            next_sequence = (sequence + records.records_count) & _SEQUENCE_MASK
            batch = records.build(
                producer=self._stamp(Sequence(sequence)),
                is_transactional=transactions is not None,
            )
            try:
                if transactions is not None:
                    yield from self._join(transactions, target)
                produced = yield from produce(
                    self._cluster,
                    target,
                    batch,
                    ack_timeout_ms=self._ack_timeout_ms,
                    timeout_ms=self._timeout_ms,
                    retry=self._retry,
                    repeatable=True,
                    transactional_id=transactions.transactional_id if transactions else None,
                    last_version=transactions.last_produce_version if transactions else LATEST,
                )
            except BaseException as error:
                self._failed(error)
                raise
            self._sequences[target] = next_sequence
            return produced

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        *,
        member: Membership = ANYBODY,
    ) -> Step[None]:
        """Commits a group's positions as part of the transaction."""
        transactions = self._transactional()
        self._require(State.IN_TRANSACTION)
        identity = self._identity()
        with self._busy(f"commit_offsets({group_id!r})"):
            try:
                if not transactions.implicit and group_id not in self._groups:
                    yield from transactions.add_offsets(identity, group_id)
                self._groups.add(group_id)
                yield from transactions.commit_offsets(identity, group_id, offsets, member)
            except BaseException as error:
                self._failed(error)
                raise

    def commit(self) -> Step[None]:
        """Commits the transaction: when this returns, all of it is decided to be visible."""
        self._require(State.IN_TRANSACTION, State.COMMITTING)
        with self._busy("commit()", alone=True):
            yield from self._end(State.COMMITTING)

    def abort(self) -> Step[None]:
        """Aborts the transaction: readers of committed records will see none of it."""
        self._require(State.IN_TRANSACTION, State.ABORT_ONLY, State.ABORTING)
        with self._busy("abort()", alone=True):
            yield from self._end(State.ABORTING)

    def _join(self, transactions: TransactionRequests, target: TopicPartition) -> Step[None]:
        if not transactions.implicit and target not in self._partitions:
            yield from transactions.add_partition(self._identity(), target)
        self._partitions.add(target)

    def _end(self, ending: State) -> Step[None]:
        before, self.state = self.state, ending
        if self._partitions or self._groups:
            try:
                identity = yield from self._transactional().end(
                    self._identity(),
                    committed=ending is State.COMMITTING,
                    doubtful=before is ending,
                )
            except (ClientError, KafkaError) as error:
                code = _code(error)
                if code in _FENCING:
                    self.state = State.FENCED
                elif code == ErrorCode.TRANSACTION_ABORTABLE:
                    self.state = State.ABORT_ONLY
                elif not maybe_applied(error):
                    self.state = before
                raise
            # The earlier end may arrive yet, and must not end the next transaction.
            self._doubtful = self._doubtful or before is ending
            self._take(identity)
        self.state = State.READY
        if self._doubtful:
            try:
                yield from self._renew()
            except (ClientError, KafkaError):
                # The transaction has ended all the same: to raise would say that it has not.
                pass

    def _renew(self) -> Step[None]:
        """Until the new identity is there nothing may be written with the old one."""
        self.state = State.UNINITIALIZED
        try:
            if self._transactions is None:
                identity = yield from init_idempotent(
                    timeout_ms=self._timeout_ms, retry=self._retry
                )
            else:
                identity = yield from self._transactions.init(self.identity)
        except KafkaError as error:
            if error.code in _FENCING:
                self.state = State.FENCED
            raise
        if identity == self.identity:
            raise ProtocolError(f"the broker gave out {identity} a second time")
        self._take(identity)
        self.state = State.READY

    def _failed(self, error: BaseException) -> None:
        """What a failed write means for the next one. A cancelled one may have been carried out."""
        code = _code(error)
        known = isinstance(error, ClientError | KafkaError) and not maybe_applied(error)
        self._doubtful = self._doubtful or not known or code in _LOST_TRACK
        if self._transactions is None:
            self.state = State.DOUBTFUL if self._doubtful else self.state
        elif self.state is not State.FENCED:
            self.state = State.FENCED if code in _FENCING else State.ABORT_ONLY

    def _take(self, identity: ProducerIdentity) -> None:
        if identity != self.identity:
            self.identity = identity
            self._sequences.clear()
            self._doubtful = False

    def _identity(self) -> ProducerIdentity:
        if self.identity is None:
            raise ClientStateError("the producer has no id: call initialize() first")
        return self.identity

    def _stamp(self, sequence: Sequence) -> ProducerStamp:
        identity = self._identity()
        return ProducerStamp(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
        )

    def _transactional(self) -> TransactionRequests:
        if self._transactions is None:
            raise ClientStateError("a transaction needs a producer with a transactional id")
        return self._transactions

    def _require(self, *states: State) -> None:
        if self.state not in states:
            wanted = " or ".join(state.name for state in states)
            raise ClientStateError(f"the producer is {self.state.name}, this needs {wanted}")

    @contextmanager
    def _busy(self, work: TopicPartition | str, *, alone: bool = False) -> Iterator[None]:
        """The same work is not done twice at once, and some of it only `alone`."""
        if work in self._under_way or (alone and self._under_way):
            others = ", ".join(sorted(map(str, self._under_way)))
            raise ClientStateError(f"{work} has to wait: under way is {others}")
        self._under_way.add(work)
        try:
            yield
        finally:
            self._under_way.discard(work)


def _code(error: BaseException) -> ErrorCode | None:
    """The error code of the answer, also where an earlier attempt makes the outcome unknown."""
    answer = error if isinstance(error, KafkaError) else error.__cause__
    return answer.code if isinstance(answer, KafkaError) else None
