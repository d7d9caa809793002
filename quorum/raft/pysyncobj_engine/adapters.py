"""Our parts under the names that pysyncobj calls."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import pysyncobj.syncobj as stock
from pysyncobj import SyncObjConf
from pysyncobj.config import SERIALIZER_STATE
from pysyncobj.journal import Journal as StockJournal
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from floodmark.invariant import invariant
from quorum.raft.frames import AnyMessage, LeaderAlive, RequestVote, Vote
from quorum.raft.journal import Journal
from quorum.raft.journal_format import LogEntry
from quorum.raft.ports import RaftConfig
from quorum.raft.snapshots import SnapshotStore


class VoterParts(Protocol):
    """What the adapters ask of the voter that they are parts of."""

    def send(self, node: Node, message: AnyMessage) -> None: ...

    def send_entries(self, node: Node, message: dict[str, Any]) -> None: ...

    def save_snapshot(
        self, base: tuple[LogEntry, LogEntry], saved: Callable[[bool], None]
    ) -> None: ...

    def begin_transfer(self, node: Node) -> None: ...


class JournalAdapter(StockJournal):  # type: ignore[misc]
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


class TransportAdapter(Transport):  # type: ignore[misc]
    """Turns what pysyncobj sends into typed messages."""

    def __init__(self, voter: VoterParts) -> None:
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


class SerializerAdapter:
    """Snapshots, under the names that pysyncobj calls its serializer by."""

    def __init__(self, voter: VoterParts) -> None:
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


class NoPoller:
    """The driver waits for the network; pysyncobj need not."""

    def poll(self, timeout: float) -> None:
        pass


class Nodes(dict[Node, None]):
    """A set of nodes in the order of their ids, whatever their hashes."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        super().__init__((node, None) for node in sorted(nodes, key=lambda node: node.id))

    def __or__(self, other: Any) -> "Nodes":  # type: ignore[override]
        return Nodes([*self, *(node for node in other if node not in self)])

    def copy(self) -> "Nodes":
        return Nodes(list(self))


def stock_config(config: RaftConfig, journal: JournalAdapter) -> SyncObjConf:
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
    return journal if isinstance(journal, JournalAdapter) else _stock_create_journal(journal)


stock.createJournal = _create_journal
