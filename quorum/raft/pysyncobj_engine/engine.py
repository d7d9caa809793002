"""The engine as the rest of the quorum sees it: the port, and what drives it."""

import logging
from collections.abc import Callable
from functools import partial

from pysyncobj.node import Node

from floodmark.invariant import invariant
from log.filesystem import FileSystem
from quorum.raft import frames
from quorum.raft.frames import BadFrame
from quorum.raft.journal import Journal
from quorum.raft.outbox import Outbox
from quorum.raft.port import Leadership, Observer, Outcome, Proposal, StateMachine, Status
from quorum.raft.ports import Executor, Network, RaftConfig
from quorum.raft.proposals import call
from quorum.raft.pysyncobj_engine.pin import check_pin
from quorum.raft.pysyncobj_engine.voter import Voter
from quorum.raft.snapshots import SnapshotStore

logger = logging.getLogger(__name__)


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
        self._voter = Voter(
            self.run,
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
        except OSError as error:  # the disk: what it says is enough
            logger.error("the voter stops: %s", error)
            self.fail(error)
            return
        except Exception as error:
            logger.exception("the voter stops")
            self.fail(error)
            return
        leadership = self._voter.leadership()
        if leadership != self._leadership:
            self._leadership = leadership
            call(self._observer.leadership_changed, leadership)
