"""A raft quorum in memory, at the engine's port: what the service is tested against.

It agrees on everything by decree: one shared log, one leader, one thread that plays the engines'
threads of all voters. A test decides when proposals commit, what becomes of them when the leader
changes, and whose state machine lags. Nothing is lost but what the test says is lost.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

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


class Machine(StateMachine, Observer, Protocol):
    """Both ports that an engine calls."""


@dataclass(slots=True)
class _Pending:
    data: bytes
    done: Callable[[Proposal], None]


@dataclass(slots=True, eq=False)
class FakeVoter:
    """One voter's engine."""

    quorum: "FakeQuorum"
    voter_id: int
    machine: Machine | None = None
    applied: int = 0
    is_lagging: bool = False
    pending: deque[_Pending] = field(default_factory=deque)
    waiting_reads: list[Callable[[int | None], None]] = field(default_factory=list)
    refuse_next: int = 0
    reads: int = 0
    failure: BaseException | None = None

    def propose(self, data: bytes, done: Callable[[Proposal], None]) -> None:
        self.quorum.run_soon(lambda: self._propose(data, done))

    def read_index(self, done: Callable[[int | None], None]) -> None:
        self.quorum.run_soon(lambda: self._read_index(done))

    def status(self) -> Status:
        quorum = self.quorum
        now_ms = time.monotonic_ns() // 1_000_000
        return Status(
            voter_id=self.voter_id,
            leadership=self.leadership(),
            high_watermark=self.applied + 1,
            applied_index=self.applied,
            log_start_index=quorum.log_start,
            log_end_index=quorum.last_index + 1 + len(self.pending),
            snapshot_index=None,
            voters=tuple(
                VoterStatus(
                    voter_id=voter.voter_id,
                    log_end_index=voter.applied + 1,
                    last_fetch_ms=now_ms,
                    last_caught_up_ms=now_ms,
                )
                for voter in quorum.voters.values()
                if voter is self or quorum.leader_id == self.voter_id
            ),
        )

    def snapshot(self) -> None:
        self.quorum.run_soon(self.quorum.compact)

    def start(self) -> None:
        """The fake has nothing to start."""

    def stop(self) -> None:
        """Nor anything to stop."""

    def leadership(self) -> Leadership:
        quorum = self.quorum
        is_leader = quorum.leader_id == self.voter_id
        is_active = is_leader and self.applied >= quorum.term_start
        return Leadership(leader_id=quorum.leader_id, term=quorum.term, is_active=is_active)

    def _propose(self, data: bytes, done: Callable[[Proposal], None]) -> None:
        if self.refuse_next > 0:
            self.refuse_next -= 1
            done(Proposal(outcome=Outcome.REFUSED))
        elif self.quorum.leader_id != self.voter_id:
            done(Proposal(outcome=Outcome.NOT_LEADER))
        else:
            self.pending.append(_Pending(data, done))
            if self.quorum.is_automatic:
                self.quorum.commit_pending()

    def _read_index(self, done: Callable[[int | None], None]) -> None:
        self.reads += 1
        if self.quorum.leader_id != self.voter_id:
            done(None)
        elif self.quorum.is_automatic:
            done(self.applied)
        else:
            self.waiting_reads.append(done)

    def catch_up(self) -> None:
        """Applies what is committed, by a snapshot where the log does not go back so far."""
        quorum = self.quorum
        if self.machine is None or self.is_lagging or self.failure is not None:
            return
        try:
            if self.applied + 1 < quorum.log_start and quorum.snapshot_data is not None:
                index, term, data = quorum.snapshot_data
                self.machine.restore(data, index=index, term=term)
                self.applied = index
            for entry in quorum.entries_after(self.applied):
                self.machine.apply(entry)
                self.applied = entry.index
        except Exception as error:  # noqa: BLE001 - an engine stops its voter, whatever it was
            self.failure = error

    def tell_leadership(self) -> None:
        if self.machine is not None and self.failure is None:
            self.machine.leadership_changed(self.leadership())


