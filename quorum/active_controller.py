"""The active controller: commands in, answers out once they are committed.

The decisions are `quorum.metadata`'s; this drives them on the event loop, in front of raft:

    inactive --leadership.is_active--> active --leadership lost--> inactive
    active --a proposal fails--> draining --nothing is on its way--> active

- *inactive*: every command is answered NOT_CONTROLLER with the leader that is known.
- *active*: a command is decided on the speculative image and its batches are proposed at once; its
  answer waits until the image that it speaks of is committed. An answer that wrote nothing waits
  moreover for raft's word that this voter led after the command came in (DESIGN.md, rule 12);
  all that wait at a time share one such question.
- *draining*: what was proposed after a proposal that failed was decided on a state that never came
  to be, and takes no effect anywhere (the core sees to that). What was proposed before it may well
  be committed. So nothing new is decided until the outcome of everything on its way is known.

What a failed command is told: NOT_CONTROLLER or OVERLOADED if it did not and will not happen,
OUTCOME_UNKNOWN if this voter cannot know.
"""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias

from floodmark.invariant import InvariantViolation
from kafka_wire.error_codes import ErrorCode
from quorum.election_timer import RecentTimes
from quorum.errors import (
    DeadlineError,
    NotControllerError,
    OutcomeUnknownError,
    OverloadedError,
    QuorumError,
)
from quorum.leadership_confirmation import LeadershipConfirmation
from quorum.loop_inbox import LoopInbox
from quorum.metadata.commands import Answer, Command, Heartbeat, Refused, UnregisterBroker
from quorum.metadata.controller import Controller
from quorum.metadata.image import MetadataImage
from quorum.metadata.records import MetadataFormatError
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.speculation import ProposedBatch
from quorum.metadata.types import MetadataOffset
from quorum.raft.port import Entry, Leadership, Outcome, Proposal, RaftEngine

DRAIN_LIMIT_MS: Final = 5000
"""An outcome may never be told. After so long the controller goes on without it: the core sees to
it that a batch which turns up late counts nowhere."""
MAX_WAITING_COMMANDS: Final = 20_000
"""Commands whose answer is not out yet. One more is refused: memory has an end."""

