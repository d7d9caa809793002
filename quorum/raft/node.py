"""A voter's engine with a thread of its own, real sockets and a real disk.

Three threads: `raft` runs the engine and the network on an event loop, so that no work of others
keeps heartbeats waiting; `raft-flush` waits for the journal's disk; `raft-snapshot` encodes and
writes snapshots. Nothing but the engine's thread touches the engine.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from floodmark.addresses import Address
from floodmark.invariant import invariant
from log.filesystem import FileSystem
from quorum.raft.port import Observer, Proposal, StateMachine, Status
from quorum.raft.ports import Lane, RaftConfig
from quorum.raft.pysyncobj_engine import PysyncobjEngine
from quorum.raft.transport import PeerNetwork, Peers

TICK_S: Final = 0.01
STATUS_TICKS: Final = 10
START_TIMEOUT_S: Final = 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftNodeOptions:
    """What a voter's engine has to be told."""

    config: RaftConfig
    filesystem: FileSystem
    directory: str
    peers: Peers
    listen: Address
    is_recovering: bool = False
    on_recovered: Callable[[], None] = lambda: None


class RaftNode:
    """A `RaftEngine` that lives by itself between `start` and `stop`."""

    def __init__(
        self,
        options: RaftNodeOptions,
        machine: StateMachine,
        observer: Observer,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.address: Address | None = None
        """Where it listens for voters, once started."""
        self._options = options
        self._machine = machine
        self._observer = observer
        self._on_fatal = on_fatal
        self._thread = threading.Thread(target=self._live, name="raft", daemon=True)
        self._started: Future[Address] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._engine: PysyncobjEngine | None = None
        self._status: Status | None = None
        self._tick_is_due = False
        self._ticks = 0

    # --------------------------------------------------------------------------- life cycle

    def start(self) -> None:
        """Opens the journal and listens. Raises what stands in the way."""
        self._thread.start()
        self.address = self._started.result(START_TIMEOUT_S)

    def stop(self) -> None:
        """Waits until the threads have ended; calls nobody afterwards."""
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None and self._thread.is_alive():
            try:
                loop.call_soon_threadsafe(stopping.set)
            except RuntimeError:
                pass  # the loop has ended by itself
        if self._thread.ident is not None:
            self._thread.join()

    def _live(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001 - whoever started this thread gets it
            if not self._started.done():
                self._started.set_exception(error)
            else:
                self._on_fatal(error)

    async def _run(self) -> None:
        options = self._options
        loop = self._loop = asyncio.get_running_loop()
        stopping = self._stopping = asyncio.Event()
        executor = _Threads(loop)
        network = PeerNetwork(options.peers, _Receiver(self))
        try:
            engine = self._engine = PysyncobjEngine(
                options.config,
                filesystem=options.filesystem,
                directory=options.directory,
                network=network,
                executor=executor,
                machine=self._machine,
                observer=self._observer,
                on_failure=self._failed,
                is_recovering=options.is_recovering,
                on_recovered=options.on_recovered,
            )
            self._status = engine.status()
            try:
                self._started.set_result(await network.start(options.listen))
                self._tick_on_time()
                await stopping.wait()
            finally:
                await network.stop()
                await executor.stop()
                engine.close()
        finally:
            await executor.stop()

    def _failed(self, error: Exception) -> None:
        if self._stopping is not None:
            self._stopping.set()
        self._on_fatal(error)

    # --------------------------------------------------------------------------- the engine

    @property
    def engine(self) -> PysyncobjEngine:
        """For the engine's thread."""
        invariant(self._engine is not None, "the voter has not started")
        return self._engine  # type: ignore[return-value]

    def propose(self, data: bytes, done: Callable[[Proposal], None]) -> None:
        self.engine.propose(data, done)
        self._tick_from_elsewhere()

    def read_index(self, done: Callable[[int | None], None]) -> None:
        self.engine.read_index(done)
        self._tick_from_elsewhere()

    def status(self) -> Status:
        """As it was a moment ago."""
        invariant(self._status is not None, "the voter has not started")
        return self._status  # type: ignore[return-value]

    def snapshot(self) -> None:
        self.engine.snapshot()
        self._tick_from_elsewhere()

    # --------------------------------------------------------------------------------- ticks

    def tick_soon(self) -> None:
        """Once for everything that arrives together."""
        if not self._tick_is_due and self._loop is not None:
            self._tick_is_due = True
            self._loop.call_soon(self._tick)

    def _tick_from_elsewhere(self) -> None:
        if not self._tick_is_due and self._loop is not None:
            self._tick_is_due = True
            try:
                self._loop.call_soon_threadsafe(self._tick)
            except RuntimeError:
                logger.debug("the engine has stopped")

    def _tick(self) -> None:
        self._tick_is_due = False
        self.engine.tick()

    def _tick_on_time(self) -> None:
        if self._stopping is None or self._stopping.is_set() or self._loop is None:
            return
        self._loop.call_later(TICK_S, self._tick_on_time)
        self._tick()
        self._ticks += 1
        if self._ticks % STATUS_TICKS == 0:
            self._status = self.engine.status()


@dataclass(slots=True)
class _Receiver:
    """What the network hears goes to the engine; a tick follows."""

    node: RaftNode

    def connected(self, voter_id: int) -> None:
        self.node.engine.connected(voter_id)

    def disconnected(self, voter_id: int) -> None:
        self.node.engine.disconnected(voter_id)

    def received(self, voter_id: int, body: bytes) -> None:
        self.node.engine.received(voter_id, body)
        self.node.tick_soon()


class _Threads:
    """The executor: a thread for each lane."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lanes = {
            lane: ThreadPoolExecutor(1, thread_name_prefix=f"raft-{lane.value}") for lane in Lane
        }
        self._is_stopped = False

    def submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        def finished(future: Future[None]) -> None:
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                error = RuntimeError(f"a thread of the voter was stopped: {error!r}")
            if not self._is_stopped:
                self._loop.call_soon_threadsafe(done, error)

        self._lanes[lane].submit(work).add_done_callback(finished)

    async def stop(self) -> None:
        """Waits for what is under way; nobody is told of it any more."""
        self._is_stopped = True
        for pool in self._lanes.values():
            await asyncio.to_thread(pool.shutdown)
