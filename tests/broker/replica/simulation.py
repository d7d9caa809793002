"""One partition on three brokers, with the real controller and everything that can go wrong.

First the faults, then a time without: the partition has to come back. The judge looks on.
"""

from collections.abc import Callable

from broker.replica.effects import ProduceAnswered, ProposeIsr, ReadAnswered
from broker.replica.events import (
    Acks,
    Append,
    Event,
    IsrAltered,
    IsrRefused,
    IsrUnknown,
    Read,
    RequestId,
)
from jepsen_style.sim.world import Violation, World
from kafka_wire.records import iter_batches, iter_records
from kafka_wire.types import LeaderEpoch, Offset
from quorum.metadata.commands import (
    AlterPartition,
    Answer,
    BrokerRegistered,
    ElectLeaders,
    Heartbeat,
    HeartbeatAnswer,
    IsrChange,
    PartitionsAltered,
    Refused,
)
from quorum.metadata.types import BrokerId, ElectionType
from tests.broker.replica.brokers import TOPIC, SimBroker, Transport, partition_of
from tests.broker.replica.judge import EQUAL, LIVE, Judge, values_below
from tests.log.batches import batch_of
from tests.quorum.metadata.cluster import Cluster, directory, registration

BROKERS: tuple[BrokerId, ...] = (1, 2, 3)
HEARTBEAT_MS = 500
LINK_MS = (1, 2, 4, 8)
CONTROLLER = 0
CHAOS_S = 20.0
CALM_S = 25.0
FAULTS = (
    *("kill", "power", "power", "power all", "wipe", "pause", "elect", "elect"),
    *("cut", "heal", "heal", "mute", "controller", "depose", "depose", "leave behind"),
)
SERVED = 20
"""Requests of either kind, after the faults."""


