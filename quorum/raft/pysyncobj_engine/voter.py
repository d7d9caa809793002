"""pysyncobj with our parts in its place."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pysyncobj.syncobj as stock
from pysyncobj import SyncObj
from pysyncobj.node import Node

from floodmark.invariant import invariant
from quorum.raft import follower, snapshots
from quorum.raft.follower import Appended
from quorum.raft.frames import (
    AnyMessage,
    AppendAnswer,
    AppendEntries,
    BadFrame,
    LeaderAlive,
    ReadAnswer,
    ReadProbe,
    RecoveryAnswer,
    RecoveryRequest,
    RequestVote,
    SnapshotAnswer,
    SnapshotChunk,
    Vote,
)
from quorum.raft.journal import Journal, Ticket
from quorum.raft.journal_format import Damaged, LogEntry
from quorum.raft.outbox import Outbox
from quorum.raft.port import Entry, Leadership, Outcome, StateMachine, Status, VoterStatus
from quorum.raft.ports import Executor, Lane, RaftConfig
from quorum.raft.progress import Progress
from quorum.raft.proposals import Proposals
from quorum.raft.pysyncobj_engine.adapters import (
    JournalAdapter,
    Nodes,
    NoPoller,
    SerializerAdapter,
    TransportAdapter,
    stock_config,
)
from quorum.raft.reads import Reads
from quorum.raft.snapshots import Snapshot, SnapshotStore
from quorum.raft.transfers import MAX_SNAPSHOT_BYTES, Receiving, Sending

logger = logging.getLogger(__name__)

_COMMAND = b"\0"
"""pysyncobj's first byte of an ordinary command; its no-op has another."""
_ENTRIES_PER_FRAME = 20_000
SNAPSHOT_PAUSE_S = 10.0
"""After a snapshot that could not be written."""
_FOLLOWER = 0
"""pysyncobj's number of that state."""

Run = Callable[[Callable[[], None]], None]