class FakeQuorum:
    """The voters and their log. `is_automatic`: proposals commit and reads confirm at once."""

    def __init__(self, *voter_ids: int, is_automatic: bool = True) -> None:
        self.voters = {voter_id: FakeVoter(self, voter_id) for voter_id in voter_ids}
        self.is_automatic = is_automatic
        self.leader_id: int | None = None
        self.term = 0
        self.term_start = 0
        self.log_start = 1
        self.last_index = 0
        self.snapshot_data: tuple[int, int, bytes] | None = None
        self._entries: deque[Entry] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fake-raft")
        self._name = threading.current_thread().name

    # ----------------------------------------------------------------- on any thread

    def run_soon(self, what: Callable[[], None]) -> None:
        self._thread.submit(self._guarded, what)

    def run(self, what: Callable[[], None]) -> None:
        """On the engines' thread, and waits for it. Errors are the test's."""
        self._thread.submit(what).result(timeout=30)

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def _guarded(self, what: Callable[[], None]) -> None:
        try:
            what()
        except BaseException as error:
            self.problem = error
            raise

    problem: BaseException | None = None

    # ------------------------------------------------------------ what tests ask for

    def elect(self, voter_id: int | None, *, fate: Outcome = Outcome.DISCARDED) -> None:
        """A new leader, or none. `fate` is what becomes of the old leader's proposals: DISCARDED,
        UNKNOWN (never committed, but nobody can know), or COMMITTED by the new leader while the
        old one is told that it cannot know."""
        self.run(lambda: self._elect(voter_id, fate))

    def commit(self) -> None:
        """Commits what is proposed."""
        self.run(self.commit_pending)

    def confirm_reads(self) -> None:
        self.run(self._confirm_reads)

    def catch_up(self) -> None:
        self.run(self._catch_up)

    def lose(self, outcome: Outcome) -> None:
        """Ends the leader's proposals in this way while it goes on leading."""
        self.run(lambda: self._end_pending(outcome))

    # -------------------------------------------------------- on the engines' thread

    def commit_pending(self) -> None:
        if self.leader_id is None:
            return
        leader = self.voters[self.leader_id]
        committed: list[tuple[_Pending, Entry]] = []
        while leader.pending:
            pending = leader.pending.popleft()
            committed.append((pending, self._append(pending.data)))
        self._catch_up()
        for pending, entry in committed:
            pending.done(Proposal(outcome=Outcome.COMMITTED, index=entry.index, term=entry.term))

    def compact(self) -> None:
        """A snapshot by the leader; the log begins after it."""
        leader = self.voters[self.leader_id or min(self.voters)]
        if leader.machine is None:
            return
        data = b"".join(leader.machine.capture()())
        self.snapshot_data = (leader.applied, self.term, data)
        self.log_start = leader.applied + 1
        while self._entries and self._entries[0].index < self.log_start:
            self._entries.popleft()

    def entries_after(self, index: int) -> list[Entry]:
        return [entry for entry in self._entries if entry.index > index]

    def _append(self, data: bytes) -> Entry:
        self.last_index += 1
        entry = Entry(index=self.last_index, term=self.term, data=data)
        self._entries.append(entry)
        return entry

    def _elect(self, voter_id: int | None, fate: Outcome) -> None:
        lost: list[_Pending] = []
        if self.leader_id is not None:
            old = self.voters[self.leader_id]
            lost = list(old.pending)
            old.pending.clear()
            if fate is Outcome.COMMITTED:
                for pending in lost:
                    self._append(pending.data)
        self.leader_id = voter_id
        self.term += 1
        self.term_start = self.last_index + 1
        for voter in self.voters.values():
            if voter.voter_id != voter_id:
                voter.tell_leadership()
                self._refuse_reads(voter)
        told = Outcome.UNKNOWN if fate is Outcome.COMMITTED else fate
        for pending in lost:
            pending.done(Proposal(outcome=told))
        if voter_id is not None:
            self.voters[voter_id].tell_leadership()
            self._append(b"")
        self._catch_up()
        if voter_id is not None:
            self.voters[voter_id].tell_leadership()

    def _catch_up(self) -> None:
        for voter in self.voters.values():
            voter.catch_up()

    def _confirm_reads(self) -> None:
        for voter in self.voters.values():
            waiting, voter.waiting_reads = voter.waiting_reads, []
            for done in waiting:
                done(voter.applied if voter.voter_id == self.leader_id else None)

    def _refuse_reads(self, voter: FakeVoter) -> None:
        waiting, voter.waiting_reads = voter.waiting_reads, []
        for done in waiting:
            done(None)

    def _end_pending(self, outcome: Outcome) -> None:
        if self.leader_id is None:
            return
        leader = self.voters[self.leader_id]
        lost = list(leader.pending)
        leader.pending.clear()
        for pending in lost:
            pending.done(Proposal(outcome=outcome))