class Simulation:
    """`run` raises a `Violation`, or an `InvariantViolation` of the code itself, or returns."""

    def __init__(self, seed: int, *, min_isr: int = 2) -> None:
        self.world = World(seed)
        self.judge = Judge()
        self.cluster = Cluster(now_ms=self.now_ms)
        self.blocked: set[tuple[int, int]] = set()
        self.is_calm = False
        self.quiet_until_ms = 0
        """A plot is under way, which other faults would only spoil."""
        self.loses_proposals_until_ms = 0
        self.kills_joined_until_ms = 0
        self.drop = self.world.random.choice((0.0, 0.02, 0.1))
        self.double = self.world.random.choice((0.0, 0.05, 0.3))
        self.late_ms = self.world.random.choice((50, 400))
        self.produced: dict[tuple[int, int, RequestId], bytes] = {}
        self.reading: dict[tuple[int, int, RequestId], int] = {}
        self.values = 0
        transport = Transport(
            to_broker=self._to_broker,
            current_epoch=self._current_epoch,
            propose=self._propose,
            produced=self._produced,
            read=self._read_answered,
        )
        self.brokers = {b: SimBroker(b, self.world, self.judge, transport) for b in BROKERS}
        slow = self.world.random.choice(((1, 2, 5), (1, 10, 60), (5, 150)))
        self.cluster.start(*BROKERS)
        self.cluster.create(TOPIC, BROKERS, configs=(("min.insync.replicas", str(min_isr)),))
        for broker_id, broker in self.brokers.items():
            broker.flush_ms = slow
            broker.start()
            broker.broker_epoch = self.cluster.epochs[broker_id]
        self._spread()
        if seed % 4 == 3:
            self.quiet_until_ms = self.now_ms + 2_000
            self.drop = 0.0
            self.world.after(1.5, lambda: self._leave_behind(self.brokers[1], self.brokers[2]))
        for every_ms, action in (
            (HEARTBEAT_MS, self._heartbeats),
            (100, self._periodic),
            (35, self._produce),
            (45, self._read),
            (self.world.random.choice((400, 1000, 2000)), self._fault),
        ):
            self._repeat(every_ms, action)

    @property
    def now_ms(self) -> int:
        return int(self.world.now_s * 1000)

    def run(self) -> None:
        self.world.run(CHAOS_S)
        self._calm()
        before = (self.judge.acknowledged, self.judge.reads)
        if not self.world.run(CALM_S, until=lambda: self._is_well(*before)):
            raise Violation(LIVE, f"{before} {self.judge} {partition_of(self.cluster.image)}")
        for broker in self.brokers.values():
            values = values_below(broker.log, broker.log.high_watermark)
            if values != self.judge.committed[: len(values)]:
                raise Violation(EQUAL, f"{broker.who} in the end")

    # ------------------------------------------------------------------------- controller

    def _spread(self) -> None:
        """Every broker learns of the newest image some time; images may be skipped."""
        image = self.cluster.image
        for broker_id, broker in self.brokers.items():
            delay_ms = self.world.random.choice((1, 5, 20, 150))
            life = broker.life

            def arrive(broker: SimBroker = broker, life: int = life) -> None:
                if broker.is_up and broker.life == life and self._passes(CONTROLLER, broker):
                    broker.run(lambda: broker.learn(image))

            self.world.after(delay_ms / 1000, arrive)
            del broker_id

    def _passes(self, sender: int, receiver: SimBroker) -> bool:
        return self.is_calm or (sender, receiver.broker_id) not in self.blocked

    def submit(self, command: Heartbeat | AlterPartition | ElectLeaders) -> Answer | Refused:
        self.cluster.now_ms = self.now_ms
        before = self.cluster.image
        answer = self.cluster.submit(command)
        if self.cluster.image is not before:
            self._spread()
        return answer

    def _periodic(self) -> None:
        self.cluster.now_ms = self.now_ms
        self.cluster.periodic()
        # Also without news: what got lost is sent again.
        self._spread()

    def _heartbeats(self) -> None:
        for broker in self.brokers.values():
            if broker.is_up:
                broker.run(lambda broker=broker: self._heartbeat(broker))  # type: ignore[misc]

    def _heartbeat(self, broker: SimBroker) -> None:
        if broker.broker_epoch is None:
            self._register(broker)
            return
        sent_ms, life = self.now_ms, broker.life
        beat = Heartbeat(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            metadata_offset=type(self.cluster.image.offset)(broker.metadata_offset),
        )

        def at_controller() -> None:
            answer = self.submit(beat)
            if isinstance(answer, HeartbeatAnswer):
                self._send(CONTROLLER, broker.broker_id, lambda: acknowledged(answer))

        def acknowledged(answer: HeartbeatAnswer) -> None:
            if broker.is_up and broker.life == life:
                broker.run(lambda: take(answer))

        def take(answer: HeartbeatAnswer) -> None:
            if answer.is_fenced:
                broker.lease.revoke()
            else:
                broker.lease.acknowledged(
                    sent_ms=sent_ms, session_timeout_ms=answer.session_timeout_ms
                )

        self._send(broker.broker_id, CONTROLLER, at_controller)

    def _register(self, broker: SimBroker) -> None:
        self.cluster.now_ms = self.now_ms
        command = registration(
            broker.broker_id,
            incarnation=broker.life,
            directories=(directory(broker.broker_id, broker.disk),),
        )
        answer = self.cluster.submit(command)
        if isinstance(answer, BrokerRegistered):
            broker.broker_epoch = answer.broker_epoch
            self.world.tell(broker.who, "is registered with", answer.broker_epoch)
            self._spread()

    def _propose(self, broker: SimBroker, effect: ProposeIsr) -> None:
        partition = partition_of(self.cluster.image)
        assert partition is not None
        assert broker.broker_epoch is not None
        life = broker.life
        command = AlterPartition(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            changes=(
                IsrChange(
                    topic_id=partition.topic_id,
                    partition=0,
                    leader_epoch=effect.leader_epoch,
                    partition_epoch=effect.partition_epoch,
                    new_isr=effect.new_isr,
                ),
            ),
        )

        joining = [m.broker_id for m in effect.new_isr if m.broker_id not in partition.isr]

        def at_controller() -> None:
            event = answer_event(effect, self.submit(command))
            self.world.tell("AlterPartition", effect, event)
            if joining and isinstance(event, IsrAltered):
                self._joined(broker)

            def at_leader() -> None:
                if broker.is_up and broker.life == life:
                    broker.run(lambda: broker.step(event))

            self._send(CONTROLLER, broker.broker_id, at_leader)

        if self.now_ms < self.loses_proposals_until_ms and not self.is_calm:
            return
        if joining and not self.is_calm and self.world.chance(0.15):
            self._ambush(broker, joining[0], at_controller)
        else:
            self._send(broker.broker_id, CONTROLLER, at_controller)

    def _joined(self, leader: SimBroker) -> None:
        """Whoever has just joined may be all that is left, or the first in line."""
        if self.now_ms < self.kills_joined_until_ms:
            self._kill_later(leader, 0.0)
        elif self.world.chance(0.3):
            self._kill_later(leader, self.world.random.choice((0.0, 0.005, 0.05)))

    # ---------------------------------------------------------------------------- network

    def _send(self, sender: int, receiver: int, action: Callable[[], None]) -> None:
        """Lost, late, twice: as the weather of the seed is."""
        link = (sender, receiver)
        if not self.is_calm and (link in self.blocked or self.world.chance(self.drop)):
            return
        self.world.after(self.world.random.choice(LINK_MS) / 1000, action)
        if not self.is_calm and self.world.chance(self.double):
            late_ms = self.world.random.uniform(0, self.late_ms)
            self.world.after(late_ms / 1000, action)

    def _to_broker(
        self, sender: BrokerId, receiver: BrokerId, action: Callable[[SimBroker], None]
    ) -> None:
        broker = self.brokers[receiver]

        def arrive() -> None:
            if broker.is_up:
                broker.run(lambda: action(broker))

        self._send(sender, receiver, arrive)

    # ---------------------------------------------------------------------------- clients

    def _produce(self) -> None:
        """Sends a record to somebody who may be the leader."""
        self.values += 1
        value = b"%d" % self.values

        def make(request_id: RequestId) -> Event:
            return Append(
                request_id=request_id,
                batch=batch_of([value]),
                acks=Acks.ALL,
                deadline_ms=self.now_ms + 1500,
            )

        def sent(broker: SimBroker, request_id: RequestId) -> None:
            self.produced[(*broker.who, request_id)] = value

        self._ask(make, sent)

    def _read(self) -> None:
        must = self.judge.must
        wait_ms = self.world.random.choice((None, 300))
        from_start = self.world.chance(0.1)

        def make(request_id: RequestId) -> Event:
            return Read(
                request_id=request_id,
                fetch_offset=Offset(0 if from_start else must),
                max_bytes=100_000,
                deadline_ms=None if wait_ms is None else self.now_ms + wait_ms,
            )

        def sent(broker: SimBroker, request_id: RequestId) -> None:
            self.reading[(*broker.who, request_id)] = must

        self._ask(make, sent)

    def _ask(
        self, make: Callable[[RequestId], Event], sent: Callable[[SimBroker, RequestId], None]
    ) -> None:
        """Requests reach every process that takes itself for the leader."""
        for broker in self.brokers.values():
            if not broker.is_up or broker.partition is None or broker.partition.leader is None:
                continue

            def arrive(broker: SimBroker = broker) -> None:
                if broker.partition is not None:
                    request_id = broker.request_id()
                    sent(broker, request_id)
                    broker.step(make(request_id))

            broker.later(self.world.random.choice(LINK_MS), arrive)

    def _produced(self, broker: SimBroker, answer: ProduceAnswered) -> None:
        value = self.produced.pop((*broker.who, answer.request_id))
        if answer.error is None:
            assert answer.base_offset is not None
            self.judge.acknowledges(broker.who, answer.base_offset, value)

    def _read_answered(self, broker: SimBroker, answer: ReadAnswered) -> None:
        must = self.reading.pop((*broker.who, answer.request_id))
        if answer.error is not None or answer.high_watermark is None:
            return
        values: list[bytes] = []
        if answer.records is not None and answer.records.base_offset == 0:
            for _, batch in iter_batches(answer.records.read()):
                values += [record.value or b"" for record in iter_records(batch)]
        self.judge.reads_until(broker.who, must, answer.high_watermark, values)

    # ----------------------------------------------------------------------------- faults

    def _fault(self) -> None:
        if self.is_calm or self.now_ms < self.quiet_until_ms:
            return
        chance = self.world.random
        broker = self.brokers[chance.choice(BROKERS)]
        leader = self._leader()
        if leader is not None and self.world.chance(0.4):
            broker = leader
        kind = chance.choice(FAULTS)
        self.world.tell("FAULT", kind, broker.who)
        match kind:
            case "kill" | "power" if broker.is_up:
                self._stop(broker, lambda: broker.kill(power=kind == "power"))
            case "power all":
                for each in self.brokers.values():
                    if each.is_up:
                        self._stop(each, lambda each=each: each.kill(power=True))  # type: ignore[misc]
            case "wipe" if self._may_lose(broker):
                self._stop(broker, broker.wipe)
            case "pause" if broker.is_up and not broker.is_paused:
                broker.is_paused = True
                self._resume_later(broker, chance.choice((0.1, 1.0, 4.0)))
            case "elect":
                self._elect()
            case "leave behind" if leader is not None:
                self._leave_behind(leader, broker)
            case "cut":
                sides = (CONTROLLER, *BROKERS)
                links = [(a, b) for a in sides for b in sides if a != b]
                self.blocked = set(chance.sample(links, chance.randint(1, 4)))
            case "heal":
                self.blocked = set()
            case "mute":
                self.blocked |= {(broker.broker_id, b) for b in BROKERS}
            case "depose" if leader is not None:
                self._depose(leader)
            case "controller":
                self.cluster.now_ms = self.now_ms
                self.cluster.fail_over()

    def _current_epoch(self) -> LeaderEpoch:
        partition = partition_of(self.cluster.image)
        assert partition is not None
        return partition.leader_epoch

    def _leader(self) -> SimBroker | None:
        partition = partition_of(self.cluster.image)
        if partition is None or partition.leader is None:
            return None
        return self.brokers[partition.leader]

    def _may_lose(self, broker: SimBroker) -> bool:
        """A disk may go if the others have everything, and are known to have it."""
        partition = partition_of(self.cluster.image)
        assert partition is not None
        candidates = {*partition.isr, *partition.elr} - {broker.broker_id}
        others = [b for b in self.brokers.values() if b is not broker]
        return (
            broker.is_up
            and all(b.is_up for b in others)
            and len(candidates) == len(others)
            and all(b.log.recovery_point >= len(self.judge.committed) for b in others)
        )

    def _stop(
        self, broker: SimBroker, how: Callable[[], None], *, delay_s: float | None = None
    ) -> None:
        self._forget_requests(broker)
        how()
        if delay_s is None:
            delay_s = self.world.random.choice((0.1, 0.5, 4.0))
        life = broker.life

        def start() -> None:
            if not broker.is_up and broker.life == life:
                broker.start()

        self.world.after(delay_s, start)

    def _forget_requests(self, broker: SimBroker) -> None:
        for waiting in (self.produced, self.reading):
            for key in [key for key in waiting if key[:2] == broker.who]:
                del waiting[key]

    def _resume_later(self, broker: SimBroker, delay_s: float) -> None:
        life = broker.life
        self.world.after(delay_s, lambda: broker.resume() if broker.life == life else None)

    def _ambush(
        self, leader: SimBroker, joining: BrokerId, at_controller: Callable[[], None]
    ) -> None:
        """Whoever was about to join comes back with an empty disk, before the proposal arrives
        that says how much it had; and its way to the leader is cut (KIP-903)."""
        broker = self.brokers[joining]
        partition = partition_of(self.cluster.image)
        assert partition is not None
        others = [b for b in self.brokers.values() if b is not broker]
        if not broker.is_up or not all(b.is_up for b in others):
            return
        self.world.tell("AMBUSH", broker.who)
        self._forget_requests(broker)
        broker.wipe()
        broker.start()
        self.blocked = {(joining, b) for b in BROKERS}
        self.quiet_until_ms = self.now_ms + 10_000
        self.loses_proposals_until_ms = self.now_ms + 5600
        for delay_s in (4.0, 4.5, 5.0, 5.5):
            self.world.after(delay_s, at_controller)
        self.world.after(5.6, self._elect)
        self._kill_later(leader, 5.7)

    def _leave_behind(self, leader: SimBroker, broker: SimBroker) -> None:
        """A follower is away while records are committed; when it is back, the others have just
        lost their power, and with it all knowledge of the high watermark (KAFKA-7128)."""
        if broker is leader or not all(b.is_up for b in self.brokers.values()):
            return
        self.blocked = set()
        self.quiet_until_ms = self.now_ms + 14_000
        self.kills_joined_until_ms = self.now_ms + 9_000
        self._stop(broker, lambda: broker.kill(power=True), delay_s=4.5)
        for each in self.brokers.values():
            if each is not broker:
                self._kill_later(each, 4.6)

    def _elect(self) -> None:
        self.submit(ElectLeaders(election_type=ElectionType.PREFERRED, partitions=None))

    def _depose(self, leader: SimBroker) -> None:
        """The leader goes on alone, with clients, until another is elected; then it is back."""
        others = [b for b in BROKERS if b != leader.broker_id]
        apart = {(leader.broker_id, b) for b in others} | {(b, leader.broker_id) for b in others}
        self.blocked = apart | {(leader.broker_id, CONTROLLER), (CONTROLLER, leader.broker_id)}
        self.quiet_until_ms = self.now_ms + 4500

        def heal() -> None:
            self.blocked = set()

        self.world.after(self.world.random.uniform(3.3, 4.5), heal)

    def _kill_later(self, broker: SimBroker, delay_s: float) -> None:
        life = broker.life

        def kill() -> None:
            if broker.is_up and broker.life == life and not self.is_calm:
                self.world.tell("PLOT kills", broker.who)
                self._stop(broker, lambda: broker.kill(power=True))

        self.world.after(delay_s, kill)

    def _calm(self) -> None:
        self.is_calm = True
        for broker in self.brokers.values():
            if broker.is_paused:
                broker.resume()
            if not broker.is_up:
                broker.start()

    def _is_well(self, acknowledged: int, reads: int) -> bool:
        """Everybody is in sync, and both writers and readers are served."""
        partition = partition_of(self.cluster.image)
        return (
            self.judge.acknowledged >= acknowledged + SERVED
            and self.judge.reads >= reads + SERVED
            and partition is not None
            and len(partition.isr) == len(BROKERS)
        )

    def _repeat(self, every_ms: int, action: Callable[[], None]) -> None:
        def again() -> None:
            action()
            self.world.after(every_ms * self.world.random.uniform(0.5, 1.5) / 1000, again)

        again()


def answer_event(effect: ProposeIsr, answer: Answer | Refused) -> Event:
    if isinstance(answer, Refused):
        return IsrRefused(proposal_id=effect.proposal_id, error=answer.code)
    if not isinstance(answer, PartitionsAltered):
        return IsrUnknown(proposal_id=effect.proposal_id)
    altered = answer.partitions[0]
    if altered.error is not None:
        return IsrRefused(proposal_id=effect.proposal_id, error=altered.error.code)
    assert altered.leader_epoch is not None
    assert altered.partition_epoch is not None
    assert altered.effective_min_isr is not None
    return IsrAltered(
        proposal_id=effect.proposal_id,
        leader_epoch=altered.leader_epoch,
        partition_epoch=altered.partition_epoch,
        isr=altered.isr,
        effective_min_isr=altered.effective_min_isr,
    )
