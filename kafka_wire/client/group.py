"""A member of a consumer group of the new kind (KIP-848): the broker assigns, the member obeys.

The member has no thread. Whoever owns it calls `heartbeat` in time, and is told what changed:

* `revoked`: stop reading these, commit what was read. The next heartbeat confirms that they
  are free, so call it only then.
* `assigned`: these may be read from now on.
* `lost`: the group went on without this member, so the revoked partitions may belong to others
  already, and committing for them would be refused. The member joins anew by itself.

    OUT --heartbeat, epoch 0--> IN --fenced or unknown--> OUT
    IN --leave--> LEFT

What the broker has heard of the member is not known after a failed attempt, and neither is what
it has answered, so the one that follows repeats everything, and is answered with everything.

Partitions are told apart by their topics' ids: one of a topic that was deleted and made anew is
revoked and assigned at once, and is another one.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, TypeAlias

import msgspec

from kafka_wire.client.cluster import Cluster, CoordinatorType
from kafka_wire.client.errors import ClientStateError
from kafka_wire.client.offsets import Membership
from kafka_wire.client.routing import at_coordinator, refresh_by_id
from kafka_wire.client.steps import Now, Retry, Step, call, group_by
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_wire.messages.consumer_group_heartbeat import TopicPartitions
from kafka_wire.types import TopicPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that leaves so keeps its assignment until its session ends."""

FIRST_VERSION: Final = 1
"""From here on the member chooses its id, so a join that is repeated makes no second member."""

PartitionId: TypeAlias = tuple[bytes, int]
"""A partition by its topic's id, as the broker names it."""

_EXPELLED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class State(Enum):
    """Where a member stands; the transitions are in the module's docstring."""

    OUT = auto()
    IN = auto()
    LEFT = auto()


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """What a member wants to read, and how it wants to be treated."""

    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    """A regular expression that the broker matches with topic names."""
    instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None
    rebalance_timeout_ms: int = 300_000


class Rebalance(msgspec.Struct, frozen=True, kw_only=True):
    """A change of what a member owns: first these are revoked, then those are assigned."""

    revoked: frozenset[TopicPartition] = frozenset()
    assigned: frozenset[TopicPartition] = frozenset()
    lost: bool = False


