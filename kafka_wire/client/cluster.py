"""What a client knows of a cluster: brokers, topics, leaders, coordinators. No IO happens here."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from ipaddress import IPv6Address
from typing import NamedTuple

import msgspec

from kafka_wire.client.errors import UnroutableError
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import MetadataResponse
from kafka_wire.messages.metadata import MetadataResponseTopic
from kafka_wire.schema import ZERO_UUID
from kafka_wire.types import LeaderEpoch, TopicPartition

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class CoordinatorType(IntEnum):
    """What a coordinator is looked up for."""

    GROUP = 0
    TRANSACTION = 1


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of a partition, and its replicas."""

    leader_id: int | None
    leader_epoch: LeaderEpoch | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error: ErrorCode


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A topic and its partitions by index."""

    name: str
    topic_id: bytes | None
    is_internal: bool
    partitions: Mapping[int, PartitionInfo]


class Cluster:
    """The newest metadata, and the coordinators found so far."""

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self.bootstrap = tuple(bootstrap)
        self.cluster_id: str | None = None
        self.controller_id: int | None = None
        self.brokers: dict[int, Address] = {}
        self.racks: dict[int, str | None] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.errors: dict[str, ErrorCode] = {}
        self.finalized_features: dict[str, int] = {}
        self._finalized_features_epoch = -1
        self._names: dict[bytes, str] = {}
        self._forgotten: dict[str, TopicInfo] = {}
        self._stale: set[str] = set()
        self._unreachable: dict[Address, None] = {}
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}

    def update(self, response: MetadataResponse) -> None:
        """Takes a response; topics that it does not name keep what is known of them."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id if response.controller_id >= 0 else None
        self.brokers = {b.node_id: Address(b.host, b.port) for b in response.brokers}
        self.racks = {b.node_id: b.rack for b in response.brokers}
        for topic in response.topics:
            if topic.name is not None:
                self._update_topic(topic.name, topic)

    def addresses(self) -> list[Address]:
        """Whom to ask when any broker will do; who did not answer lately comes last."""
        known = dict.fromkeys([*self.brokers.values(), *self.bootstrap])
        last = [address for address in self._unreachable if address in known]
        return [address for address in known if address not in self._unreachable] + last

    def mark_unreachable(self, address: Address) -> None:
        self._unreachable.pop(address, None)
        self._unreachable[address] = None

    def mark_reachable(self, address: Address) -> None:
        self._unreachable.pop(address, None)

    def update_features(self, features: Mapping[str, int], *, epoch: int) -> None:
        """Takes a broker's finalized features, unless another broker knew newer ones (KIP-584)."""
        if epoch >= self._finalized_features_epoch:
            self.finalized_features = dict(features)
            self._finalized_features_epoch = epoch

    def leader(self, target: TopicPartition) -> tuple[int, LeaderEpoch | None]:
        """The leader's node id and epoch; an `UnroutableError` says why there is none."""
        topic = self.topic(target.topic)
        partition = topic.partitions.get(target.partition)
        if partition is None:
            raise UnroutableError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {target.topic} has {len(topic.partitions)} partitions, not {target}",
            )
        if partition.leader_id is None or partition.leader_id not in self.brokers:
            raise UnroutableError(ErrorCode.LEADER_NOT_AVAILABLE, f"{target} has no leader now")
        return partition.leader_id, partition.leader_epoch

    def topic(self, name: str) -> TopicInfo:
        found = self.topics.get(name)
        if found is None:
            code = self.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise UnroutableError(code, f"no metadata for topic {name!r}")
        return found

    def topic_id(self, name: str) -> bytes:
        """The topic's id, all zeros where the cluster has none."""
        topic = self.topics.get(name)
        return topic.topic_id if topic is not None and topic.topic_id else ZERO_UUID

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def has_topic_ids(self, names: Iterable[str]) -> bool:
        return all(self.topic_id(name) != ZERO_UUID for name in names)

    def mark_stale(self, names: Iterable[str]) -> None:
        """What is known of these topics proved to be old: it is to be asked for again."""
        self._stale.update(names)

    def is_stale(self, name: str) -> bool:
        return name in self._stale or name not in self.topics

    def coordinator(self, kind: CoordinatorType, key: str) -> int | None:
        node_id = self._coordinators.get((kind, key))
        return node_id if node_id in self.brokers else None

    def set_coordinator(
        self, kind: CoordinatorType, key: str, *, node_id: int, address: Address
    ) -> None:
        self.brokers[node_id] = address
        self._coordinators[kind, key] = node_id

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    def _update_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        code = ErrorCode.of(topic.error_code)
        self.errors[name] = code
        self._stale.discard(name)
        if code != ErrorCode.NONE:
            self._forget(name)
            return
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else None
        known = self.topics.get(name) or self._forgotten.get(name)
        old: Mapping[int, PartitionInfo] = {}
        if known is not None and known.topic_id in (None, topic_id):
            old = known.partitions
        elif known is not None and topic_id is None:
            # An old broker, which knows no ids.
            topic_id, old = known.topic_id, known.partitions
        # Otherwise the topic was deleted and made anew: the epochs of the old one say nothing.
        self._forget(name)
        partitions = dict(old)  # A topic never has fewer partitions than before.
        for item in topic.partitions:
            info = PartitionInfo(
                leader_id=item.leader_id if item.leader_id >= 0 else None,
                leader_epoch=LeaderEpoch(item.leader_epoch) if item.leader_epoch >= 0 else None,
                replicas=tuple(item.replica_nodes),
                isr=tuple(item.isr_nodes),
                offline_replicas=tuple(item.offline_replicas),
                error=ErrorCode.of(item.error_code),
            )
            partitions[item.partition_index] = _newer(old.get(item.partition_index), info)
        self._forgotten.pop(name, None)
        self.topics[name] = TopicInfo(
            name=name, topic_id=topic_id, is_internal=topic.is_internal, partitions=partitions
        )
        if topic_id is not None:
            self._names[topic_id] = name

    def _forget(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None and topic.topic_id is not None:
            self._names.pop(topic.topic_id, None)
            # A broker that is behind may still tell of its older epochs.
            self._forgotten[name] = topic


def parse_bootstrap(servers: str | Sequence[str]) -> list[Address]:
    """`host:port` pairs, in a list or separated by commas; the port may be left out."""
    items = servers.split(",") if isinstance(servers, str) else servers
    addresses = [_parse_address(item.strip()) for item in items if item.strip()]
    if not addresses:
        raise ValueError("no bootstrap server given: name at least one as host:port")
    return addresses


def _parse_address(text: str) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or (":" in host and not host.endswith("]")):
        host, port = text, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("a host and a port from 1 to 65535 are needed")
        if ":" in host:
            IPv6Address(host)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not an address: write host:port, or [address]:port for IPv6 ({error})"
        ) from None
    return Address(host, int(port))


def _newer(old: PartitionInfo | None, new: PartitionInfo) -> PartitionInfo:
    """Brokers learn of elections at different times: an answer may be older than the last one."""
    if old is None or old.leader_epoch is None or new.leader_epoch is None:
        return new
    return old if old.leader_epoch > new.leader_epoch else new
