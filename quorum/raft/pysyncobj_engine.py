"""The Raft engine: pysyncobj, with everything replaced that loses data or trusts strangers.

Kept of pysyncobj 0.3.17: elections (with its no-op at the start of a term), the leader's
replication loop and batching, and the rule that a leader commits by counting only entries of its
own term. Replaced, here or in the modules beside this one, each because the stock version breaks
a promise (docs/decisions/0006 has the list, tests/quorum/raft/test_stock_bugs.py the proofs):

* the journal, and with it what is durable before a promise leaves (`journal`, `outbox`);
* the follower's side of replication: only a conflict truncates, and never what is committed;
* acknowledgements: they carry the term, and do not send the leader back;
* snapshots: no fork, checksums, flow control (`snapshots`, `transfers`);
* commands: opaque bytes, proposed to the leader only, with an outcome that is never guessed;
* messages: typed (`frames`), never pickled; any newer term makes a leader step down.

Added: pre-vote, leaders that resign, ReadIndex, and nodes in an order that no hash decides.

This is the only module that knows pysyncobj, and all private names of it that we touch are here.
The version and the source of every method that we replace or rest on are pinned: an upgrade that
changes one is refused until somebody has read it.
"""

import hashlib
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from random import Random
from typing import Any

import pysyncobj.syncobj as stock
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.config import SERIALIZER_STATE
from pysyncobj.journal import Journal as StockJournal
from pysyncobj.node import Node
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

from floodmark.invariant import invariant
from log.filesystem import FileSystem
from quorum.raft import frames, snapshots
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
from quorum.raft.pinned import METHODS, PYSYNCOBJ_VERSION
from quorum.raft.port import (
    Entry,
    Leadership,
    Observer,
    Outcome,
    Proposal,
    StateMachine,
    Status,
    VoterStatus,
)
from quorum.raft.ports import Executor, Lane, Network, RaftConfig
from quorum.raft.proposals import Proposals, call
from quorum.raft.reads import Reads
from quorum.raft.snapshots import Snapshot, SnapshotStore
from quorum.raft.transfers import MAX_SNAPSHOT_BYTES, Receiving, Sending

logger = logging.getLogger(__name__)

_COMMAND = b"\0"
"""pysyncobj's first byte of an ordinary command; its no-op has another."""
_ENTRIES_PER_FRAME = 20_000
_FOLLOWER, _CANDIDATE, _LEADER = 0, 1, 2


@cache
def check_pin() -> None:
    """Raises unless this is the pysyncobj that was read and tested."""
    invariant(VERSION == PYSYNCOBJ_VERSION, "an unknown pysyncobj", version=VERSION)
    for name, expected in METHODS.items():
        found = method_hash(name)
        invariant(found == expected, "pysyncobj has changed under us", method=name, found=found)


def method_hash(name: str) -> str:
    source = inspect.getsource(getattr(SyncObj, name))
    return hashlib.sha256(source.encode()).hexdigest()[:16]


@contextmanager
def simulated_time(now_s: Callable[[], float], random: Random) -> Iterator[None]:
    """Lets every engine of this process live in a simulated time, with a random of its own.

    pysyncobj reads both from its module, so they cannot be arguments of an engine.
    """
    before = stock.monotonicTime, stock.random
    stock.monotonicTime, stock.random = now_s, random
    try:
        yield
    finally:
        stock.monotonicTime, stock.random = before


