"""The log of one partition: appended at the end, read anywhere, cut at both ends.

Offsets of a log, each at or below the next one:

    log start <= high watermark <= log end      what readers may see, what is there
    log start <= recovery point <= log end      what was synced

* As a leader it gives batches their offsets and its epoch; as a follower it takes them verbatim.
* Nothing is acknowledged here. `durable_end_offset` says what may be: what was synced, or with
  `log.flush.mode` os what was written.
* A write that fails takes the log offline: nothing is appended any more, what was there can be
  read. The same goes for a sync that fails, because nobody knows what reached the disk.
* A truncation is synced before it returns: what was cut must not come back after a crash.

Synchronous code over a file system; it starts no thread and reads no clock.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final

import msgspec

from floodmark.invariant import invariant
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.records import (
    BatchHeader,
    assign_offsets,
    iter_batches,
    validate_batch,
    validate_produced_batch,
)
from kafka_wire.records.batch import HEADER_SIZE_BYTES
from kafka_wire.types import LeaderEpoch, Offset
from log.admission import check_marker, check_order, stamp_time
from log.config import LogConfig
from log.epochs import EpochEnd, LeaderEpochs, encode_epochs
from log.errors import DamagedFileError, DamagedLogError, LogError
from log.filesystem import File, FileSystem
from log.flush import FlushTicket
from log.lookup import TimedOffset, first_at_or_after, newest
from log.producer_snapshot import remove_snapshot, write_snapshot
from log.producer_state import ProducerState
from log.replay import load_producers, rebuild_transactions, replay
from log.retention import Retention
from log.rolling import RollRule, Run
from log.segment import Segment, SegmentSettings, Slice
from log.segments import Segments
from log.transaction_index import AbortedTransaction


class Origin(Enum):
    """Who sends a batch to the leader."""

    CLIENT = auto()
    COORDINATOR = auto()


_CLIENT: Final = Origin.CLIENT
"""On the hot path: Python 3.11 takes 0.15 us to find a member of an enumeration."""


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where a batch went."""

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int | None = None
    is_duplicate: bool = False
    """It was there already: these are the offsets that it got the first time."""


