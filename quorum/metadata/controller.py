"""The controller: commands in; records and answers out.

    inactive --activate--> active --deactivate--> inactive

Every voter has one and feeds it the committed entries (`apply`), which is the only thing that
moves the committed image. Only the active one, the raft leader once it has applied the first
entry of its own term, decides. How a shell drives it, all from one thread:

- `activate(now_ms, epoch=term)` when raft says that this voter is active, `deactivate()` when it
  says that it is not any more.
- `submit(command, now_ms)` decides on the speculative image and takes it that the batches will be
  committed; the shell proposes `decision.proposals` to raft in this order, without anything in
  between. `periodic(now_ms)` is the same for what nobody asked for: call it every 100 ms or so.
- `apply(data, offset=index, epoch=term)` for every committed entry, the empty ones included. If
  the answer's `accepted` is False the entry changed nothing anywhere. If `speculation_kept` is
  False, everything that was proposed and is not yet applied will never take effect, and whoever
  waits for it is answered NOT_CONTROLLER. The same holds after `reset_speculation()`, to be called
  when raft refuses a proposal, or gives one an index other than its `offset`.

An answer is released once the committed image has reached `decision.release_offset`, because it
speaks of everything proposed until then. An answer without proposals moreover needs a confirmation
from raft (`read_index`) that this voter still led when the command came in: otherwise a deposed
controller would extend leases (DESIGN.md, rule 12). The same goes for errors.

Expected outcomes are values: a command is refused by an answer `Refused`, and nothing changes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from kafka_wire.error_codes import ErrorCode
from quorum.metadata import (
    brokers,
    configs,
    directories,
    elections,
    features,
    isr,
    producer_ids,
    reassignment,
    requests,
    topics,
)
from quorum.metadata.commands import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionReassignments,
    Answer,
    AssignReplicasToDirectories,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Heartbeat,
    IncrementalAlterConfigs,
    Refused,
    RegisterBroker,
    UnregisterBroker,
    UpdateFeatures,
)
from quorum.metadata.fencing import fence
from quorum.metadata.heartbeats import Heartbeats
from quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorum.metadata.maintenance import Maintenance
from quorum.metadata.records import MAX_BATCH_BYTES, Record, encode_batch, not_allowed_at
from quorum.metadata.result import Result, refuse
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.snapshot import decode_snapshot, encode_snapshot
from quorum.metadata.speculation import (
    MAX_PENDING_BATCHES,
    AppliedEntry,
    ProposedBatch,
    SpeculativeState,
)
from quorum.metadata.types import MetadataOffset

LARGEST_OFFSET: Final = MetadataOffset(2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decided command: what to propose, what to answer, and when."""

    answer: Answer | Refused
    proposals: tuple[ProposedBatch, ...]
    """In this order; empty if nothing changes."""
    release_offset: MetadataOffset
    """The answer holds once everything up to here is committed as it was proposed."""