class PysyncobjEngine:
    """A voter. All calls but `propose` and `read_index` belong to the engine's thread.

    The driver calls `tick` every few milliseconds, and soon after anything else has happened;
    `received`, `connected` and `disconnected` as the network has news.
    """

    def __init__(
        self,
        config: RaftConfig,
        *,
        filesystem: FileSystem,
        directory: str,
        network: Network,
        executor: Executor,
        machine: StateMachine,
        observer: Observer,
        on_failure: Callable[[Exception], None],
        is_recovering: bool = False,
        on_recovered: Callable[[], None] = lambda: None,
    ) -> None:
        """Opens the voter's directory: raises `UserError` if it has no journal, and `Damaged` if
        what it promised cannot be read any more.

        A recovering voter has lost its disk, and with it what it promised. It takes the log, and
        neither votes, nor stands for election, nor counts for anything, until it holds what a
        leader had committed that a majority of the others has confirmed since it came back.
        """
        check_pin()
        # Of a command that does not fit, pysyncobj would make several messages, by pickle.
        invariant(config.append_bytes > config.max_command_bytes + 1, "commands do not fit")
        self._observer = observer
        self._leadership: Leadership | None = None
        self._on_failure = on_failure
        self._failed = False
        store = SnapshotStore(filesystem, directory)
        journal = Journal(filesystem, directory)
        snapshot = store.load()
        journal.align(snapshot.base if snapshot is not None else ())
        self._journal = journal
        self._voter = _Voter(
            self,
            config,
            journal=journal,
            store=store,
            snapshot=snapshot,
            outbox=Outbox(journal, network),
            executor=executor,
            machine=machine,
            is_recovering=is_recovering,
            on_recovered=on_recovered,
        )

    # ------------------------------------------------------------------- what callers may ask

    def propose(self, data: bytes, done: Callable[[Proposal], None]) -> None:
        if self._failed:
            call(done, Proposal(outcome=Outcome.NOT_LEADER))
        else:
            self._voter.proposals.offer(data, done)

    def read_index(self, done: Callable[[int | None], None]) -> None:
        if self._failed:
            call(done, None)
        else:
            self._voter.reads.ask(done)

    def status(self) -> Status:
        return self._voter.status(self.leadership)

    def snapshot(self) -> None:
        self._voter.forceLogCompaction()

    @property
    def leadership(self) -> Leadership:
        return self._voter.leadership()

    def term_at(self, index: int) -> int | None:
        """The term of the entry at an index; None if the log does not hold it (any more)."""
        entry = self._journal.at(index)
        return entry.term if entry is not None else None

    # ------------------------------------------------------------------- what drives a voter

    def tick(self) -> None:
        self.run(partial(self._voter.doTick, 0.0))

    def received(self, voter_id: int, body: bytes) -> None:
        """Handles a frame's body; raises `BadFrame` if no voter would have sent it."""
        message = frames.decode(body)
        self.run(partial(self._voter.receive, Node(voter_id), message))

    def connected(self, voter_id: int) -> None:
        self._voter.connected(Node(voter_id))

    def disconnected(self, voter_id: int) -> None:
        self._voter.disconnected(Node(voter_id))

    def fail(self, error: Exception) -> None:
        """Stops for good: the disk or the state can no longer be trusted."""
        if not self._failed:
            self._failed = True
            self._voter.proposals.forget_all()
            self._voter.reads.fail_all()
            self._on_failure(error)

    def close(self) -> None:
        """Lets go of the files; whoever waits learns that the outcome is unknown."""
        self._failed = True
        self._voter.proposals.forget_all()
        self._voter.reads.fail_all()
        self._journal.close()

    def run(self, work: Callable[[], None]) -> None:
        """Does something on the engine's thread, and whatever follows from it."""
        if self._failed:
            return
        try:
            work()
            self._voter.after_work()
        except BadFrame:
            raise
        except Exception as error:
            logger.exception("the voter stops")
            self.fail(error)
            return
        leadership = self._voter.leadership()
        if leadership != self._leadership:
            self._leadership = leadership
            call(self._observer.leadership_changed, leadership)


class _JournalAdapter(StockJournal):  # type: ignore[misc]
    """Our journal, under the names that pysyncobj calls."""

    def __init__(self, journal: Journal, store: SnapshotStore, *, is_alone: bool) -> None:
        self._journal = journal
        self._store = store
        self._is_alone = is_alone

    def add(self, command: bytes, idx: int, term: int) -> None:
        self._journal.append(LogEntry(command, idx, term))

    def deleteEntriesTo(self, entryTo: int) -> None:
        keep_from = self._journal.entries[entryTo].index
        self._journal.trim(keep_from=keep_from, snapshot_index=self._store.oldest_index())

    def __getitem__(self, key: Any) -> Any:
        return self._journal.entries[key]

    def __len__(self) -> int:
        return len(self._journal.entries)

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        if self._is_alone and self._journal.durable_index < raftCommitIndex:
            self._journal.flush()
        self._journal.set_commit_index(raftCommitIndex)

    def getRaftCommitIndex(self) -> int:
        return max(1, self._journal.commit_index)

    def setCurrentTerm(self, term: int, votedFor: int | None) -> None:
        self._journal.set_vote(term=term, vote=votedFor)

    def getCurrentTerm(self) -> int:
        return self._journal.term

    def getVotedForNodeId(self) -> int | None:
        return self._journal.vote

    def onOneSecondTimer(self) -> None:
        """Nothing waits for a timer here."""

    def clear(self) -> None:
        invariant(False, "pysyncobj clears the journal")

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        invariant(False, "pysyncobj truncates the journal")