class PartitionLog:
    """See the module's docstring. `log.recovery.open_log` makes one from a directory."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        config: LogConfig,
        *,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: ProducerState,
        log_start_offset: Offset,
        log_end_offset: Offset,
        recovery_point: Offset,
        unsynced: list[File],
        before_truncation: Callable[[Offset], None] = lambda _: None,
        on_failure: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self.directory = directory
        self.config = config
        self.segments = segments
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.high_watermark = log_start_offset
        self.failure: Exception | None = None
        """Why the log is offline."""
        self.epochs = epochs
        self._filesystem = filesystem
        self._before_truncation = before_truncation
        self._on_failure = on_failure
        self._settings = SegmentSettings.of(config)
        self._epochs_changed = False
        self._names_changed = bool(unsynced)
        self._unsynced = unsynced
        """Files of sealed segments, and snapshots, that were written since the last flush."""
        self._ticket: FlushTicket | None = None
        self._rule = RollRule(config)
        self._known_end: tuple[Offset, Segment, int] | None = None

    # ------------------------------------------------------------------------------ appending

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: Origin = _CLIENT,
    ) -> Appended:
        """Appends one batch; its offsets and epoch are written into `batch`."""
        self.require_online()
        # Offsets and epoch are not part of the checksum. Written before the header is parsed,
        # they need not be parsed again; in a batch that is refused they mean nothing.
        if len(batch) >= HEADER_SIZE_BYTES:
            assign_offsets(batch, base_offset=self.log_end_offset, leader_epoch=leader_epoch)
        if origin is _CLIENT:
            header = validate_produced_batch(batch)
            if header.size_bytes > self.config.max_message_bytes:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"the batch has {header.size_bytes} bytes, "
                    f"max.message.bytes is {self.config.max_message_bytes}",
                )
            known = self.producers.check(header)
            if known is not None:
                return Appended(known.first_offset, known.last_offset, None, True)
            header, append_time_ms = stamp_time(self.config, batch, header, now_ms)
        else:
            header = validate_batch(batch)
            if header.is_control:
                check_marker(self.producers, header, batch)
                append_time_ms = None
            else:
                header, append_time_ms = stamp_time(self.config, batch, header, now_ms)
        try:
            active = self.segments.active
            if self._rule.is_due(active, header, now_ms):
                active = self._begin_segment(header, now_ms)
            active.append(batch, header)
        except OSError as error:
            raise self.go_offline(error) from error
        self._note(batch, header)
        return Appended(header.base_offset, header.last_offset, append_time_ms)

    def append_as_follower(self, data: memoryview, *, now_ms: int) -> Offset:
        """Appends the leader's batches verbatim; returns the new log end offset."""
        self.require_online()
        expected, latest = self.log_end_offset, self.epochs.latest
        run = Run(data, self.segments.active)
        try:
            for header, batch in iter_batches(data):
                validate_batch(batch, header)
                check_order(header, expected, latest)
                if run.headers and self._rule.is_due(run.segment, header, now_ms, run):
                    self._write_run(run)
                if not run.headers:
                    run.segment = self._segment_for(header, now_ms)
                run.headers.append(header)
                run.end += header.size_bytes
                expected, latest = header.next_offset, header.leader_epoch
        finally:
            # Also if a batch is bad: those before it are not.
            self._write_run(run)
        return self.log_end_offset

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """A new leader's epoch begins at the log's end, before anything is written in it."""
        if self.epochs.assign(leader_epoch, self.log_end_offset):
            self._epochs_changed = True

    def write_staged(self) -> None:
        """Hands small batches to the file system; the driver calls this once in a while."""
        if self.failure is None:
            try:
                self.segments.active.write()
            except OSError as error:
                raise self.go_offline(error) from error

    # -------------------------------------------------------------------------------- reading

    def read(self, offset: Offset, *, max_bytes: int, end_offset: Offset) -> Slice | None:
        """Whole batches from the one that holds `offset`, below `end_offset`; None at the end.

        The first batch is there even if it is larger than `max_bytes`. It may begin below
        `offset`: readers pass over what they did not ask for.
        """
        active = self.segments.active
        if active.first_unwritten is not None:
            self._write_for_readers()
        # Taken only now: a write that fails takes the log's end back.
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within {self.log_start_offset} and {log_end_offset}",
            )
        if end_offset > log_end_offset:
            end_offset = log_end_offset
        if offset >= end_offset:
            return None
        if end_offset == log_end_offset and offset >= active.base_offset:
            return active.slice(offset, max_bytes=max_bytes, end_position=active.size_bytes)
        for segment in self.segments.from_offset(offset):
            if segment.base_offset >= end_offset:
                return None
            end_position = self._position_of_end(segment, end_offset)
            found = segment.slice(offset, max_bytes=max_bytes, end_position=end_position)
            if found is not None:
                return found
        return None

    def offset_at(self, timestamp_ms: int, *, end_offset: Offset) -> TimedOffset | None:
        """The first record below `end_offset` that is not older than a timestamp."""
        self._write_for_readers()
        return first_at_or_after(self.segments, timestamp_ms, self.log_start_offset, end_offset)

    def newest_record(self, *, end_offset: Offset) -> TimedOffset | None:
        """The first record below `end_offset` that has the largest timestamp there."""
        self._write_for_readers()
        return newest(self.segments, self.log_start_offset, end_offset)

    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd | None:
        """Where an epoch ends in this log; see `LeaderEpochs.end_of`."""
        return self.epochs.end_of(epoch, self.log_end_offset)

    def aborted_transactions(self, start: Offset, end: Offset) -> Iterator[AbortedTransaction]:
        """The aborted transactions that reach into the offsets from `start` to `end`."""
        for segment in self.segments.from_offset(start):
            for aborted in self._aborted_in(segment):
                if aborted.last_offset >= start and aborted.first_offset < end:
                    yield aborted
                if aborted.last_stable_offset >= end:
                    return

    @property
    def last_stable_offset(self) -> Offset:
        """Up to here every transaction is decided, for good."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def durable_end_offset(self) -> Offset:
        """What may be acknowledged, according to `log.flush.mode`."""
        if self.config.flush_mode == "group":
            return self.recovery_point
        unwritten = self.segments.active.first_unwritten
        return self.log_end_offset if unwritten is None else unwritten

    def set_high_watermark(self, high_watermark: Offset) -> None:
        invariant(
            self.log_start_offset <= high_watermark <= self.log_end_offset,
            "the high watermark lies within the log",
            high_watermark=high_watermark,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
        )
        self.high_watermark = high_watermark
        self.producers.on_high_watermark(high_watermark)

    # ------------------------------------------------------------------------------- flushing

    @property
    def is_flushing(self) -> bool:
        """Whether a ticket is outstanding."""
        return self._ticket is not None

    def prepare_flush(self) -> FlushTicket | None:
        """A ticket for everything appended so far, or None if all of it is synced.

        At most one ticket at a time: bring it back with `complete_flush` or `fail_flush`.
        """
        self.require_online()
        invariant(self._ticket is None, "one flush at a time", directory=self.directory)
        active = self.segments.active
        try:
            active.write()
            files, self._unsynced = self._unsynced, []
            if not active.is_synced:
                files.append(active.file)
                active.is_synced = True
        except OSError as error:
            raise self.go_offline(error) from error
        if not files and not self._epochs_changed and not self._names_changed:
            self.recovery_point = self.log_end_offset
            return None
        self._ticket = FlushTicket(
            self._filesystem,
            self.directory,
            end_offset=self.log_end_offset,
            files=files,
            names=self._names_changed,
            epochs=encode_epochs(self.epochs.entries) if self._epochs_changed else None,
        )
        self._epochs_changed = self._names_changed = False
        return self._ticket

    def complete_flush(self, ticket: FlushTicket) -> Offset:
        """The ticket was run: returns the new recovery point."""
        invariant(ticket is self._ticket, "a ticket is completed once, by its own log")
        self._ticket = None
        if self.failure is None:
            self.recovery_point = max(self.recovery_point, ticket.end_offset)
        return self.recovery_point

    def fail_flush(self, ticket: FlushTicket, error: OSError) -> KafkaError:
        """The ticket could not be run: the log is offline from now on."""
        invariant(ticket is self._ticket, "a ticket fails once, with its own log")
        self._ticket = None
        return self.go_offline(error)

    def flush(self) -> Offset:
        """Prepares, runs and completes a flush here and now."""
        ticket = self.prepare_flush()
        if ticket is not None:
            try:
                ticket.run()
            except OSError as error:
                raise self.fail_flush(ticket, error) from error
            self.complete_flush(ticket)
        return self.recovery_point

    def close(self) -> None:
        """Brings everything to disk, so that the next start need not look at the records."""
        if self.failure is None:
            try:
                self.segments.active.seal()
                self._unsynced += self.segments.active.indexes.files()
                self._write_snapshot()
            except OSError as error:
                raise self.go_offline(error) from error
            self.flush()
            self.take_offline(LogError(f"{self.directory} is closed"))
        for segment in self.segments:
            segment.forget_files()

    # -------------------------------------------------------------------------------- cutting

    def truncate_to(self, end_offset: Offset) -> None:
        """Cuts everything from `end_offset` on; when this returns it will not come back.

        Batches stay whole. Where `end_offset` lies within one, or within a gap that compaction has
        left, the log ends before it.
        """
        self.require_online()
        if end_offset >= self.log_end_offset:
            return
        if end_offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(end_offset)
            return
        try:
            segment = next(self.segments.from_offset(Offset(end_offset - 1)))
            position, end_offset = segment.boundary_before(end_offset)
            self._before_truncation(end_offset)
            removed = False
            while self.segments.active is not segment:
                self.segments.remove_last().remove()
                removed = True
            if removed:
                # First the later segments, then the end of this one: never a hole between.
                self._filesystem.sync_directory(self.directory)
            segment.truncate(position)
            segment.file.sync()
            segment.is_synced = True
            self._after_truncation(end_offset)
        except (OSError, LogError) as error:
            raise self.go_offline(error) from error

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Forgets all records; the next one gets `offset`."""
        self.require_online()
        try:
            self._before_truncation(Offset(0))
            while len(self.segments) > 1:
                self.segments.remove_last().remove()
            self.segments.first.remove()
            self._filesystem.sync_directory(self.directory)
            self.segments.reset(self._new_segment(offset))
            # The file's name is what tells the next start where the log goes on.
            self._filesystem.sync_directory(self.directory)
            self.log_start_offset = offset
            self.epochs.clear()
            self._epochs_changed = True
            self._after_truncation(offset)
        except (OSError, LogError) as error:
            raise self.go_offline(error) from error

    def advance_log_start(self, offset: Offset) -> int:
        """Records below `offset` are gone (DeleteRecords); returns how many segments went.

        Those that stay in a file come back with a crash, unless the log start is written down
        before (`DataDirectory.checkpoint`).
        """
        self.require_online()
        invariant(
            offset <= self.high_watermark,
            "only committed records are deleted",
            offset=offset,
            high_watermark=self.high_watermark,
        )
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epochs_changed |= self.epochs.truncate_start(offset)
        return self._remove_first_segments(self._is_deleted)

    def delete_expired(self, now_ms: int) -> int:
        """Deletes segments that retention has no more use for; returns how many."""
        self.require_online()
        retention = Retention(self.config, now_ms=now_ms, size_bytes=self.segments.size_bytes)
        return self._remove_first_segments(
            lambda segment, end: retention.may_go(segment, deleted=self._is_deleted(segment, end))
        )

    def _is_deleted(self, segment: Segment, end: Offset) -> bool:
        return end <= self.log_start_offset and segment is not self.segments.active

    def replace_segments(self, base_offsets: list[Offset]) -> None:
        """Compaction has put one file in the place of these neighbouring segments."""
        wanted = set(base_offsets)
        old = [segment for segment in self.segments if segment.base_offset in wanted]
        first = old[0]
        size_bytes = self._filesystem.open(first.path()).size_bytes
        new = Segment(
            self._filesystem,
            self.directory,
            first.base_offset,
            self._settings,
            size_bytes=size_bytes,
        )
        self.segments.replace(old, new)
        for segment in old:
            segment.forget_files()
        self._known_end = None

    # ------------------------------------------------------------------------------ internals

    def _write_run(self, run: Run) -> None:
        """Writes the batches of a run at once; the next run begins behind it."""
        if not run.headers:
            return
        headers, run.headers = run.headers, []
        start, run.start = run.start, run.end
        try:
            run.segment.append_run(run.data[start : run.end], headers)
        except OSError as error:
            raise self.go_offline(error) from error
        for header in headers:
            self._note(run.data[start : start + header.size_bytes], header)
            start += header.size_bytes

    def _note(self, batch: bytearray | memoryview, header: BatchHeader) -> None:
        """Draws the consequences of a batch that is in the log."""
        epoch = header.leader_epoch
        if epoch is not None and epoch != self.epochs.latest:
            self._epochs_changed |= self.epochs.assign(epoch, header.base_offset)
        self.log_end_offset = header.next_offset
        if header.producer_id is not None:
            replay(self.producers, self.segments.active, header, batch)

    def _segment_for(self, header: BatchHeader, now_ms: int) -> Segment:
        """The segment that a batch goes to: the active one, or a new one if that is due."""
        active = self.segments.active
        try:
            if self._rule.is_due(active, header, now_ms):
                return self._begin_segment(header, now_ms)
        except OSError as error:
            raise self.go_offline(error) from error
        return active

    def _begin_segment(self, header: BatchHeader, now_ms: int) -> Segment:
        self.roll()
        self._rule.begin(header, now_ms)
        return self.segments.active

    def roll(self) -> None:
        """Seals the active segment and begins a new one, with a snapshot of the producers."""
        active = self.segments.active
        if active.size_bytes == 0:
            return
        try:
            active.seal()
            self._unsynced += active.files()
            active.is_synced = True
            active.forget_files()
            self._write_snapshot()
            self.segments.append(self._new_segment(self.log_end_offset))
        except OSError as error:
            raise self.go_offline(error) from error

    def _new_segment(self, base_offset: Offset) -> Segment:
        segment = Segment(self._filesystem, self.directory, base_offset, self._settings)
        self._unsynced.append(segment.create())
        self._names_changed = True
        return segment

    def _write_snapshot(self) -> None:
        self._unsynced.append(
            write_snapshot(self._filesystem, self.directory, self.log_end_offset, self.producers)
        )
        self._names_changed = True

    def _position_of_end(self, segment: Segment, end_offset: Offset) -> int:
        """Where in a segment the offsets from `end_offset` on begin."""
        if self.segments.end_of(segment, self.log_end_offset) <= end_offset:
            return segment.size_bytes
        known = self._known_end
        if known is not None and known[0] == end_offset and known[1] is segment:
            return known[2]
        position = segment.position_of(end_offset)
        self._known_end = (end_offset, segment, position)
        return position

    def _remove_first_segments(self, may_go: Callable[[Segment, Offset], bool]) -> int:
        """Removes segments from the start for as long as `may_go` allows it."""
        removed = 0
        try:
            while True:
                segment = self.segments.first
                end = self.segments.end_of(segment, self.log_end_offset)
                if end > self.high_watermark or not may_go(segment, end):
                    break
                if segment is self.segments.active:
                    self.roll()
                self.segments.remove_first()
                self.log_start_offset = max(self.log_start_offset, end)
                segment.remove()
                remove_snapshot(self._filesystem, self.directory, segment.base_offset)
                removed += 1
            if removed:
                self._epochs_changed |= self.epochs.truncate_start(self.log_start_offset)
                self._known_end = None
                self._filesystem.sync_directory(self.directory)
        except OSError as error:
            raise self.go_offline(error) from error
        return removed

    def _after_truncation(self, end_offset: Offset) -> None:
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.high_watermark = min(max(self.high_watermark, self.log_start_offset), end_offset)
        if self._ticket is not None:
            self._ticket.end_offset = min(self._ticket.end_offset, end_offset)
        self._known_end = None
        self._rule.begin(None, 0)
        if self.epochs.truncate_end(end_offset):
            self._epochs_changed = True
        self.producers = load_producers(self._filesystem, self.directory, self.segments, end_offset)
        self.producers.on_high_watermark(self.high_watermark)

    def _aborted_in(self, segment: Segment) -> list[AbortedTransaction]:
        """What a segment's transaction index knows; a damaged one is made anew."""
        try:
            return segment.indexes.transactions.entries
        except DamagedLogError:
            raise
        except DamagedFileError:
            rebuild_transactions(self._filesystem, self.directory, self.segments, segment)
            return segment.indexes.transactions.entries

    def _write_for_readers(self) -> None:
        """Writes what is staged; should that fail, readers are content with what is there."""
        try:
            self.segments.active.write()
        except OSError as error:
            self.go_offline(error)

    def require_online(self) -> None:
        """Raises if nothing may be written."""
        if self.failure is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory} is offline: {self.failure}"
            )

    def take_offline(self, error: Exception) -> None:
        """Nothing is written any more. Batches that were not written yet are gone."""
        if self.failure is not None:
            return
        self.failure = error
        active = self.segments.active
        if active.first_unwritten is not None:
            self.log_end_offset = min(self.log_end_offset, active.first_unwritten)
            self.high_watermark = min(self.high_watermark, self.log_end_offset)
        active.abandon_staged(self.log_end_offset)

    def go_offline(self, error: Exception) -> KafkaError:
        """Takes the log offline, and tells; returns what to raise."""
        self.take_offline(error)
        if isinstance(error, OSError):
            # The disk is at fault, not this log alone.
            self._on_failure(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory} went offline: {error}")