class GroupMemberCore:
    """The state of one member, and its operations as steps."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        subscription: Subscription,
        *,
        member_id: str,
        timeout_ms: int,
        retry: Retry,
    ) -> None:
        self.state = State.OUT
        self.group_id = group_id
        self.heartbeat_due_ms = 0
        """When the next heartbeat is due, on the clock that the driver reads."""
        self._cluster = cluster
        self._subscription = subscription
        self._member_id = member_id
        self._epoch = JOIN_EPOCH
        self._owned: dict[PartitionId, TopicPartition] = {}
        self._target: frozenset[PartitionId] | None = None
        """The assignment as the broker sent it, until all of it is owned."""
        self._confirmed: frozenset[PartitionId] | None = None
        """What the broker has heard that the member owns; None if that is not known."""
        self._heartbeat_under_way = False
        self._is_known = False
        """Whether the broker may have heard of the member since it last joined or left."""
        self._timeout_ms = timeout_ms
        self._retry = retry

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What may be read now."""
        return frozenset(self._owned.values())

    @property
    def membership(self) -> Membership:
        """The identity with which this member commits offsets."""
        return Membership(
            member_id=self._member_id,
            epoch=self._epoch,
            instance_id=self._subscription.instance_id,
        )

    def heartbeat(self, *, force: bool = False) -> Step[Rebalance | None]:
        """Sends a heartbeat if one is due; returns what changed, or None if nothing did."""
        if self.state is State.LEFT:
            raise ClientStateError("the member has left its group: make a new one")
        now_ms = yield Now()
        if not force and now_ms < self.heartbeat_due_ms:
            return None
        if self._heartbeat_under_way:
            raise ClientStateError("a heartbeat is under way: wait for it, and for what it says")
        self._heartbeat_under_way = True
        try:
            response = yield from self._send(self._request)
            return (yield from self._accept(response))
        except KafkaError as error:
            if error.code in _EXPELLED:
                return self._lose_everything()
            raise
        finally:
            self._heartbeat_under_way = False

    def leave(self) -> Step[None]:
        """Leaves the group at once, so that its partitions need not wait for a timeout."""
        if self._heartbeat_under_way:
            raise ClientStateError("a heartbeat is under way: wait for it, or cancel it")
        if self._is_known:
            static = self._subscription.instance_id is not None
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self._member_id,
                member_epoch=STATIC_LEAVE_EPOCH if static else LEAVE_EPOCH,
                instance_id=self._subscription.instance_id,
            )
            try:
                yield from self._send(lambda: request)
            except KafkaError as error:
                if error.code not in _EXPELLED:
                    raise
        self.state = State.LEFT
        self._is_known = False
        self._owned = {}

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        """Everything for a join and after a failure, else only what the broker does not know."""
        wanted = self._subscription
        everything = self._confirmed is None
        changed = self._confirmed != self._owned.keys()
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=wanted.instance_id,
            rack_id=wanted.rack_id if everything else None,
            rebalance_timeout_ms=wanted.rebalance_timeout_ms if everything else -1,
            subscribed_topic_names=list(wanted.topics) if everything else None,
            subscribed_topic_regex=wanted.topic_pattern if everything else None,
            server_assignor=wanted.server_assignor if everything else None,
            topic_partitions=_on_the_wire(self._owned) if changed else None,
        )

    def _send(
        self, build: Callable[[], ConsumerGroupHeartbeatRequest]
    ) -> Step[ConsumerGroupHeartbeatResponse]:
        def attempt(node_id: int) -> Step[ConsumerGroupHeartbeatResponse]:
            request = build()
            confirmed, self._confirmed = frozenset(self._owned), None
            self._is_known = True
            response = yield from call(
                request,
                ConsumerGroupHeartbeatResponse,
                node_id=node_id,
                timeout_ms=self._timeout_ms,
                first_version=FIRST_VERSION,
            )
            if response.error_code:
                raise KafkaError(ErrorCode.of(response.error_code), response.error_message)
            self._confirmed = confirmed
            return response

        return (
            yield from at_coordinator(
                self._cluster,
                CoordinatorType.GROUP,
                self.group_id,
                attempt,
                self._retry,
                timeout_ms=self._timeout_ms,
                repeatable=True,
            )
        )

    def _accept(self, response: ConsumerGroupHeartbeatResponse) -> Step[Rebalance | None]:
        now_ms = yield Now()
        self.state = State.IN
        self._epoch = response.member_epoch
        self.heartbeat_due_ms = now_ms + response.heartbeat_interval_ms
        if response.assignment is not None:
            self._target = frozenset(
                (item.topic_id, partition)
                for item in response.assignment.topic_partitions
                for partition in item.partitions
            )
        if self._target is None:
            return None
        owned = yield from self._resolve(self._target)
        revoked = [name for key, name in self._owned.items() if key not in owned]
        assigned = [name for key, name in owned.items() if key not in self._owned]
        self._owned = owned
        if not revoked and not assigned:
            return None
        self.heartbeat_due_ms = now_ms
        return Rebalance(revoked=frozenset(revoked), assigned=frozenset(assigned))

    def _resolve(self, target: frozenset[PartitionId]) -> Step[dict[PartitionId, TopicPartition]]:
        """The partitions by name. One whose topic is not known yet is taken up later."""
        names = {key[0]: name.topic for key, name in self._owned.items()}
        wanted = sorted({topic_id for topic_id, _ in target} - names.keys())
        unknown = [t for t in wanted if self._cluster.topic_name(t) is None]
        if unknown:
            yield from refresh_by_id(self._cluster, unknown, timeout_ms=self._timeout_ms)
        for topic_id in wanted:
            name = self._cluster.topic_name(topic_id)
            if name is not None:
                names[topic_id] = name
        resolved = {
            (topic_id, partition): TopicPartition(names[topic_id], partition)
            for topic_id, partition in sorted(target)
            if topic_id in names
        }
        if len(resolved) == len(target):
            self._target = None
        return resolved

    def _lose_everything(self) -> Rebalance:
        lost = self.owned
        self.state = State.OUT
        self._is_known = False
        self._owned = {}
        self._epoch = JOIN_EPOCH
        self._target = None
        self.heartbeat_due_ms = 0
        return Rebalance(revoked=lost, lost=True)


def _on_the_wire(owned: Mapping[PartitionId, TopicPartition]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=[partition for _, partition in keys])
        for topic_id, keys in group_by(sorted(owned), lambda key: key[0]).items()
    ]
