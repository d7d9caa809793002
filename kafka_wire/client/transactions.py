"""The requests of a transaction to its coordinator and to a group's (KIP-98, KIP-447, KIP-890).

With the finalized feature transaction.version 2 partitions and groups join the transaction by
being written (`implicit` below), and every end of a transaction brings a new epoch, so that a
late request of an earlier transaction cannot touch a later one. With a lower level they are
added beforehand, and newer versions of the requests must not be used.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from kafka_wire.client.cluster import Cluster, CoordinatorType
from kafka_wire.client.offsets import Committed, Membership
from kafka_wire.client.routing import at_coordinator, by_topic
from kafka_wire.client.steps import Retry, Step, call, expect_all, retrying
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka_wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from kafka_wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.schema import LATEST
from kafka_wire.types import ProducerEpoch, ProducerId, TopicPartition

T = TypeVar("T")

TRANSACTION_VERSION: Final = "transaction.version"
IMPLICIT_SINCE: Final = 2
"""The transaction.version from which on writing to a partition adds it."""

LAST_PRODUCE_VERSION_BEFORE_IMPLICIT: Final = 11
LAST_OFFSETS_VERSION_BEFORE_IMPLICIT: Final = 4
LAST_END_VERSION_BEFORE_IMPLICIT: Final = 4
LAST_ADD_VERSION_OF_CLIENTS: Final = 3
FIRST_INIT_VERSION_WITH_EPOCH: Final = 3


class ProducerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The id and the epoch under which a producer writes."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class TransactionRequests:
    """Speaks for one transactional id to its coordinator, wherever that is."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        transaction_timeout_ms: int,
        timeout_ms: int,
        retry: Retry,
    ) -> None:
        self.transactional_id = transactional_id
        self.implicit = False
        """Whether writing adds; fixed for a transaction, though the feature may change in it."""
        self._cluster = cluster
        self._transaction_timeout_ms = transaction_timeout_ms
        self._timeout_ms = timeout_ms
        self._retry = retry

    def begin(self) -> None:
        level = self._cluster.finalized_features.get(TRANSACTION_VERSION, 0)
        self.implicit = level >= IMPLICIT_SINCE

    @property
    def last_produce_version(self) -> int:
        return LATEST if self.implicit else LAST_PRODUCE_VERSION_BEFORE_IMPLICIT

    def init(self, identity: ProducerIdentity | None) -> Step[ProducerIdentity]:
        """A new epoch: of the id's owner, or with `identity` of that producer (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            producer_id=-1 if identity is None else identity.producer_id,
            producer_epoch=-1 if identity is None else identity.producer_epoch,
        )

        def attempt(node_id: int) -> Step[ProducerIdentity]:
            response = yield from call(
                request,
                InitProducerIdResponse,
                node_id=node_id,
                timeout_ms=self._timeout_ms,
                first_version=0 if identity is None else FIRST_INIT_VERSION_WITH_EPOCH,
            )
            _raise_for(response.error_code)
            return _identity(response)

        return (yield from self._at_coordinator(attempt))

    def add_partition(self, identity: ProducerIdentity, target: TopicPartition) -> Step[None]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=target.topic, partitions=[target.partition])
            ],
        )

        def attempt(node_id: int) -> Step[None]:
            response = yield from call(
                request,
                AddPartitionsToTxnResponse,
                node_id=node_id,
                timeout_ms=self._timeout_ms,
                last_version=LAST_ADD_VERSION_OF_CLIENTS,
            )
            codes = {
                TopicPartition(topic.name, item.partition_index): item.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for item in topic.results_by_partition
            }
            expect_all([target], codes)
            _raise_for(codes[target])

        yield from self._at_coordinator(attempt, is_write=True)

    def add_offsets(self, identity: ProducerIdentity, group_id: str) -> Step[None]:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            group_id=group_id,
        )

        def attempt(node_id: int) -> Step[None]:
            response = yield from call(
                request, AddOffsetsToTxnResponse, node_id=node_id, timeout_ms=self._timeout_ms
            )
            _raise_for(response.error_code)

        yield from self._at_coordinator(attempt, is_write=True)

    def commit_offsets(
        self,
        identity: ProducerIdentity,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        member: Membership,
    ) -> Step[None]:
        """Goes to the group's coordinator, not to the transaction's."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            generation_id=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_offset_to_commit(p, offsets[p]) for p in partitions],
                )
                for topic, partitions in by_topic(offsets).items()
            ],
        )

        def attempt(node_id: int) -> Step[None]:
            response = yield from call(
                request,
                TxnOffsetCommitResponse,
                node_id=node_id,
                timeout_ms=self._timeout_ms,
                last_version=LATEST if self.implicit else LAST_OFFSETS_VERSION_BEFORE_IMPLICIT,
            )
            codes = {
                TopicPartition(topic.name, item.partition_index): item.error_code
                for topic in response.topics
                for item in topic.partitions
            }
            expect_all(offsets, codes)
            for code in codes.values():
                _raise_for(code)

        yield from at_coordinator(
            self._cluster,
            CoordinatorType.GROUP,
            group_id,
            attempt,
            self._retry,
            timeout_ms=self._timeout_ms,
            repeatable=True,
            is_write=True,
        )

    def end(
        self, identity: ProducerIdentity, *, committed: bool, doubtful: bool
    ) -> Step[ProducerIdentity]:
        """Ends the transaction; returns the identity for the next one.

        `doubtful` says that an earlier call may have ended it already.
        """

        def attempt(node_id: int) -> Step[ProducerIdentity]:
            response = yield from call(
                EndTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    committed=committed,
                ),
                EndTxnResponse,
                node_id=node_id,
                timeout_ms=self._timeout_ms,
                last_version=LATEST if self.implicit else LAST_END_VERSION_BEFORE_IMPLICIT,
            )
            _raise_for(response.error_code)
            return identity if response.producer_id < 0 else _identity(response)

        return (yield from self._at_coordinator(attempt, is_write=True, doubtful=doubtful))

    def _at_coordinator(
        self, attempt: Callable[[int], Step[T]], *, is_write: bool = False, doubtful: bool = False
    ) -> Step[T]:
        return (
            yield from at_coordinator(
                self._cluster,
                CoordinatorType.TRANSACTION,
                self.transactional_id,
                attempt,
                self._retry,
                timeout_ms=self._timeout_ms,
                repeatable=True,
                is_write=is_write,
                doubtful=doubtful,
            )
        )


def init_idempotent(*, timeout_ms: int, retry: Retry) -> Step[ProducerIdentity]:
    """A fresh producer id from any broker."""

    def attempt() -> Step[ProducerIdentity]:
        response = yield from call(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1),
            InitProducerIdResponse,
            timeout_ms=timeout_ms,
        )
        _raise_for(response.error_code)
        return _identity(response)

    return (yield from retrying(attempt, retry, repeatable=True))


def _identity(response: InitProducerIdResponse | EndTxnResponse) -> ProducerIdentity:
    return ProducerIdentity(
        producer_id=ProducerId(response.producer_id),
        producer_epoch=ProducerEpoch(response.producer_epoch),
    )


def _offset_to_commit(
    target: TopicPartition, committed: Committed
) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=target.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


def _raise_for(error_code: int) -> None:
    if error_code:
        raise KafkaError(ErrorCode.of(error_code))
