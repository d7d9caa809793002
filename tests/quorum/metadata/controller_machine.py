"""Random cluster lives against one controller, with a raft that loses and refuses proposals.

The machine knows the truth that the controller can only infer: what each broker has read, when it
last sent a heartbeat, whether its disk is new. Every decision is held against it.
"""

from collections import deque
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_wire.types import LeaderEpoch
from quorum.metadata.commands import (
    AlterPartition,
    AlterPartitionReassignments,
    Answer,
    BrokerRegistered,
    Command,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Heartbeat,
    HeartbeatAnswer,
    IncrementalAlterConfigs,
    IsrChange,
    IsrMember,
    MorePartitions,
    NewTopic,
    PartitionsAltered,
    Reassignment,
    Refused,
    ResourceChange,
    TopicReference,
    TopicsCreated,
    UnregisterBroker,
)
from quorum.metadata.controller import Controller
from quorum.metadata.image import EMPTY_IMAGE, NO_OFFSET, MetadataImage, apply_batch
from quorum.metadata.records import PartitionRecord
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.snapshot import decode_snapshot, encode_snapshot
from quorum.metadata.speculation import ProposedBatch
from quorum.metadata.types import (
    CLUSTER_DEFAULT,
    BrokerEpoch,
    BrokerId,
    ConfigOperation,
    ConfigResource,
    ElectionType,
    MetadataOffset,
    PartitionEpoch,
    ResourceType,
    TopicId,
)
from tests.quorum.metadata.cluster import CLUSTER_ID, SESSION_MS, directory, identity, registration
from tests.quorum.metadata.invariants import (
    all_partitions,
    check_image,
    check_step,
    left_isr,
    newly_fenced,
)

BROKERS = (1, 2, 3, 4)
NO_EPOCH = BrokerEpoch(0)
NAMES = ("a", "b.c", "b_c", "d")


@dataclass
class SimulatedBroker:
    """A broker as it is."""

    incarnation: int = 0
    generation: int = 0
    """Of its disk."""
    epoch: BrokerEpoch | None = None
    stale_epoch: BrokerEpoch = NO_EPOCH
    metadata_offset: MetadataOffset = NO_OFFSET
    last_heartbeat_ms: int = -(10**9)


