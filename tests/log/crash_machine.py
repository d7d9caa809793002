"""Random operations on a log whose power may fail at any file operation, against a model.

Invariants, each with a name that a planted bug is expected to trip:

* `flushed-is-there`: after a crash everything that was flushed is in the log;
* `cut-stays-cut`: nothing that was truncated or deleted comes back;
* `nothing-foreign`: the log holds what was appended, at the same offsets, without a hole;
* `indexes-agree`: every offset is found through the indexes, whatever became of their files;
* `epochs-agree`: every offset has the epoch that it was written in;
* `duplicates-known`: the last batch of an idempotent producer is recognised, and only that;
* `damage-is-told`: a bit that flips in flushed data takes the log offline, and never shortens it.
"""

import random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kafka_wire.error_codes import KafkaError
from kafka_wire.records import ProducerStamp
from kafka_wire.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence
from log.config import LogConfig
from log.errors import DamagedLogError
from log.filesystem import Entry
from log.filesystem.memory import (
    MUTATIONS,
    Crash,
    CrashNow,
    Fail,
    Fault,
    MemoryFileSystem,
    Operation,
)
from log.names import LOG, OFFSET_INDEX
from log.partition_log import PartitionLog
from log.recovery import open_log
from tests.log.batches import batch_of, values_of
from tests.log.model import LogModel

DIRECTORY = "/topic-0"
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=80, retention_ms=None)
PRODUCER = ProducerId(7)
INDEX_ENTRY_BYTES = 8

SHARES = st.floats(0, 1)