Decide: TypeAlias = Callable[[MetadataImage], Command]
"""Makes a command from the image that it is decided on."""

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiting:
    """A decided command whose answer is not out yet."""

    future: asyncio.Future[Answer | Refused]
    answer: Answer | Refused
    first_offset: MetadataOffset | None
    """Of its own batches; None if it wrote nothing."""
    release_offset: MetadataOffset
    is_committed: bool = False
    is_confirmed: bool = False

    def release(self) -> None:
        if self.is_committed and self.is_confirmed and not self.future.done():
            self.future.set_result(self.answer)

    def fail(self, error: QuorumError | OutcomeUnknownError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerContact:
    """What a broker's last heartbeat said, and when it came."""

    metadata_offset: MetadataOffset
    at_ms: int


@dataclass(slots=True, kw_only=True)
class ControllerCounters:
    """What the metrics tell."""

    commands: int = 0
    refused: int = 0
    unknown_outcomes: int = 0
    batches_proposed: int = 0
    drains: int = 0
    activations: int = 0
    commit_times: RecentTimes = field(default_factory=RecentTimes)


class ActiveController:
    """Runs the metadata controller while this voter leads. Everything on one event loop."""

    def __init__(
        self,
        *,
        settings: ControllerSettings,
        engine: RaftEngine,
        inbox: LoopInbox,
        now_ms: Callable[[], int],
        address_of: Callable[[int], str | None],
        max_waiting: int = MAX_WAITING_COMMANDS,
    ) -> None:
        """`now_ms` counts suspended time; `address_of` tells where a voter takes commands."""
        self.counters = ControllerCounters()
        self._settings = settings
        self._engine = engine
        self._inbox = inbox
        self._now_ms = now_ms
        self._address_of = address_of
        self._max_waiting = max_waiting
        self._controller: Controller | None = None
        self._leadership = Leadership(leader_id=None, term=0, is_active=False)
        self._waiting: deque[_Waiting] = deque()
        """In the order of their release offsets."""
        self._contacts: dict[int, BrokerContact] = {}
        self._unanswered = 0
        self._on_their_way: dict[int, int] = {}
        """When each batch was proposed whose outcome is not known, by its ticket."""
        self._tickets = 0
        self._is_draining = False
        self._drain_began_ms = 0
        self._confirmation = LeadershipConfirmation(engine, inbox)

    @property
    def is_active(self) -> bool:
        return self._controller is not None

    @property
    def leadership(self) -> Leadership:
        return self._leadership

    @property
    def controller(self) -> Controller | None:
        """For the metrics; None while this voter is not active."""
        return self._controller

    def contacts(self) -> Mapping[int, BrokerContact]:
        """The brokers that have sent heartbeats to this active controller."""
        return self._contacts

    @property
    def unanswered(self) -> int:
        return self._unanswered

    # ------------------------------------------------------------------------- commands

    async def submit(self, command: Command | Decide, *, timeout_s: float) -> Answer:
        """The committed answer. Raises a `QuorumError` if nothing happened and nothing will, and
        an `OutcomeUnknownError` if that is not known within the time."""
        received_ms = self._now_ms()
        waiting = self._decide(command)
        self._unanswered += 1
        try:
            async with asyncio.timeout(timeout_s):
                answer = await waiting.future
        except TimeoutError:
            raise self._timed_out(waiting) from None
        except OutcomeUnknownError:
            self.counters.unknown_outcomes += 1
            raise
        finally:
            self._unanswered -= 1
        if isinstance(answer, Refused):
            self.counters.refused += 1
            raise self._refusal(answer)
        if isinstance(command, UnregisterBroker):
            self._contacts.pop(command.broker_id, None)
        elif isinstance(command, Heartbeat):
            self._contacts[command.broker_id] = BrokerContact(
                metadata_offset=command.metadata_offset, at_ms=received_ms
            )
        return answer

    async def read(self, *, timeout_s: float) -> MetadataImage:
        """A committed image that holds everything acknowledged before the call."""
        if self._controller is None:
            raise self._not_controller()
        self._check_load()
        confirmed = asyncio.get_running_loop().create_future()

        def settle(is_leader: bool) -> None:
            if not confirmed.done():
                confirmed.set_result(is_leader)

        self._confirmation.ask(settle)
        try:
            async with asyncio.timeout(timeout_s):
                is_leader = await confirmed
        except TimeoutError:
            raise DeadlineError("the quorum did not confirm the leader in time") from None
        controller = self._controller
        if not is_leader or controller is None:
            raise self._not_controller()
        return controller.image

    def periodic(self) -> None:
        """Fencing, elections, balance: what is due without anybody's asking."""
        if self._is_draining and self._now_ms() - self._drain_began_ms > DRAIN_LIMIT_MS:
            self._on_their_way.clear()
            self._fail_from(MetadataOffset(0), is_unknown=True)
            self._resume_if_drained()
        if self._controller is not None and not self._is_draining:
            self._propose(self._controller.periodic(self._now_ms()))

    def _decide(self, command: Command | Decide) -> _Waiting:
        controller = self._controller
        if controller is None:
            raise self._not_controller()
        self._check_load()
        self.counters.commands += 1
        try:
            if callable(command):
                command = command(controller.speculative_image)
            decision = controller.submit(command, self._now_ms())
        except (InvariantViolation, MetadataFormatError) as error:
            # The state cannot be trusted any more: the voter must stop, not only this call.
            self._inbox.post(functools.partial(_raise, error))
            raise
        waiting = _Waiting(
            future=asyncio.get_running_loop().create_future(),
            answer=decision.answer,
            first_offset=decision.proposals[0].offset if decision.proposals else None,
            release_offset=decision.release_offset,
            is_confirmed=bool(decision.proposals),
        )
        # The exception of a caller that has gone away is nobody's.
        waiting.future.add_done_callback(_retrieve)
        if decision.release_offset <= controller.image.offset:
            waiting.is_committed = True
        else:
            self._waiting.append(waiting)
        if not decision.proposals:
            self._confirmation.ask(lambda is_leader: self._confirmed(waiting, is_leader))
        self._propose(decision.proposals)
        return waiting

    def _check_load(self) -> None:
        if self._is_draining:
            raise OverloadedError("a change failed and others wait for its outcome; try again")
        # Callers that gave up leave something behind until the quorum has spoken.
        load = max(self._unanswered, len(self._waiting), self._confirmation.waiting)
        if load >= self._max_waiting:
            raise OverloadedError(f"{self._max_waiting} commands are waiting already; try again")

    def _confirmed(self, waiting: _Waiting, is_leader: bool) -> None:
        if is_leader:
            waiting.is_confirmed = True
            waiting.release()
        else:
            waiting.fail(self._not_controller())

    # -------------------------------------------------------------------------- proposals

    def _propose(self, proposals: tuple[ProposedBatch, ...]) -> None:
        for batch in proposals:
            self._tickets += 1
            ticket = self._tickets
            self._on_their_way[ticket] = self._now_ms()
            self.counters.batches_proposed += 1
            self._engine.propose(batch.data, self._told(ticket, batch.offset))

    def _told(self, ticket: int, offset: MetadataOffset) -> Callable[[Proposal], None]:
        def done(proposal: Proposal) -> None:
            self._inbox.post(lambda: self._proposal_ended(ticket, offset, proposal.outcome))

        return done

    def _proposal_ended(self, ticket: int, offset: MetadataOffset, outcome: Outcome) -> None:
        proposed_ms = self._on_their_way.pop(ticket, None)
        if proposed_ms is None:
            return  # of an earlier term of office
        if outcome is Outcome.COMMITTED:
            self.counters.commit_times.add(self._now_ms() - proposed_ms)
        else:
            logger.warning(
                "[controller epoch=%d] the proposal for offset %d ended %s",
                self._leadership.term,
                offset,
                outcome.value,
            )
            self._fail_from(
                offset,
                is_unknown=outcome is Outcome.UNKNOWN,
                is_overload=outcome is Outcome.REFUSED,
            )
            self._drain()
        self._resume_if_drained()

    def _drain(self) -> None:
        if not self._is_draining:
            self._is_draining = True
            self._drain_began_ms = self._now_ms()
            self.counters.drains += 1

    def _resume_if_drained(self) -> None:
        if self._is_draining and not self._on_their_way:
            self._is_draining = False
            self._fail_from(MetadataOffset(0))
            if self._controller is not None:
                self._controller.reset_speculation()

    def _fail_from(
        self, offset: MetadataOffset, *, is_unknown: bool = False, is_overload: bool = False
    ) -> None:
        """Answers everyone whose answer speaks of something from `offset` on."""
        kept: deque[_Waiting] = deque()
        for waiting in self._waiting:
            if waiting.release_offset < offset:
                kept.append(waiting)
            else:
                waiting.fail(self._failure(waiting, offset, is_unknown, is_overload))
        self._waiting = kept

    def _failure(
        self, waiting: _Waiting, offset: MetadataOffset, is_unknown: bool, is_overload: bool
    ) -> QuorumError | OutcomeUnknownError:
        first = waiting.first_offset
        if first is not None and (is_unknown or first < offset):
            # Not known, or done in part: the core splits only what may stop half-way, and a
            # repetition goes on from there.
            return OutcomeUnknownError(
                "the change may have been made, now or later; repeat it with the same request id"
            )
        if is_overload:
            return OverloadedError("the quorum takes no more changes at the moment; try again")
        return self._not_controller("the change was decided on a state that did not last")

    # ------------------------------------------------------- what the engine says (listener)

    def entry_applied(self, entry: Entry) -> None:
        controller = self._controller
        if controller is None:
            return
        offset = MetadataOffset(entry.index)
        applied = controller.apply(entry.data, offset=offset, epoch=entry.term)
        if not applied.speculation_kept:
            self._fail_from(offset)
            self._drain()
            self._resume_if_drained()
        while self._waiting and self._waiting[0].release_offset <= offset:
            waiting = self._waiting.popleft()
            waiting.is_committed = True
            waiting.release()

    def image_restored(self, image: MetadataImage) -> None:
        """A snapshot from another leader: whatever this voter had proposed is not its any more."""
        self._step_down()

    def leadership_changed(self, leadership: Leadership, image: MetadataImage) -> None:
        before, self._leadership = self._leadership, leadership
        if self._controller is not None and leadership.is_active and before.term == leadership.term:
            return
        self._step_down()
        if leadership.is_active:
            self._controller = Controller(self._settings, image)
            self._controller.activate(self._now_ms(), epoch=leadership.term)
            self.counters.activations += 1
            logger.info(
                "[controller epoch=%d] active from offset %d", leadership.term, image.offset
            )
            self.periodic()

    def close(self) -> None:
        """No more answers: the process stops."""
        self._step_down()

    def _step_down(self) -> None:
        if self._controller is None:
            return
        logger.info("[controller] not active any more, the epoch is %d", self._leadership.term)
        self._controller.deactivate()
        self._controller = None
        self._fail_from(MetadataOffset(0), is_unknown=True)
        self._contacts = {}
        self._on_their_way.clear()
        self._is_draining = False
        self._confirmation.reset()

    # ------------------------------------------------------------------------------ errors

    def _timed_out(self, waiting: _Waiting) -> QuorumError | OutcomeUnknownError:
        if waiting.first_offset is None:
            return DeadlineError("the quorum did not confirm the answer in time")
        self.counters.unknown_outcomes += 1
        return OutcomeUnknownError(
            "the change was not committed in time, and may yet be; repeat it with the same id"
        )

    def _refusal(self, refused: Refused) -> QuorumError:
        match refused.code:
            case ErrorCode.NOT_CONTROLLER:
                return self._not_controller(refused.message)
            case ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                return OverloadedError(refused.message)
            case code:
                return QuorumError(code, refused.message)

    def _not_controller(
        self, message: str = "this voter is not the active controller"
    ) -> NotControllerError:
        leader_id = self._leadership.leader_id
        return NotControllerError(
            message,
            leader_id=leader_id,
            leader_address=None if leader_id is None else self._address_of(leader_id),
            leader_epoch=self._leadership.term,
        )


def _retrieve(future: asyncio.Future[Answer | Refused]) -> None:
    if not future.cancelled():
        future.exception()


def _raise(error: Exception) -> NoReturn:
    raise error
