"""A voter: engine, state machine, controller, feed, listeners, and their life together.

It is given an engine and addresses, and knows nothing of configuration files, disks or signals:
`quorum.server` does. Everything but the engine runs on one event loop.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from floodmark.addresses import Address
from floodmark.http import HttpServer, standard_routes
from floodmark.metrics import Metrics
from floodmark.tls import TlsMaterial
from quorum import quorum_metrics
from quorum.active_controller import ActiveController
from quorum.bootstrap import bootstrap, is_new_cluster
from quorum.election_timer import ElectionTimer
from quorum.loop_inbox import LoopInbox
from quorum.metadata.image import MetadataImage
from quorum.metadata.settings import ControllerSettings
from quorum.metadata_feed import MetadataFeed
from quorum.raft.port import Entry, Leadership, RaftEngine
from quorum.service.controller_service import ControllerService
from quorum.service.listener import GrpcListener
from quorum.service.quorum_service import QuorumService
from quorum.state_machine import MetadataStateMachine

TICK_S: Final = 0.1
STALE_AFTER_MS: Final = 2000
"""A voter that knows no leader for so long sends those who read metadata elsewhere."""
BOOTSTRAP_PAUSE_MS: Final = 1000

logger = logging.getLogger(__name__)


class VoterEngine(RaftEngine, Protocol):
    """A raft engine with a life."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Waits until its threads have ended; calls nobody afterwards."""


OnFatal: TypeAlias = Callable[[BaseException], None]
MakeEngine: TypeAlias = Callable[[MetadataStateMachine, OnFatal], VoterEngine]
"""Makes an engine for the machine, which is its state machine and its observer. It calls the
function, from any thread, when it cannot go on."""


def boottime_ms() -> int:
    """Leases count suspended time (DESIGN.md, rule 18)."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Where a voter listens, and with what certificates."""

    controller: Address
    http: Address
    tls: TlsMaterial | None = None
    https: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterOptions:
    """What a voter has to be told."""

    settings: ControllerSettings
    address_of: Callable[[int], str | None]
    """Where each voter takes commands."""
    cluster_configs: Mapping[str, str] = field(default_factory=dict)
    """First values for a new cluster."""
    now_ms: Callable[[], int] = boottime_ms
    tick_s: float = TICK_S


class Voter:
    """Made on the event loop on which it runs."""

    def __init__(self, options: VoterOptions, make_engine: MakeEngine) -> None:
        self._options = options
        loop = asyncio.get_running_loop()
        self._fatal: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self.inbox = LoopInbox(loop, self._failed)
        self.machine = MetadataStateMachine(self.inbox)
        self.engine = make_engine(self.machine, self._failed_elsewhere)
        self.controller = ActiveController(
            settings=options.settings,
            engine=self.engine,
            inbox=self.inbox,
            now_ms=options.now_ms,
            address_of=options.address_of,
        )
        self.feed = MetadataFeed(image=lambda: self.machine.image, now_ms=options.now_ms)
        self.elections = ElectionTimer(options.now_ms)
        self.machine.follow(self.feed, self.controller, self.elections, self)
        self.metrics = Metrics()
        quorum_metrics.register(
            self.metrics,
            engine=self.engine,
            machine=self.machine,
            controller=self.controller,
            feed=self.feed,
            elections=self.elections,
        )
        self._grpc = GrpcListener(ControllerService(self.controller), self._quorum_service())
        self._http = HttpServer(standard_routes(self.metrics, self.not_ready))
        self._ticking: asyncio.Task[None] | None = None
        self._bootstrap: asyncio.Task[None] | None = None
        self._next_bootstrap_ms = 0
        self.controller_address: Address | None = None
        self.http_address: Address | None = None

    # ------------------------------------------------------------------------ life cycle

    async def start(self, listeners: Listeners) -> None:
        """Raises what stands in the way; `stop` is due even then."""
        await asyncio.to_thread(self.engine.start)
        self.http_address = await self._http.start(listeners.http, listeners.https)
        self.controller_address = await self._grpc.start(listeners.controller, listeners.tls)
        self._ticking = asyncio.create_task(self._tick(), name="tick")
        logger.info("gRPC on %s, HTTP on %s", self.controller_address, self.http_address)

    async def wait_for_failure(self) -> None:
        """Returns never; raises what made this voter unable to go on."""
        await asyncio.shield(self._fatal)

    async def stop(self) -> None:
        """Answers what it can, and leaves nothing running."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait([self._ticking])
        self.controller.close()
        self.feed.close()
        if self._bootstrap is not None:
            await asyncio.wait([self._bootstrap])
        await self._grpc.stop()
        await self._http.stop()
        await asyncio.to_thread(self.engine.stop)
        self.inbox.close()
        if not self._fatal.done():
            self._fatal.cancel()

    def not_ready(self) -> str | None:
        """Why this voter cannot do its job; None if it can.

        It can once it knows a leader and has applied an entry of that leader's term: then it has
        everything that was committed before.
        """
        leadership = self.controller.leadership
        if leadership.leader_id is None:
            return "no leader is known"
        if self.machine.image.epoch < leadership.term:
            return "the leader's log is not applied yet"
        return None

    # ------------------------------------------------------ what the engine says (listener)

    def entry_applied(self, entry: Entry) -> None:
        """The others have heard of it; that is enough."""

    def image_restored(self, image: MetadataImage) -> None:
        """Nor is there anything to do here."""

    def leadership_changed(self, leadership: Leadership, image: MetadataImage) -> None:
        """A new cluster gets its first records before anybody's first command."""
        self._bootstrap_if_new()

    # ------------------------------------------------------------------------- internals

    async def _tick(self) -> None:
        try:
            while True:
                self.controller.periodic()
                self._bootstrap_if_new()
                self.feed.set_stale(self.elections.leaderless_ms > STALE_AFTER_MS)
                await self._grpc.set_health(
                    is_ready=self.not_ready() is None, is_active=self.controller.is_active
                )
                await asyncio.sleep(self._options.tick_s)
        except Exception as error:  # noqa: BLE001 - handed on: it stops the voter
            self._failed(error)

    def _bootstrap_if_new(self) -> None:
        controller = self.controller.controller
        now_ms = self._options.now_ms()
        if controller is None or not is_new_cluster(controller.image):
            return
        if now_ms >= self._next_bootstrap_ms and (
            self._bootstrap is None or self._bootstrap.done()
        ):
            self._next_bootstrap_ms = now_ms + BOOTSTRAP_PAUSE_MS
            self._bootstrap = asyncio.create_task(
                bootstrap(self.controller, self._options.cluster_configs), name="bootstrap"
            )

    def _quorum_service(self) -> QuorumService:
        return QuorumService(
            engine=self.engine,
            controller=self.controller,
            feed=self.feed,
            now_ms=self._options.now_ms,
            wall_clock_ms=wall_clock_ms,
            engine_clock_ms=monotonic_ms,
            address_of=self._options.address_of,
        )

    def _failed_elsewhere(self, error: BaseException) -> None:
        self._loop.call_soon_threadsafe(self._failed, error)

    def _failed(self, error: BaseException) -> None:
        """The first failure counts; the others follow from it."""
        if not self._fatal.done():
            self._fatal.set_exception(error)
            self._fatal.exception()  # whoever waits for it still gets it
        logger.error("this voter cannot go on: %s", error)