class CrashMachine(RuleBasedStateMachine):
    """A log on a disk whose power may fail at any operation."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.files = MemoryFileSystem(random.Random(seed))
        self.files.make_directory(DIRECTORY)
        self.files.sync_directory("/")
        self.model = LogModel()
        self.epoch = 0
        self.written = 0
        self.sequence = 0
        self.recovery_point = 0
        """What is on disk, as a data directory keeps it."""
        self.log = self.open(clean=False)

    def open(self, *, clean: bool) -> PartitionLog:
        return open_log(
            self.files,
            DIRECTORY,
            CONFIG,
            clean=clean,
            recovery_point=Offset(self.recovery_point),
            log_start_offset=Offset(self.model.start),
            before_truncation=self.lower_recovery_point,
        )

    def lower_recovery_point(self, offset: Offset) -> None:
        self.recovery_point = min(self.recovery_point, offset)

    # ------------------------------------------------------------------------------ what it does

    @rule(count=st.integers(1, 4), size=st.sampled_from([1, 30, 200]))
    def append(self, count: int, size: int) -> None:
        values = self.new_values(count, size)
        self.log.append_as_leader(
            batch_of(values), leader_epoch=LeaderEpoch(self.epoch), now_ms=1_000
        )
        self.model.append(values, self.epoch)

    @rule(count=st.integers(1, 3))
    def append_idempotently(self, count: int) -> None:
        values = self.new_values(count, 10)
        stamp = ProducerStamp(
            producer_id=PRODUCER,
            producer_epoch=ProducerEpoch(0),
            base_sequence=Sequence(self.sequence),
        )
        first = self.log.append_as_leader(
            batch_of(values, producer=stamp), leader_epoch=LeaderEpoch(self.epoch), now_ms=1_000
        )
        assert not first.is_duplicate, "duplicates-known"
        assert first.base_offset == self.model.end, "nothing-foreign"
        self.model.append(values, self.epoch)
        self.sequence += count
        again = self.log.append_as_leader(
            batch_of(values, producer=stamp), leader_epoch=LeaderEpoch(self.epoch), now_ms=1_000
        )
        assert again.is_duplicate, "duplicates-known"
        assert again.base_offset == first.base_offset, "duplicates-known"
        assert again.last_offset == first.last_offset, "duplicates-known"

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.model.safe_end = self.model.end

    @rule(count=st.integers(0, 2), share=SHARES, cut=st.booleans())
    def flush_while_the_log_goes_on(self, count: int, share: float, cut: bool) -> None:
        ticket = self.log.prepare_flush()
        end = self.model.end
        for _ in range(count):
            self.append(2, 200)
        if cut:
            self.truncate(share)
        if ticket is not None:
            ticket.run()
            self.log.complete_flush(ticket)
            self.model.safe_end = max(self.model.safe_end, min(end, self.log.recovery_point))
        assert self.log.recovery_point <= self.log.log_end_offset, "nothing-foreign"

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point

    @rule(share=SHARES)
    def truncate(self, share: float) -> None:
        end = self.model.boundary(share)
        self.log.truncate_to(Offset(end))
        self.model.truncate(end)
        self.learn_sequence()

    @rule(share=SHARES)
    def delete_records(self, share: float) -> None:
        start = min(self.model.boundary(share), self.model.safe_end)
        if start > self.model.start:
            self.log.set_high_watermark(Offset(self.model.safe_end))
            self.log.advance_log_start(Offset(start))
            self.model.start = start

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.recovery_point = self.log.recovery_point
        self.model.safe_end = self.model.end
        self.log = self.open(clean=True)
        self.compare()

    @rule(share=SHARES, entry=SHARES, field=st.sampled_from([3, 7]), bit=st.integers(0, 7))
    def stop_and_start_with_a_damaged_index(
        self, share: float, entry: float, field: int, bit: int
    ) -> None:
        """The low byte of an entry's offset or position changes: what is hardest to notice."""
        self.log.close()
        self.recovery_point = self.log.recovery_point
        self.model.safe_end = self.model.end
        found = self.files_of(OFFSET_INDEX)
        if found:
            file = found[int(share * (len(found) - 1))]
            number = int(entry * (file.size_bytes // INDEX_ENTRY_BYTES - 1))
            position = number * INDEX_ENTRY_BYTES + field
            self.files.flip_bit(f"{DIRECTORY}/{file.name}", position, bit)
        try:
            self.log = self.open(clean=True)
        except DamagedLogError as error:
            raise AssertionError(f"indexes-agree: {error}") from error
        self.compare()

    # ------------------------------------------------------------------------- what happens to it

    @rule()
    def lose_power(self) -> None:
        self.files.crash()
        self.recover()

    @rule(
        after=st.integers(0, 25),
        done=SHARES,
        what=st.sampled_from(["append", "flush", "truncate", "roll", "close", "recover"]),
        share=SHARES,
    )
    def lose_power_during(self, after: int, done: float, what: str, share: float) -> None:
        """Power fails at a file operation soon to come, in the middle of what the log does."""
        cut = self.model.boundary(share) if what == "truncate" else None
        self.fault_after(after, CrashNow(done=done))
        try:
            self.do(what, share)
        except Crash:
            self.files.on_operation = no_fault
            self.files.crash()
            self.recover(cut=cut)
        self.files.on_operation = no_fault

    @rule(
        after=st.integers(0, 10),
        done=SHARES,
        what=st.sampled_from(["append", "flush", "truncate", "roll"]),
        share=SHARES,
    )
    def fail_during(self, after: int, done: float, what: str, share: float) -> None:
        """The disk returns an error: the log goes offline, and is as after a crash."""
        cut = self.model.boundary(share) if what == "truncate" else None
        self.fault_after(after, Fail(done=done))
        try:
            self.do(what, share)
        except KafkaError:
            assert self.log.failure is not None
            self.files.on_operation = no_fault
            self.files.crash()
            self.recover(cut=cut)
        self.files.on_operation = no_fault

    @precondition(lambda self: self.model.safe_end > self.model.start)
    @rule(share=SHARES, bit=st.integers(0, 7))
    def rot(self, share: float, bit: int) -> None:
        """A bit flips in flushed data and the process dies; then the bit is repaired."""
        self.log.flush()
        self.model.safe_end = self.model.end
        self.recovery_point = self.log.recovery_point
        self.files.crash()
        file = self.files_of(LOG)[-1]
        path = f"{DIRECTORY}/{file.name}"
        position = int(share * (file.size_bytes - 1))
        self.files.flip_bit(path, position, bit)
        blamed = None
        try:
            self.log = self.open(clean=False)
        except DamagedLogError as error:
            blamed = error.path
        assert blamed == path, "damage-is-told"
        self.files.flip_bit(path, position, bit)
        self.recover()

    # ----------------------------------------------------------------------------------- comparing

    def recover(self, cut: int | None = None) -> None:
        safe = self.model.safe_end if cut is None else min(self.model.safe_end, cut)
        self.recovery_point = min(self.recovery_point, safe)
        try:
            self.log = self.open(clean=False)
        except DamagedLogError as error:
            raise AssertionError(f"flushed-is-there: {error}") from error
        end = self.log.log_end_offset
        assert end >= safe, "flushed-is-there"
        if end > self.model.end:
            # The batch that was being appended when the power failed reached the disk whole.
            found = [
                value or b"" for offset, value in values_of(self.log) if offset >= self.model.end
            ]
            assert len(found) == end - self.model.end, "nothing-foreign"
            assert all(value.startswith(b"%d." % self.number_of(value)) for value in found)
            self.model.append(found, self.epoch)
        assert end in self.model.boundaries, "nothing-foreign"
        self.model.truncate(end)
        self.model.safe_end = end
        self.recovery_point = self.log.recovery_point
        self.learn_sequence()
        self.compare()

    def compare(self) -> None:
        assert self.log.log_end_offset == self.model.end, "nothing-foreign"
        assert self.log.log_start_offset >= self.model.start, "cut-stays-cut"
        visible = self.model.visible()
        for offset, value in visible:
            self.compare_at(offset, value)
        assert values_of(self.log) == visible, "nothing-foreign"

    def compare_at(self, offset: int, value: bytes | None) -> None:
        try:
            found = values_of(self.log, Offset(offset))
        except DamagedLogError as error:
            raise AssertionError(f"indexes-agree: {error}") from error
        assert found[0] == (offset, value), "indexes-agree"
        epoch = self.log.epochs.epoch_at(Offset(offset))
        assert epoch == self.model.rows[offset].epoch, "epochs-agree"

    def learn_sequence(self) -> None:
        """What the log knows of the producer after it lost some of its batches."""
        entry = self.log.producers.entry(PRODUCER)
        batches = entry.batches if entry is not None else None
        self.sequence = batches[-1].last_sequence + 1 if batches else 0

    # ------------------------------------------------------------------------------------- helpers

    def new_values(self, count: int, size: int) -> list[bytes]:
        values = [b"%d." % (self.written + i) + b"." * size for i in range(count)]
        self.written += count
        return values

    def number_of(self, value: bytes) -> int:
        return int(value.partition(b".")[0])

    def do(self, what: str, share: float) -> None:
        match what:
            case "append":
                self.append(3, 200)
            case "flush":
                self.flush()
            case "truncate":
                self.truncate(share)
            case "roll":
                self.log.roll()
            case "close":
                self.stop_and_start()
            case "recover":
                self.files.crash()
                self.recover()

    def fault_after(self, count: int, fault: Fault) -> None:
        first = self.files.operations_count + count

        def on_operation(operation: Operation) -> Fault | None:
            return fault if operation.number >= first and operation.kind in MUTATIONS else None

        self.files.on_operation = on_operation

    def files_of(self, suffix: str) -> list[Entry]:
        """The files of a kind that have something in them."""
        entries = self.files.list(DIRECTORY)
        return [entry for entry in entries if entry.name.endswith(suffix) and entry.size_bytes]


def no_fault(_: Operation) -> None:
    return None