class Controller:
    """The decisions of one voter, active or not."""

    def __init__(self, settings: ControllerSettings, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.settings = settings
        self.heartbeats = Heartbeats(session_timeout_ms=settings.session_timeout_ms)
        self._state = SpeculativeState(image)
        self._epoch: int | None = None
        self._maintenance = Maintenance(settings, self.heartbeats)

    # ------------------------------------------------------------------------- reading

    @property
    def image(self) -> MetadataImage:
        """The committed image. It is immutable, and may be handed to any thread."""
        return self._state.committed

    @property
    def speculative_image(self) -> MetadataImage:
        return self._state.speculative

    @property
    def is_active(self) -> bool:
        return self._epoch is not None

    # --------------------------------------------------------------------- life cycle

    def activate(self, now_ms: int, *, epoch: int) -> None:
        """This voter leads in raft's term `epoch` and has applied the first entry of it."""
        self._state.reset()
        self._epoch = epoch
        self._maintenance.begin(now_ms)
        self.heartbeats.begin(self.image, now_ms)

    def deactivate(self) -> None:
        """This voter leads no more: what is not committed is none of its business."""
        self._state.reset()
        self._epoch = None
        self.heartbeats.clear()

    def reset_speculation(self) -> None:
        """A proposal failed: back to what is committed, and on from there."""
        self._state.reset()

    # ---------------------------------------------------------------------- deciding

    def handle(self, command: Command, now_ms: int) -> Result:
        """Decides on the speculative image; changes nothing."""
        image = self._state.speculative
        answered = requests.answered(image, command)
        if answered is not None:
            return Result(answer=answered)
        result = self._decide(image, command, now_ms)
        if isinstance(result.answer, Refused) or not result.batches:
            return result
        return _checked(image, requests.remember(command, result))

    def submit(self, command: Command, now_ms: int) -> Decision:
        """Decides, and takes it that the outcome will be committed.

        `now_ms` is when the command was received, on a clock that counts suspended time.
        """
        if self._epoch is None:
            return self._decided(NOT_ACTIVE)
        if self._state.pending >= MAX_PENDING_BATCHES:
            return self._decided(TOO_MANY_PENDING)
        if isinstance(command, Heartbeat):
            self.heartbeats.received(self.speculative_image, command, now_ms)
        result = self.handle(command, now_ms)
        proposals = self._propose(result.batches)
        if isinstance(command, Heartbeat):
            self.heartbeats.answered(command, result.answer)
        return self._decided(result, proposals)

    def periodic(self, now_ms: int) -> tuple[ProposedBatch, ...]:
        """What is due without anybody's asking: fencing, elections, reassignments, balance."""
        if self._epoch is None or self._state.pending >= MAX_PENDING_BATCHES:
            return ()
        proposals: list[ProposedBatch] = []
        for broker_id in self.heartbeats.expired(self.speculative_image, now_ms):
            proposals += self._propose(fence(self.speculative_image, broker_id))
        for task in self._maintenance.due(self.speculative_image, now_ms):
            # Each decides on what the ones before it have proposed.
            proposals += self._propose(task(self.speculative_image))
        return tuple(proposals)

    # --------------------------------------------------------------------- replaying

    def apply(self, data: bytes, *, offset: MetadataOffset, epoch: int) -> AppliedEntry:
        """Takes the next committed entry of the raft log; `data` is empty in raft's own entries."""
        return self._state.apply(data, offset=offset, epoch=epoch)

    def replay(self, records: tuple[Record, ...], *, offset: MetadataOffset, epoch: int) -> None:
        """Takes records that are known to be committed at `offset`, without their batch."""
        chain = self.image.chain
        self.apply(encode_batch(records, offset=offset, chain=chain), offset=offset, epoch=epoch)

    def capture(self) -> Callable[[], Iterator[bytes]]:
        """The committed image, to be encoded on another thread, in pieces."""
        image = self.image
        return lambda: encode_snapshot(image)

    def restore(self, snapshot: bytes) -> None:
        """Replaces the image by a snapshot's."""
        self._state.restore(decode_snapshot(snapshot))

    # --------------------------------------------------------------------- internals

    def _decide(self, image: MetadataImage, command: Command, now_ms: int) -> Result:
        match command:
            case RegisterBroker():
                return brokers.register(image, command, self.settings, self.heartbeats, now_ms)
            case Heartbeat():
                return brokers.heartbeat(image, command, self.settings)
            case UnregisterBroker():
                return brokers.unregister(image, command)
            case AlterPartition():
                return isr.alter(image, command, self.heartbeats)
            case AssignReplicasToDirectories():
                return directories.assign(image, command)
            case AllocateProducerIds():
                return producer_ids.allocate(image, command)
            case CreateTopics():
                return topics.create(image, command, self.settings)
            case DeleteTopics():
                return topics.delete(image, command)
            case CreatePartitions():
                return topics.create_partitions(image, command, self.settings)
            case ElectLeaders():
                return elections.elect_leaders(image, command)
            case AlterPartitionReassignments():
                return reassignment.alter(image, command)
            case IncrementalAlterConfigs():
                return configs.alter(image, command)
            case UpdateFeatures():
                return features.update(image, command)
            case _:
                assert_never(command)

    def _propose(self, batches: tuple[tuple[Record, ...], ...]) -> tuple[ProposedBatch, ...]:
        epoch = self._epoch
        if epoch is None:
            return ()
        return tuple(self._state.propose(batch, epoch=epoch) for batch in batches)

    def _decided(self, result: Result, proposals: tuple[ProposedBatch, ...] = ()) -> Decision:
        return Decision(
            answer=result.answer,
            proposals=proposals,
            release_offset=self._state.speculative.offset,
        )


NOT_ACTIVE: Final = refuse(ErrorCode.NOT_CONTROLLER, "this voter is not the active controller")
TOO_MANY_PENDING: Final = refuse(
    ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many metadata changes are waiting to be committed"
)


def _checked(image: MetadataImage, result: Result) -> Result:
    """The result, if its batches may be written at all."""
    for batch in result.batches:
        gated = not_allowed_at(batch, metadata_version=image.metadata_version)
        if gated is not None:
            return refuse(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{type(gated).__name__} version {gated.version} needs a metadata.version above "
                f"{image.metadata_version}: finalize a newer one first",
            )
        size_bytes = len(encode_batch(batch, offset=LARGEST_OFFSET, chain=2**32 - 1))
        if size_bytes > MAX_BATCH_BYTES:
            return refuse(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the change takes {size_bytes} bytes and {MAX_BATCH_BYTES} are the most that "
                "happen at once: ask for it in smaller pieces",
            )
    return result