class Voter(SyncObj):  # type: ignore[misc]
    """One voter: what pysyncobj does by itself, and what it is not trusted with."""

    def __init__(
        self,
        run: Run,
        config: RaftConfig,
        *,
        journal: Journal,
        store: SnapshotStore,
        snapshot: Snapshot | None,
        outbox: Outbox,
        executor: Executor,
        machine: StateMachine,
        is_recovering: bool,
        on_recovered: Callable[[], None],
    ) -> None:
        self._run = run
        """Does something as the engine does everything: an error in it stops the voter."""
        self._config = config
        self._journal = journal
        self._store = store
        self._outbox = outbox
        self._executor = executor
        self._machine = machine
        self._recovers_to: int | None = None
        self._is_recovering = is_recovering
        self._on_recovered = on_recovered
        self.proposals = Proposals(
            max_waiting=config.max_waiting_proposals, max_command_bytes=config.max_command_bytes
        )
        self.reads = Reads(voter_id=config.voter_id, majority=config.majority)
        self._progress: dict[int, Progress] = {}
        self._receiving: Receiving | None = None
        self._installing = False
        self._snapshot_index = snapshot.index if snapshot is not None else None
        self._snapshot_bytes = journal.size_bytes
        self._snapshot_not_before_s = 0.0
        self._poll_term = 0
        self._poll_granted: set[int] = set()
        self._poll_won = False
        self._voted: set[int] = set()
        self._leader_heard_s = -1.0e9
        self._SyncObj__raftElectionDeadline: float
        super().__init__(
            Node(config.voter_id),
            [],
            conf=stock_config(config, JournalAdapter(journal, store, is_alone=not config.others)),
            nodeClass=Node,
            transport=TransportAdapter(self),
        )
        self._SyncObj__otherNodes = Nodes([Node(other) for other in config.others])
        self._SyncObj__readonlyNodes = Nodes()
        self._SyncObj__connectedNodes = Nodes()
        self._SyncObj__serializer = SerializerAdapter(self)
        self._SyncObj__needLoadDumpFile = False
        self._poller = NoPoller()
        if snapshot is not None:
            machine.restore(snapshot.state, index=snapshot.index, term=snapshot.term)
            self._SyncObj__raftLastApplied = snapshot.index

    # ------------------------------------------------------------------------------- driving

    def connected(self, node: Node) -> None:
        self._SyncObj__connectedNodes[node] = None

    def disconnected(self, node: Node) -> None:
        self._SyncObj__connectedNodes.pop(node, None)
        if (progress := self._progress.get(node.id)) is not None:
            progress.sending = None

    def _onTick(self, timeToWait: float = 0.0) -> None:
        self._poll_before_standing()
        super()._onTick(timeToWait)
        if self._isLeader():
            self._send_snapshots()
        self._serve_reads()

    def after_work(self) -> None:
        """Starts the flush that this work needs, and sends what is true already."""
        self._flush()
        self._outbox.release()

    def _flush(self) -> None:
        if not self._config.others:
            self._journal.flush()  # nobody is kept waiting
            return
        ticket = self._journal.prepare_flush()
        if ticket is not None:
            self._submit(Lane.FLUSH, ticket.run, partial(self._flushed, ticket))

    def _flushed(self, ticket: Ticket, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._journal.complete_flush(ticket)
        for node in self._SyncObj__otherNodes:
            self._count(node)
        self.doTick(0.0)

    def _submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        """Has work done elsewhere; an error that `done` raises stops the voter."""
        self._executor.submit(lane, work, lambda error: self._run(partial(done, error)))

    @property
    def _now_s(self) -> float:
        return float(stock.monotonicTime())

    @property
    def _now_ms(self) -> int:
        return int(self._now_s * 1000)

    # ----------------------------------------------------------------------------- elections

    def _poll_before_standing(self) -> None:
        """Holds an election back until a majority says that it would vote for this voter.

        So a voter that was cut off, or has too little in its log, disturbs no leader and does not
        drive the term up.
        """
        if self._isLeader() or self._now_s <= self._SyncObj__raftElectionDeadline:
            return
        if self._poll_won:
            self._poll_won = False
            self._voted.clear()
            return
        self._SyncObj__raftElectionDeadline = self._now_s + self._SyncObj__generateRaftTimeout()
        if self._is_recovering:
            return
        self._SyncObj__raftLeader = None
        self._poll_term = self.raftCurrentTerm + 1
        self._poll_granted = set()
        self._granted(self._config.voter_id)
        last = self._journal.entries[-1]
        for node in self._SyncObj__otherNodes:
            poll = RequestVote(
                term=self._poll_term, last_index=last.index, last_term=last.term, poll=True
            )
            self.send(node, poll)

    def _granted(self, voter_id: int) -> None:
        self._poll_granted.add(voter_id)
        if len(self._poll_granted) >= self._config.majority:
            self._poll_won = True
            self._SyncObj__raftElectionDeadline = self._now_s - 1e-9

    def _on_poll(self, node: Node, poll: RequestVote) -> None:
        if poll.term <= self.raftCurrentTerm:
            self.send(node, self._alive())  # tells it of our term
            return
        mine = self._journal.entries[-1]
        led = self._isLeader() or (
            self._now_s - self._leader_heard_s < self._config.election_timeout_min_ms / 1000
        )
        if (
            not led
            and not self._is_recovering
            and (poll.last_term, poll.last_index) >= (mine.term, mine.index)
        ):
            self.send(node, Vote(term=poll.term, poll=True))

    def _step_down(self, term: int) -> None:
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__setState(_FOLLOWER)
        self._SyncObj__raftLeader = None

    def _SyncObj__onBecomeLeader(self) -> None:
        self._progress = {node.id: Progress() for node in self._SyncObj__otherNodes}
        super()._SyncObj__onBecomeLeader()

    # ------------------------------------------------------------------------------ messages

    def send(self, node: Node, message: AnyMessage) -> None:
        self._outbox.send(node.id, message)

    def receive(self, node: Node, message: AnyMessage) -> None:
        """Handles a message of another voter."""
        if node not in self._SyncObj__otherNodes:
            raise BadFrame(f"{node.id} is not a voter")
        is_poll = isinstance(message, RequestVote | Vote) and message.poll
        if message.term > self.raftCurrentTerm and not is_poll:
            self._step_down(message.term)
        match message:
            case AppendEntries() | LeaderAlive() | SnapshotChunk():
                self._from_leader(node, message)
            case AppendAnswer() | SnapshotAnswer() | ReadAnswer():
                self._from_follower(node, message)
            case RequestVote():
                if is_poll:
                    self._on_poll(node, message)
                elif not self._is_recovering:
                    self._on_request_vote(node, message)
            case Vote():
                self._on_vote(node, message)
            case ReadProbe():
                if message.term == self.raftCurrentTerm and self._getLeader() == node:
                    self._confirm_leader(node, message)
            case RecoveryRequest():
                self.reads.ask(partial(self._answer_recovery, node, message.term))
            case RecoveryAnswer():
                if self._is_recovering and message.term == self.raftCurrentTerm:
                    self._recovers_to = message.index

    def _on_request_vote(self, node: Node, request: RequestVote) -> None:
        super()._SyncObj__onMessageReceived(
            node,
            {
                "type": "request_vote",
                "term": request.term,
                "last_log_index": request.last_index,
                "last_log_term": request.last_term,
            },
        )

    def _on_vote(self, node: Node, vote: Vote) -> None:
        if vote.poll:
            if vote.term == self._poll_term == self.raftCurrentTerm + 1:
                self._granted(node.id)
        elif vote.term == self.raftCurrentTerm and node.id not in self._voted:
            self._voted.add(node.id)
            super()._SyncObj__onMessageReceived(node, {"type": "response_vote", "term": vote.term})

    # --------------------------------------------------------------------- the follower's side

    def _from_leader(
        self, node: Node, message: AppendEntries | LeaderAlive | SnapshotChunk
    ) -> None:
        if message.term < self.raftCurrentTerm:
            self.send(node, self._alive())  # tells a leader of the past of our term
            return
        invariant(not self._isLeader(), "two leaders in one term", term=message.term, other=node.id)
        self._poll_won = False
        self._leader_heard_s = self._now_s
        # Without entries pysyncobj takes note of the leader and of the time, and of nothing else.
        super()._SyncObj__onMessageReceived(
            node, {"type": "append_entries", "term": message.term, "commit_index": 0}
        )
        match message:
            case AppendEntries():
                self._append(node, message)
            case SnapshotChunk():
                self._take_chunk(node, message)
            case LeaderAlive():
                self.send(node, self._alive())

    def _alive(self) -> AppendAnswer:
        return AppendAnswer(
            term=self.raftCurrentTerm,
            next_index=0,
            success=False,
            retry=False,
            attempt=0,
            counts=not self._is_recovering,
        )

    def _append(self, node: Node, message: AppendEntries) -> None:
        if self._installing:
            self.send(node, self._alive())
            return
        appended = follower.append(self._journal, message, commit_index=self.raftCommitIndex)
        self._answer(node, message, appended)
        if appended.success:
            self._commit(min(message.commit_index, appended.next_index - 1))
            if self._is_recovering:
                self._see_recovery(node)

    def _answer(self, node: Node, to: AppendEntries, appended: Appended) -> None:
        answer = AppendAnswer(
            term=self.raftCurrentTerm,
            next_index=appended.next_index,
            success=appended.success,
            retry=not appended.success,
            attempt=to.attempt,
            counts=not self._is_recovering,
        )
        self.send(node, answer)

    def _commit(self, index: int) -> None:
        if index > self.raftCommitIndex:
            self._SyncObj__raftCommitIndex = index
            self._journal.set_commit_index(index)
        self._SyncObj__leaderCommitIndex = self.raftCommitIndex

    def _see_recovery(self, leader: Node) -> None:
        """Ends a recovery once this voter holds what was committed when it came back."""
        if self._recovers_to is None:
            self.send(leader, RecoveryRequest(term=self.raftCurrentTerm))
        elif min(self._journal.durable_index, self.raftCommitIndex) >= self._recovers_to:
            self._is_recovering = False
            logger.info("recovered: this voter holds everything up to %d", self._recovers_to)
            self._on_recovered()

    def _confirm_leader(self, leader: Node, probe: ReadProbe) -> None:
        if not self._is_recovering:
            self.send(leader, ReadAnswer(term=probe.term, sequence=probe.sequence))

    # ----------------------------------------------------------------------- the leader's side

    def send_entries(self, node: Node, message: dict[str, Any]) -> None:
        """Sends pysyncobj's batch, in as many frames as it takes."""
        progress = self._progress[node.id]
        term, commit_index = message["term"], message["commit_index"]
        if progress.sending is not None:
            self.send(node, LeaderAlive(term=term, commit_index=commit_index))
            return
        prev_index, prev_term = message["prevLogIdx"], message["prevLogTerm"]
        entries: list[LogEntry] = message["entries"]
        for start in range(0, max(1, len(entries)), _ENTRIES_PER_FRAME):
            part = entries[start : start + _ENTRIES_PER_FRAME]
            append = AppendEntries(
                term=term,
                commit_index=commit_index,
                prev_index=prev_index,
                prev_term=prev_term,
                attempt=progress.attempt,
                entries=part,  # type: ignore[arg-type]
            )
            self.send(node, append)
            if part:
                prev_index, prev_term = part[-1].index, part[-1].term

    def _from_follower(
        self, node: Node, message: AppendAnswer | SnapshotAnswer | ReadAnswer
    ) -> None:
        if message.term < self.raftCurrentTerm or not self._isLeader():
            return
        if isinstance(message, ReadAnswer) or message.counts:
            self._SyncObj__lastResponseTime[node] = self._now_s
        progress = self._progress[node.id]
        match message:
            case AppendAnswer():
                progress.answered(message, last_index=self._journal.last_index, now_ms=self._now_ms)
                self._go_on(node, progress, message)
            case SnapshotAnswer():
                if progress.sending is not None:
                    progress.sending.answered(message, now_ms=self._now_ms)
            case ReadAnswer():
                self.reads.confirm(node.id, term=message.term, sequence=message.sequence)

    def _go_on(self, node: Node, progress: "Progress", answer: AppendAnswer) -> None:
        next_indexes = self._SyncObj__raftNextIndex
        if answer.success:
            self._count(node)
            sending = progress.sending
            if sending is not None and answer.next_index > sending.index:
                progress.sending = None
                progress.attempt += 1
                next_indexes[node] = answer.next_index
            next_indexes[node] = max(next_indexes[node], answer.next_index)
        elif answer.retry and answer.attempt == progress.attempt and progress.sending is None:
            progress.attempt += 1
            next_indexes[node] = min(answer.next_index, self._journal.last_index + 1)
            self._SyncObj__newAppendEntriesTime = 0

    def _count(self, node: Node) -> None:
        """What pysyncobj may count as stored by a follower when it looks for a majority.

        It counts the leader as one that has stored everything. That is true only of what is on
        the leader's disk, so nobody is counted beyond that.
        """
        progress = self._progress.get(node.id)
        if progress is not None and self._isLeader():
            match_index = min(progress.counted_index, self._journal.durable_index)
            self._SyncObj__raftMatchIndex[node] = match_index

    def _answer_recovery(self, node: Node, term: int, index: int | None) -> None:
        if index is not None and term == self.raftCurrentTerm:
            self.send(node, RecoveryAnswer(term=term, index=index))

    def _checkCommandsToApply(self) -> None:
        """Gives every proposal that waits a place in the log, if this voter leads."""
        if not self._isLeader():
            self.proposals.refuse_all(Outcome.NOT_LEADER)
            return
        size_bytes = 0
        while size_bytes < self._config.max_command_bytes:
            taken = self.proposals.take()
            if taken is None:
                break
            data, done = taken
            index, term = self._journal.last_index + 1, self.raftCurrentTerm
            self._journal.append(LogEntry(_COMMAND + data, index, term))
            self.proposals.place(index, term, done)
            size_bytes += len(data)
        if size_bytes:
            self._SyncObj__sendAppendEntries()

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:
        index = self.raftLastApplied + 1
        entry = self._journal.entries[index - self._journal.first_index]
        invariant(entry.index == index, "an entry to apply is gone", index=index)
        data = command[1:] if command[:1] == _COMMAND else b""
        self._machine.apply(Entry(index=index, term=entry.term, data=data))
        self.proposals.applied(index, entry.term)

    # ------------------------------------------------------------------------------- reading

    def _serve_reads(self) -> None:
        if not self.leadership().is_active:
            self.reads.fail_all()
            return
        begun = self.reads.begin(term=self.raftCurrentTerm, commit_index=self.raftCommitIndex)
        probe = self.reads.probe
        if probe is not None and (begun or self._now_s >= self._probe_again_s):
            self._probe_again_s = self._now_s + self._config.heartbeat_ms / 1000
            for node in self._SyncObj__otherNodes:
                self.send(node, ReadProbe(term=self.raftCurrentTerm, sequence=probe))
        self.reads.applied(self.raftLastApplied)

    _probe_again_s = 0.0

    def leadership(self) -> Leadership:
        leader = self._getLeader()
        is_active = self._isLeader() and self.raftLastApplied >= self._SyncObj__noopIDx
        return Leadership(
            leader_id=leader.id if leader is not None else None,
            term=self.raftCurrentTerm,
            is_active=is_active,
        )

    def status(self, leadership: Leadership) -> Status:
        last_index = self._journal.last_index
        me = VoterStatus(
            voter_id=self._config.voter_id,
            log_end_index=self._journal.durable_index + 1,
            last_fetch_ms=None,
            last_caught_up_ms=None,
        )
        others = self._progress if self._isLeader() else {}
        voters = [me, *(progress.status(voter_id) for voter_id, progress in others.items())]
        return Status(
            voter_id=self._config.voter_id,
            leadership=leadership,
            high_watermark=self.raftCommitIndex + 1,
            applied_index=self.raftLastApplied,
            log_start_index=self._journal.first_index,
            log_end_index=last_index + 1,
            snapshot_index=self._snapshot_index,
            voters=tuple(sorted(voters, key=lambda voter: voter.voter_id)),
        )

    # ----------------------------------------------------------------------------- snapshots

    def _SyncObj__tryLogCompaction(self) -> None:
        if self._now_s < self._snapshot_not_before_s:
            return
        grown = self._journal.size_bytes - self._snapshot_bytes
        if grown > self._config.snapshot_bytes:
            self._snapshot_bytes = self._journal.size_bytes
            self.forceLogCompaction()
        super()._SyncObj__tryLogCompaction()

    def save_snapshot(self, base: tuple[LogEntry, LogEntry], saved: Callable[[bool], None]) -> None:
        """Takes a snapshot: of the state now, encoded and written elsewhere."""
        state = self._machine.capture()

        def work() -> None:
            self._store.save(base, snapshots.encode(base, state()))

        def done(error: Exception | None) -> None:
            if error is None:
                self._snapshot_index = max(self._snapshot_index or 0, base[1].index)
                self._snapshot_bytes = self._journal.size_bytes
            else:
                logger.error("no snapshot at index %d: %s", base[1].index, error)
                self._snapshot_not_before_s = self._now_s + SNAPSHOT_PAUSE_S
            saved(error is None)

        self._submit(Lane.SNAPSHOT, work, done)

    def begin_transfer(self, node: Node) -> None:
        progress = self._progress[node.id]
        if progress.sending is not None or self._snapshot_index is None:
            return
        try:
            data = self._store.read(self._snapshot_index)
        except Damaged as damage:
            logger.error("the snapshot at %d: %s; taking another", self._snapshot_index, damage)
            self._snapshot_index = self._SyncObj__lastSerializedEntry = None
            self.forceLogCompaction()
        else:
            progress.sending = Sending(self._snapshot_index, data, self._now_ms)

    def _send_snapshots(self) -> None:
        for voter_id, progress in self._progress.items():
            if progress.sending is not None:
                chunks = progress.sending.chunks(
                    term=self.raftCurrentTerm,
                    now_ms=self._now_ms,
                    patience_ms=self._config.election_timeout_max_ms,
                )
                for chunk in chunks:
                    self._outbox.send(voter_id, chunk)

    def _take_chunk(self, node: Node, chunk: SnapshotChunk) -> None:
        if chunk.size_bytes > MAX_SNAPSHOT_BYTES:
            raise BadFrame(f"a snapshot of {chunk.size_bytes} bytes")
        if self._installing:
            self.send(node, self._alive())
            return
        if chunk.index <= self.raftLastApplied:
            self._receiving = None
            self._answer_snapshot(node)
            return
        if self._receiving is None or not self._receiving.is_of(chunk):
            self._receiving = Receiving.begin(chunk)
        self._receiving.take(chunk)
        position = len(self._receiving.data)
        self.send(
            node,
            SnapshotAnswer(
                term=self.raftCurrentTerm,
                index=chunk.index,
                position=position,
                counts=not self._is_recovering,
            ),
        )
        if self._receiving.is_complete:
            data = bytes(self._receiving.data)
            self._receiving = None
            self._install(node, data)

    def _install(self, node: Node, data: bytes) -> None:
        try:
            snapshot = snapshots.decode(data)
        except Damaged as damage:
            logger.error("voter %d sent a snapshot that is damaged: %s", node.id, damage)
            return
        self._installing = True
        save = partial(self._store.save, snapshot.base, [data])
        self._submit(Lane.SNAPSHOT, save, partial(self._installed, snapshot))

    def _installed(self, snapshot: Snapshot, error: Exception | None) -> None:
        self._installing = False
        if error is not None:
            raise error
        if snapshot.index > self.raftLastApplied:
            self._machine.restore(snapshot.state, index=snapshot.index, term=snapshot.term)
            mine = self._journal.at(snapshot.index)
            if mine is not None and mine.term == snapshot.term:
                self._journal.trim(
                    keep_from=snapshot.index - 1, snapshot_index=self._store.oldest_index()
                )
            else:
                self._journal.reset(snapshot.base)
            self._SyncObj__raftLastApplied = snapshot.index
            self._snapshot_index = snapshot.index
            self._commit(snapshot.index)
            self.proposals.skipped_to(snapshot.index)
        leader = self._getLeader()
        if leader is not None and not self._isLeader():
            self._answer_snapshot(leader)

    def _answer_snapshot(self, node: Node) -> None:
        """Everything that is applied here is committed, so the leader has the same."""
        answer = AppendAnswer(
            term=self.raftCurrentTerm,
            next_index=self.raftLastApplied + 1,
            success=True,
            retry=False,
            attempt=0,
            counts=not self._is_recovering,
        )
        self.send(node, answer)
