"""Thin clients of any Kafka-compatible cluster: `Client` blocks, `AsyncClient` does not.

Thin means: batches go in and come out as bytes, every broker's answer is handed on with what it
says (high watermark, last stable offset, leader epoch), and nothing happens behind the caller's
back: no threads, no caches of records, no retries but those asked for.
"""

from kafka_wire.client.aio import AsyncClient, AsyncGroupMember, AsyncProducer
from kafka_wire.client.blocking import Client, GroupMember, Producer
from kafka_wire.client.cluster import (
    Address,
    Cluster,
    CoordinatorType,
    PartitionInfo,
    TopicInfo,
)
from kafka_wire.client.core import Settings
from kafka_wire.client.errors import (
    ClientClosedError,
    ClientError,
    ClientStateError,
    ConnectError,
    ConnectionLostError,
    NoCommonVersionError,
    NotEncodableError,
    OutcomeUnknownError,
    ProtocolError,
    RequestTimedOutError,
    UnroutableError,
    maybe_applied,
)
from kafka_wire.client.fetching import AbortedTransaction, Fetched, FetchLimits, IsolationLevel
from kafka_wire.client.group import Rebalance, Subscription
from kafka_wire.client.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    MAX_TIMESTAMP_OFFSET,
    Committed,
    Membership,
    OffsetAt,
)
from kafka_wire.client.producing import ACKS_ALL, Produced
from kafka_wire.client.routing import Outcome
from kafka_wire.client.steps import ONCE, Retry
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.types import Offset, TopicPartition

__all__ = [
    "ACKS_ALL",
    "EARLIEST_OFFSET",
    "LATEST_OFFSET",
    "MAX_TIMESTAMP_OFFSET",
    "ONCE",
    "AbortedTransaction",
    "Address",
    "AsyncClient",
    "AsyncGroupMember",
    "AsyncProducer",
    "Client",
    "ClientClosedError",
    "ClientError",
    "ClientStateError",
    "Cluster",
    "Committed",
    "ConnectError",
    "ConnectionLostError",
    "CoordinatorType",
    "ErrorCode",
    "FetchLimits",
    "Fetched",
    "GroupMember",
    "IsolationLevel",
    "KafkaError",
    "Membership",
    "NoCommonVersionError",
    "NotEncodableError",
    "Offset",
    "OffsetAt",
    "Outcome",
    "OutcomeUnknownError",
    "PartitionInfo",
    "Produced",
    "Producer",
    "ProtocolError",
    "Rebalance",
    "RequestTimedOutError",
    "Retry",
    "Settings",
    "Subscription",
    "TopicInfo",
    "TopicPartition",
    "UnroutableError",
    "maybe_applied",
]