class _TransportAdapter(Transport):  # type: ignore[misc]
    """Turns what pysyncobj sends into typed messages."""

    def __init__(self, voter: "_Voter") -> None:
        super().__init__(voter, None, [])
        self._voter = voter

    @property
    def ready(self) -> bool:
        return True

    def send(self, node: Node, message: dict[str, Any]) -> None:
        voter, term = self._voter, message["term"]
        match message["type"]:
            case "request_vote":
                voter.send(
                    node,
                    RequestVote(
                        term=term,
                        last_index=message["last_log_index"],
                        last_term=message["last_log_term"],
                        poll=False,
                    ),
                )
            case "response_vote":
                voter.send(node, Vote(term=term, poll=False))
            case "append_entries" if "entries" in message:
                voter.send_entries(node, message)
            case "append_entries" if "serialized" in message:
                voter.send(node, LeaderAlive(term=term, commit_index=message["commit_index"]))
            case other:
                invariant(False, "pysyncobj sends what it should not", type=other)

    def destroy(self) -> None:
        """There is nothing to destroy."""


class _SerializerAdapter:
    """Snapshots, under the names that pysyncobj calls its serializer by."""

    def __init__(self, voter: "_Voter") -> None:
        self._voter = voter
        self._state = SERIALIZER_STATE.NOT_SERIALIZING
        self._keep_from: int | None = None

    def checkSerializing(self) -> tuple[int, int | None]:
        state = self._state
        if state in (SERIALIZER_STATE.SUCCESS, SERIALIZER_STATE.FAILED):
            self._state = SERIALIZER_STATE.NOT_SERIALIZING
        return state, self._keep_from

    def serialize(self, data: tuple[Any, LogEntry, LogEntry, Any], id_: int) -> None:
        _, last, before, _ = data
        self._state, self._keep_from = SERIALIZER_STATE.SERIALIZING, id_
        self._voter.save_snapshot((before, last), self._saved)

    def _saved(self, success: bool) -> None:
        self._state = SERIALIZER_STATE.SUCCESS if success else SERIALIZER_STATE.FAILED

    def getTransmissionData(self, node: Node) -> tuple[bytes, bool, bool] | None:
        """The follower needs what the log no longer holds. We send the snapshot our own way; to
        pysyncobj it looks sent, so that it goes on with what comes after."""
        self._voter.begin_transfer(node)
        return b"", True, True

    def cancelTransmisstion(self, node: Node) -> None:
        """A transfer ends when its connection does."""


class _NoPoller:
    """The driver waits for the network; pysyncobj need not."""

    def poll(self, timeout: float) -> None:
        pass


class _Nodes(dict[Node, None]):
    """A set of nodes in the order of their ids, whatever their hashes."""

    def __init__(self, nodes: "Iterator[Node] | list[Node]" = ()) -> None:  # type: ignore[assignment]
        super().__init__((node, None) for node in sorted(nodes, key=lambda node: node.id))

    def __or__(self, other: Any) -> "_Nodes":  # type: ignore[override]
        return _Nodes([*self, *(node for node in other if node not in self)])

    def copy(self) -> "_Nodes":
        return _Nodes(list(self))