class ControllerMachine(RuleBasedStateMachine):
    """One controller; brokers 1 to 4; raft as an oracle."""

    def __init__(self) -> None:
        super().__init__()
        self.controller = Controller(
            ControllerSettings(cluster_id=CLUSTER_ID, leader_imbalance_check_interval_s=10)
        )
        self.now_ms = 10**6
        self.term = 0
        self.began_ms = 0
        self.entries: list[tuple[int, bytes]] = []
        self.in_flight: deque[ProposedBatch] = deque()
        self.refuse_next = False
        self.is_slow = False
        """What is proposed is not committed at once."""
        self.brokers = {broker_id: SimulatedBroker() for broker_id in BROKERS}
        self.lost_at: dict[BrokerId, int] = {}
        """The offset at which a broker last lost a leadership or its place in an ISR."""
        self.committed_lost_at: dict[BrokerId, int] = {}
        self.shadow = EMPTY_IMAGE
        self.snapshot: tuple[int, bytes] | None = None
        self.topics_made = 0
        self.requests_made = 0

    @initialize()
    def cluster_starts(self) -> None:
        self.new_term()
        for broker_id in BROKERS[:3]:
            self.brokers[broker_id].generation = 1
            self.start_process(broker_id)
            self.commit_all()
            self.brokers[broker_id].metadata_offset = self.shadow.offset
            self.send_heartbeat(broker_id)
            self.commit_all()
        for name, factor in (("a", 3), ("d", 2)):
            self.create_topic(name, partitions=2, factor=factor, seed=factor, min_isr=None)

    # ------------------------------------------------------------------------- brokers

    @rule(broker_id=st.sampled_from(BROKERS), new_disk=st.booleans(), clean=st.booleans())
    def process_starts(self, broker_id: BrokerId, new_disk: bool, clean: bool) -> None:
        if new_disk:
            self.brokers[broker_id].generation += 1
        self.start_process(broker_id, lost_disk=new_disk, clean=clean)

    def start_process(
        self, broker_id: BrokerId, *, lost_disk: bool = False, clean: bool = False
    ) -> None:
        broker = self.brokers[broker_id]
        broker.incarnation += 1
        before = self.controller.speculative_image
        command = registration(
            broker_id,
            incarnation=broker.incarnation % 250,
            directories=(directory(broker_id, broker.generation % 250),),
            previous_broker_epoch=broker.epoch if clean else None,
        )
        answer = self.submit(command)
        existing = before.brokers.get(broker_id)
        if isinstance(answer, Refused):
            if lost_disk:
                broker.generation -= 1
            assert existing is not None
            assert self.may_be_alive(broker_id), "only a live process stands in the way"
            return
        assert isinstance(answer, BrokerRegistered)
        broker.stale_epoch = broker.epoch or BrokerEpoch(0)
        broker.epoch = answer.broker_epoch
        after = self.controller.speculative_image
        assert after.brokers[broker_id].fenced, "a new process starts fenced"
        assert after.brokers[broker_id].broker_epoch == answer.broker_epoch
        for partition in all_partitions(after):
            assert broker_id not in partition.isr, "a new process is in no ISR"
            if lost_disk:
                assert broker_id not in partition.elr, "who lost its data is in no ELR"
        for old in all_partitions(before):
            if old.leader == broker_id:
                new = after.partition(old.key)
                assert new is not None
                assert new.leader_epoch > old.leader_epoch, "a restart ends a leadership"

    @rule(
        broker_id=st.sampled_from(BROKERS),
        reads=st.booleans(),
        want_fence=st.sampled_from((False, False, False, True)),
        want_shut_down=st.sampled_from((False, False, False, False, True)),
    )
    def heartbeat(
        self, broker_id: BrokerId, reads: bool, want_fence: bool, want_shut_down: bool
    ) -> None:
        broker = self.brokers[broker_id]
        if reads:
            broker.metadata_offset = self.shadow.offset
        self.send_heartbeat(broker_id, want_fence=want_fence, want_shut_down=want_shut_down)

    @rule()
    def everybody_reads_and_reports(self) -> None:
        self.commit_all()
        for broker_id in BROKERS:
            self.brokers[broker_id].metadata_offset = self.shadow.offset
            self.send_heartbeat(broker_id)

    def send_heartbeat(
        self, broker_id: BrokerId, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> None:
        broker = self.brokers[broker_id]
        committed = self.controller.image.brokers.get(broker_id)
        if committed is None or broker.epoch is None or committed.broker_epoch != broker.epoch:
            # Its registration is not committed: the answer with its epoch has not left yet.
            return
        command = Heartbeat(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            metadata_offset=broker.metadata_offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )
        image = self.controller.speculative_image
        registered = image.brokers.get(broker_id)
        was_fenced = registered is None or registered.fenced
        was_leading = broker_id in image.index.leads
        lost_at = self.lost_at.get(broker_id, 0)
        allowed = {broker_id} if want_fence or want_shut_down else set[BrokerId]()
        answer = self.submit(command, may_fence=allowed)
        if isinstance(answer, Refused):
            return
        assert isinstance(answer, HeartbeatAnswer)
        broker.last_heartbeat_ms = -(10**9) if answer.should_shut_down else self.now_ms
        if answer.should_shut_down:
            index = self.controller.speculative_image.index
            assert broker_id not in index.leads, "who is told to stop leads nothing"
            if not was_fenced:
                assert broker.metadata_offset >= lost_at, "who is told to stop knows its losses"
                assert not was_leading, "who is told to stop led nothing before"

    @rule(broker_id=st.sampled_from(BROKERS))
    def unregister(self, broker_id: BrokerId) -> None:
        before = self.controller.speculative_image.brokers.get(broker_id)
        answer = self.submit(UnregisterBroker(broker_id=broker_id))
        if not isinstance(answer, Refused):
            assert before is not None
            assert before.fenced, "who is alive is not forgotten"

    @rule(ms=st.sampled_from((1, 500, 500, 1000, 3001, 11_000)))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        before = self.controller.speculative_image
        proposals = self.controller.periodic(self.now_ms)
        silent = {b for b in BROKERS if not self.may_be_alive(b)}
        self.decided(before, proposals, may_fence=silent, joins=set())

    @rule(broker_id=st.sampled_from(BROKERS))
    def falls_silent(self, broker_id: BrokerId) -> None:
        """One is silent until it is fenced; the others go on."""
        self.commit_all()
        self.settle()
        self.now_ms += SESSION_MS
        for other in BROKERS:
            if other != broker_id:
                self.brokers[other].metadata_offset = self.shadow.offset
                self.send_heartbeat(other)
        self.time_passes(1)
        self.commit_all()

    def may_be_alive(self, broker_id: BrokerId) -> bool:
        """A session counts from the last heartbeat, or from when the controller began."""
        last_ms = max(self.brokers[broker_id].last_heartbeat_ms, self.began_ms)
        return self.now_ms - last_ms <= SESSION_MS

    # -------------------------------------------------------------------------- topics

    @rule(
        name=st.sampled_from(NAMES),
        partitions=st.integers(0, 3),
        factor=st.integers(1, 4),
        seed=st.integers(0, 2**64),
        min_isr=st.sampled_from((None, "1", "2", "3")),
    )
    def create_topic(
        self, name: str, partitions: int, factor: int, seed: int, min_isr: str | None
    ) -> None:
        self.topics_made += 1
        topic = NewTopic(
            name=name,
            topic_id=TopicId(identity(5, self.topics_made // 250, self.topics_made % 250)),
            partitions=partitions,
            replication_factor=factor,
            configs=() if min_isr is None else (("min.insync.replicas", min_isr),),
        )
        before = self.controller.speculative_image
        answer = self.submit_twice(
            CreateTopics(topics=(topic,), seed=seed, request_id=self.request_id())
        )
        assert isinstance(answer, TopicsCreated)
        if answer.topics[0].error is not None:
            assert self.controller.speculative_image is before

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        self.submit_twice(
            DeleteTopics(topics=(TopicReference(name=name),), request_id=self.request_id())
        )

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4), seed=st.integers(0, 99))
    def add_partitions(self, name: str, count: int, seed: int) -> None:
        self.submit_twice(
            CreatePartitions(
                topics=(MorePartitions(name=name, count=count),),
                seed=seed,
                request_id=self.request_id(),
            )
        )

    # ---------------------------------------------------------------------- partitions

    def has_partitions(self) -> bool:
        return self.controller.speculative_image.index.count > 0

    def draw_partition(self, data: st.DataObject) -> PartitionRecord:
        partitions = list(all_partitions(self.controller.speculative_image))
        return data.draw(st.sampled_from(partitions))

    @precondition(has_partitions)
    @rule(
        data=st.data(),
        staleness=st.sampled_from(("", "", "", "", "leader", "partition", "member", "broker")),
        by=st.sampled_from(("leader", "leader", "leader", "another")),
    )
    def alter_partition(self, data: st.DataObject, staleness: str, by: str) -> None:
        partition = self.draw_partition(data)
        sender = partition.leader
        if sender is None or by == "another":
            sender = data.draw(st.sampled_from(BROKERS))
        members = self.draw_isr(data, partition)
        change = IsrChange(
            topic_id=partition.topic_id,
            partition=partition.partition,
            leader_epoch=LeaderEpoch(partition.leader_epoch - (staleness == "leader")),
            partition_epoch=PartitionEpoch(partition.partition_epoch - (staleness == "partition")),
            new_isr=tuple(
                IsrMember(broker_id=b, broker_epoch=self.epoch_of(b, stale=staleness == "member"))
                for b in members
            ),
        )
        before = self.controller.speculative_image
        answer = self.submit(
            AlterPartition(
                broker_id=sender,
                broker_epoch=self.epoch_of(sender, stale=staleness == "broker"),
                changes=(change,),
            ),
            joins=set(members),
        )
        if isinstance(answer, Refused):
            return
        assert isinstance(answer, PartitionsAltered)
        if answer.partitions[0].error is not None:
            assert self.controller.speculative_image is before, "a refusal changes nothing"
            return
        assert not staleness, f"a stale {staleness} epoch was taken"
        assert sender == partition.leader, "only the leader may change the ISR"
        for member in members:
            assert member in partition.isr or before.is_active(member), "only the living join"

    @rule()
    def followers_catch_up(self) -> None:
        """Every leader takes everybody who lives into its ISR."""
        for partition in all_partitions(self.controller.speculative_image):
            image = self.controller.speculative_image
            current = image.partition(partition.key)
            if current is None or current.leader is None:
                continue
            joining = [b for b in current.replicas if image.is_active(b) and b not in current.isr]
            members = [*current.isr, *joining]
            change = IsrChange(
                topic_id=current.topic_id,
                partition=current.partition,
                leader_epoch=current.leader_epoch,
                partition_epoch=current.partition_epoch,
                new_isr=tuple(
                    IsrMember(broker_id=b, broker_epoch=image.brokers[b].epoch) for b in members
                ),
            )
            leader_epoch = image.brokers[current.leader].epoch
            command = AlterPartition(
                broker_id=current.leader, broker_epoch=leader_epoch, changes=(change,)
            )
            answer = self.submit(command, joins=set(members))
            assert isinstance(answer, PartitionsAltered)
            assert answer.partitions[0].error is None, "who lives and is in sync may join"

    def draw_isr(self, data: st.DataObject, partition: PartitionRecord) -> list[BrokerId]:
        """Mostly what a leader would ask for: one more, or one fewer."""
        if data.draw(st.integers(0, 4)) == 0:
            return data.draw(st.lists(st.sampled_from(partition.replicas), unique=True))
        one = data.draw(st.sampled_from(partition.replicas))
        if one in partition.isr and one != partition.leader:
            return [member for member in partition.isr if member != one]
        return [*partition.isr, one] if one not in partition.isr else list(partition.isr)

    def epoch_of(self, broker_id: BrokerId, *, stale: bool) -> BrokerEpoch:
        broker = self.brokers[broker_id]
        if stale or broker.epoch is None:
            return broker.stale_epoch
        return broker.epoch

    @precondition(has_partitions)
    @rule(
        data=st.data(),
        election_type=st.sampled_from(ElectionType),
        every=st.sampled_from((True, True, False)),
    )
    def elect(self, data: st.DataObject, election_type: ElectionType, every: bool) -> None:
        partition = self.draw_partition(data)
        name = self.controller.speculative_image.topics[partition.topic_id].name
        self.submit_twice(
            ElectLeaders(
                election_type=election_type,
                partitions=None if every else ((name, partition.partition),),
                request_id=self.request_id(),
            )
        )

    @precondition(has_partitions)
    @rule(
        data=st.data(),
        replicas=st.none()
        | st.lists(st.sampled_from(BROKERS), max_size=4, unique=True).map(tuple)
        | st.permutations(BROKERS[:3]).map(tuple)
        | st.just((1, 1)),
    )
    def reassign(self, data: st.DataObject, replicas: tuple[BrokerId, ...] | None) -> None:
        partition = self.draw_partition(data)
        name = self.controller.speculative_image.topics[partition.topic_id].name
        wanted = Reassignment(topic=name, partition=partition.partition, replicas=replicas)
        self.submit_twice(
            AlterPartitionReassignments(reassignments=(wanted,), request_id=self.request_id())
        )

    @rule(
        data=st.data(),
        of_cluster=st.sampled_from((True, False, False)),
        value=st.sampled_from(("1", "2", "3", None)),
    )
    def set_min_isr(self, data: st.DataObject, of_cluster: bool, value: str | None) -> None:
        self.configure(data, of_cluster, ("min.insync.replicas", value))

    @rule(
        data=st.data(),
        of_cluster=st.booleans(),
        config=st.sampled_from(
            (
                ("min.insync.replicas", "0"),
                ("unclean.leader.election.enable", "true"),
                ("unclean.leader.election.enable", "false"),
                ("log.flush.mode", "os"),
                ("log.flush.mode", "group"),
                ("no.such.key", "1"),
            )
        ),
    )
    def set_another_config(
        self, data: st.DataObject, of_cluster: bool, config: tuple[str, str | None]
    ) -> None:
        self.configure(data, of_cluster, config)

    def configure(
        self, data: st.DataObject, of_cluster: bool, config: tuple[str, str | None]
    ) -> None:
        key, value = config
        names = sorted(self.controller.speculative_image.topic_ids) or NAMES
        resource = (
            CLUSTER_DEFAULT
            if of_cluster
            else ConfigResource(ResourceType.TOPIC, data.draw(st.sampled_from(names)))
        )
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        change = ConfigChange(key=key, operation=operation, value=value)
        self.submit_twice(
            IncrementalAlterConfigs(
                resources=(ResourceChange(resource=resource, changes=(change,)),),
                request_id=self.request_id(),
            )
        )

    # ---------------------------------------------------------------------------- raft

    @rule(count=st.integers(1, 3))
    def some_are_committed(self, count: int) -> None:
        for _ in range(min(count, len(self.in_flight))):
            self.commit_next()

    @rule()
    def raft_slows_down(self) -> None:
        self.is_slow = True

    @rule()
    def raft_catches_up(self) -> None:
        self.is_slow = False
        self.commit_all()

    @rule(survive=st.integers(0, 2))
    def leader_fails(self, survive: int) -> None:
        """Some of what is on its way is committed by the next leader, the rest is lost."""
        self.controller.deactivate()
        for _ in range(min(survive, len(self.in_flight))):
            self.commit_next()
        self.in_flight.clear()
        self.lost_at = dict(self.committed_lost_at)
        self.new_term()

    @rule()
    def next_proposal_is_refused(self) -> None:
        """Raft will refuse a proposal and take those after it, before the shell hears of it."""
        self.refuse_next = True
        self.is_slow = True

    @rule()
    def snapshot_is_taken(self) -> None:
        pieces = self.controller.capture()
        self.snapshot = (len(self.entries), b"".join(pieces()))

    def new_term(self) -> None:
        self.term += 1
        self.refuse_next = False
        self.is_slow = False
        self.append(b"")
        self.began_ms = self.now_ms
        self.controller.activate(self.now_ms, epoch=self.term)

    def commit_all(self) -> None:
        while self.in_flight:
            self.commit_next()

    def commit_next(self) -> None:
        self.append(self.in_flight.popleft().data)

    def append(self, data: bytes) -> None:
        offset = MetadataOffset(len(self.entries) + 1)
        before = self.shadow
        speculates = self.controller.speculative_image is not self.controller.image
        applied = apply_batch(before, data, offset=offset, epoch=self.term)
        entry = self.controller.apply(data, offset=offset, epoch=self.term)
        self.entries.append((self.term, data))
        self.shadow = applied.image
        assert entry.accepted == applied.accepted, "all nodes agree on what counts"
        assert self.controller.image == self.shadow, "all nodes come to the same image"
        if not applied.accepted:
            assert not (entry.speculation_kept and speculates), "a failed proposal is noticed"
            assert self.shadow.topics == before.topics
            assert self.shadow.brokers == before.brokers
        check_step(before, self.shadow)
        check_image(self.shadow)
        note_losses(before, self.shadow, self.committed_lost_at)
        if not entry.speculation_kept:
            self.lost_at = dict(self.committed_lost_at)

    # ------------------------------------------------------------------------ deciding

    def request_id(self) -> str:
        self.requests_made += 1
        return f"request-{self.requests_made}"

    def submit_twice(self, command: Command) -> Answer | Refused:
        """The second is a retry: answered alike, if anything changed, and not repeated."""
        before = self.controller.speculative_image
        answer = self.submit(command)
        after = self.controller.speculative_image
        if after is not before:
            retried = self.controller.submit(command, self.now_ms)
            assert retried.answer == answer, "a retry has the answer of the first"
            assert not retried.proposals, "a retry changes nothing"
        return answer

    def submit(
        self,
        command: Command,
        *,
        may_fence: set[BrokerId] | None = None,
        joins: set[BrokerId] | None = None,
    ) -> Answer | Refused:
        before = self.controller.speculative_image
        assert self.controller.handle(command, self.now_ms) is not None
        assert self.controller.speculative_image is before, "deciding changes nothing"
        decision = self.controller.submit(command, self.now_ms)
        after = self.controller.speculative_image
        assert decision.release_offset == after.offset
        if isinstance(decision.answer, Refused):
            assert not decision.proposals
            assert after is before, "a refused command changes nothing"
        fenceable = {b for b in BROKERS if not self.may_be_alive(b)} | (may_fence or set())
        self.decided(before, decision.proposals, may_fence=fenceable, joins=joins or set())
        return decision.answer

    def decided(
        self,
        before: MetadataImage,
        proposals: tuple[ProposedBatch, ...],
        *,
        may_fence: set[BrokerId],
        joins: set[BrokerId],
    ) -> None:
        after = self.controller.speculative_image
        for batch in proposals:
            if self.refuse_next:
                self.refuse_next = False
            else:
                self.in_flight.append(batch)
        check_image(after)
        for broker_id in newly_fenced(before, after):
            assert broker_id in may_fence, "nobody is fenced within its session"
        for key, broker_id in left_isr(before, after):
            since = before.partitions([key])[0].leader_epoch_offset or 0
            known = self.brokers[broker_id].metadata_offset
            assert known >= since, "who leaves the ISR knows the leader"
        self.check_unfenced(before, after)
        self.check_joins(before, after, joins)
        if not self.is_slow:
            self.commit_all()

    def check_unfenced(self, before: MetadataImage, after: MetadataImage) -> None:
        for broker_id, broker in after.brokers.items():
            old = before.brokers.get(broker_id)
            if old is None or not old.fenced or broker.fenced:
                continue
            known = self.brokers[broker_id].metadata_offset
            assert known >= old.epoch, "who is unfenced has read its registration"
            assert known >= self.lost_at.get(broker_id, 0), "who is unfenced has read its losses"
        note_losses(before, after, self.lost_at)

    def check_joins(
        self, before: MetadataImage, after: MetadataImage, joins: set[BrokerId]
    ) -> None:
        for new in all_partitions(after):
            old = before.partition(new.key)
            if old is None:
                continue
            for broker_id in set(new.isr) - set(old.isr) - joins:
                from_elr = broker_id in old.elr
                assert new.leader == broker_id, "only a leader joins the ISR by an election"
                assert from_elr or new.is_recovering

    @invariant()
    def speculation_is_dropped_to_what_is_committed(self) -> None:
        if not self.in_flight and not self.refuse_next:
            self.settle()

    def settle(self) -> None:
        """The shell hears of refused proposals once nothing is on its way any more."""
        if self.controller.speculative_image is not self.controller.image:
            self.controller.reset_speculation()
        self.lost_at = dict(self.committed_lost_at)

    def teardown(self) -> None:
        """Every log replays to the same image, from scratch and from a snapshot."""
        if not self.entries:
            return
        image = EMPTY_IMAGE
        start = 0
        while True:
            for index, (term, data) in enumerate(self.entries[start:], start + 1):
                applied = apply_batch(image, data, offset=MetadataOffset(index), epoch=term)
                image = applied.image
            assert image == self.shadow
            if self.snapshot is None or start:
                break
            start, encoded = self.snapshot
            image = decode_snapshot(encoded)
        assert decode_snapshot(b"".join(encode_snapshot(image))) == image


def note_losses(before: MetadataImage, after: MetadataImage, lost_at: dict[BrokerId, int]) -> None:
    """Notes who lost a leadership or its place in an ISR in this step."""
    for new in all_partitions(after):
        old = before.partition(new.key)
        if old is None:
            continue
        for broker_id in old.isr:
            if broker_id not in new.isr or (old.leader == broker_id != new.leader):
                lost_at[broker_id] = after.offset