class _Voter(SyncObj):  # type: ignore[misc]
    """pysyncobj with our parts in its place."""

    def __init__(
        self,
        engine: PysyncobjEngine,
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
        self._engine = engine
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
        self._progress: dict[int, _Progress] = {}
        self._receiving: Receiving | None = None
        self._installing = False
        self._snapshot_index = snapshot.index if snapshot is not None else None
        self._snapshot_bytes = journal.size_bytes
        self._poll_term = 0
        self._poll_granted: set[int] = set()
        self._poll_won = False
        self._voted: set[int] = set()
        self._leader_heard_s = -1.0e9
        self._SyncObj__raftElectionDeadline: float
        super().__init__(
            Node(config.voter_id),
            [],
            conf=_stock_config(config, _JournalAdapter(journal, store, is_alone=not config.others)),
            nodeClass=Node,
            transport=_TransportAdapter(self),
        )
        self._SyncObj__otherNodes = _Nodes([Node(other) for other in config.others])
        self._SyncObj__readonlyNodes = _Nodes()
        self._SyncObj__connectedNodes = _Nodes()
        self._SyncObj__serializer = _SerializerAdapter(self)
        self._SyncObj__needLoadDumpFile = False
        self._poller = _NoPoller()
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
        self._executor.submit(lane, work, lambda error: self._engine.run(partial(done, error)))

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
        self._progress = {node.id: _Progress() for node in self._SyncObj__otherNodes}
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
        journal = self._journal
        entries = [LogEntry(*entry) for entry in message.entries]
        if any(e.index != message.prev_index + 1 + k for k, e in enumerate(entries)):
            raise BadFrame("entries with a gap")
        prev_index = message.prev_index
        if prev_index < journal.first_index:
            # What the snapshot covers is committed, so the leader has the same.
            entries = entries[journal.first_index - prev_index :]
            prev_index = journal.first_index
            if not entries:
                self._answer(node, message, next_index=self.raftCommitIndex + 1, success=False)
                return
        elif (mine := journal.at(prev_index)) is None:
            self._answer(node, message, next_index=journal.last_index + 1, success=False)
            return
        elif mine.term != message.prev_term:
            next_index = self._start_of_term(mine)
            self._answer(node, message, next_index=next_index, success=False)
            return
        self._accept(entries)
        last_index = prev_index + len(entries)
        self._answer(node, message, next_index=last_index + 1, success=True)
        self._commit(min(message.commit_index, last_index))
        if self._is_recovering:
            self._see_recovery(node)

    def _accept(self, entries: list[LogEntry]) -> None:
        """Appends what is new; only an entry that contradicts the leader's is truncated."""
        journal = self._journal
        for position, entry in enumerate(entries):
            mine = journal.at(entry.index)
            if mine is not None and mine.term == entry.term:
                continue
            if mine is not None:
                journal.truncate_from(entry.index)
            for new in entries[position:]:
                journal.append(new)
            return

    def _start_of_term(self, entry: LogEntry) -> int:
        """The first uncommitted index of an entry's term: the leader goes back term by term."""
        index = entry.index
        while index - 1 > self.raftCommitIndex:
            before = self._journal.at(index - 1)
            if before is None or before.term != entry.term:
                break
            index -= 1
        return int(max(index, self.raftCommitIndex + 1))

    def _answer(self, node: Node, to: AppendEntries, *, next_index: int, success: bool) -> None:
        answer = AppendAnswer(
            term=self.raftCurrentTerm,
            next_index=next_index,
            success=success,
            retry=not success,
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

    def _go_on(self, node: Node, progress: "_Progress", answer: AppendAnswer) -> None:
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


class _Progress:
    """How far a follower has come, as its leader knows."""

    __slots__ = (
        "_seen",
        "attempt",
        "caught_up_ms",
        "counted_index",
        "fetch_ms",
        "match_index",
        "sending",
    )

    def __init__(self) -> None:
        self.match_index = 0
        self.counted_index = 0
        """As `match_index`, of what may be counted for a majority."""
        self.attempt = 0
        self.sending: Sending | None = None
        self.fetch_ms: int | None = None
        self.caught_up_ms: int | None = None
        self._seen: tuple[int, int] = (0, 0)
        """The end of the leader's log at the follower's last answer, and when that was."""

    def answered(self, answer: AppendAnswer, *, last_index: int, now_ms: int) -> None:
        self.fetch_ms = now_ms
        if not answer.success:
            return
        self.match_index = max(self.match_index, answer.next_index - 1)
        if answer.counts:
            self.counted_index = max(self.counted_index, answer.next_index - 1)
        if self.match_index >= last_index:
            self.caught_up_ms = now_ms
        elif self.match_index >= self._seen[0] > 0:
            self.caught_up_ms = self._seen[1]
        self._seen = (last_index, now_ms)

    def status(self, voter_id: int) -> VoterStatus:
        return VoterStatus(
            voter_id=voter_id,
            log_end_index=self.match_index + 1,
            last_fetch_ms=self.fetch_ms,
            last_caught_up_ms=self.caught_up_ms,
        )


def _stock_config(config: RaftConfig, journal: _JournalAdapter) -> SyncObjConf:
    return SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=True,
        appendEntriesPeriod=config.heartbeat_ms / 1000,
        appendEntriesBatchSizeBytes=config.append_bytes,
        raftMinTimeout=config.election_timeout_min_ms / 1000,
        raftMaxTimeout=config.election_timeout_max_ms / 1000,
        leaderFallbackTimeout=config.resign_timeout_ms / 1000,
        connectionTimeout=max(3.5, config.election_timeout_max_ms / 1000),
        logCompactionMinEntries=config.snapshot_entries,
        logCompactionMinTime=(config.snapshot_interval_ms or 10**12) / 1000,
        dynamicMembershipChange=False,
        commandsWaitLeader=False,
        pollerType="poll",
        journalFile=journal,
    )


_stock_create_journal = stock.createJournal


def _create_journal(journal: Any = None) -> Any:
    """pysyncobj makes its journal from a path; ours is there already."""
    return journal if isinstance(journal, _JournalAdapter) else _stock_create_journal(journal)


stock.createJournal = _create_journal
