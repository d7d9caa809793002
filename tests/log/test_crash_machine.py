"""Random operations on a log with a crash at any file operation, against a simple model.

Invariants, each with a name that a planted bug is expected to trip:

* `flushed-is-there`: after a crash everything that was flushed is in the log;
* `cut-stays-cut`: nothing that was truncated comes back;
* `nothing-foreign`: the log holds a prefix of what was appended, at the same offsets, no holes;
* `indexes-agree`: every offset can be read from an index lookup;
* `epochs-ascend`: epochs and their starts are those of the batches.
"""

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kafka_wire.types import LeaderEpoch, Offset
from log.config import LogConfig
from log.filesystem.memory import MUTATIONS, Crash, CrashNow, Fault, MemoryFileSystem, Operation
from log.partition_log import PartitionLog
from log.recovery import open_log
from tests.log.batches import batch_of, values_of
from tests.log.model import LogModel

DIRECTORY = "/topic-0"
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=80, retention_ms=None)


class CrashingLog(RuleBasedStateMachine):
    """A log on a disk whose power may fail at any operation."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.files = MemoryFileSystem(random.Random(seed))
        self.files.make_directory(DIRECTORY)
        self.files.sync_directory("/")
        self.model = LogModel()
        self.epoch = 0
        self.written = 0
        self.clean = False
        self.point = 0
        """The recovery point on disk."""
        self.log: PartitionLog = self.open()

    def open(self) -> PartitionLog:
        return open_log(
            self.files,
            DIRECTORY,
            CONFIG,
            clean=self.clean,
            recovery_point=Offset(self.point),
            log_start_offset=Offset(self.model.start),
            before_truncation=self.lower_point,
        )

    def lower_point(self, offset: Offset) -> None:
        self.point = min(self.point, offset)

    @rule(count=st.integers(1, 4), size=st.sampled_from([1, 30, 200]))
    def append(self, count: int, size: int) -> None:
        values = [b"%d" % (self.written + i) + b"." * size for i in range(count)]
        self.written += count
        self.log.append_as_leader(
            batch_of(values), leader_epoch=LeaderEpoch(self.epoch), now_ms=1_000
        )
        self.model.append(values, self.epoch)

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.model.safe_end = self.model.end

    @rule()
    def checkpoint(self) -> None:
        self.point = self.log.recovery_point

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        self.truncate_at(self.boundary(share))

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        end = self.model.safe_end
        if end > self.model.start:
            start = self.model.start + int((end - self.model.start) * share)
            self.log.set_high_watermark(Offset(end))
            self.log.advance_log_start(Offset(start))
            self.model.start = start

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.point = self.log.recovery_point
        self.model.safe_end = self.model.end
        self.clean = True
        self.log = self.open()
        self.clean = False
        self.compare()

    @rule()
    def crash(self) -> None:
        self.files.crash()
        self.recover()

    @rule(
        after=st.integers(0, 25),
        done=st.floats(0, 1),
        what=st.sampled_from(["append", "flush", "truncate", "recover"]),
        share=st.floats(0, 1),
    )
    def crash_during(self, after: int, done: float, what: str, share: float) -> None:
        """Power fails at a file operation soon to come, in the middle of what the log does."""
        last = self.files.operations_count + after
        cut_at = self.boundary(share)

        def on_operation(operation: Operation) -> Fault | None:
            if operation.number >= last and operation.kind in MUTATIONS:
                return CrashNow(done=done)
            return None

        self.files.on_operation = on_operation
        before = self.model.end
        try:
            match what:
                case "append":
                    self.append(3, 200)
                case "flush":
                    self.flush()
                case "truncate":
                    self.log.truncate_to(Offset(cut_at))
                    self.model.truncate(cut_at)
                case _:
                    self.files.crash()
                    self.recover()
        except Crash:
            self.files.on_operation = lambda _: None
            self.files.crash()
            if what == "append":
                self.model.append([b""] * 0, self.epoch)
            self.recover(cut_at=cut_at if what == "truncate" else None, before=before)
        self.files.on_operation = lambda _: None

    def recover(self, cut_at: int | None = None, before: int | None = None) -> None:
        self.log = self.open()
        end = self.log.log_end_offset
        safe = self.model.safe_end if cut_at is None else min(self.model.safe_end, cut_at)
        assert end >= safe, "flushed-is-there"
        assert end <= max(self.model.end, before or 0) + 4, "nothing-foreign"
        if end > self.model.end:
            # The batch that was being appended reached the disk whole.
            found = [value for offset, value in values_of(self.log) if offset >= self.model.end]
            assert len(found) == end - self.model.end, "nothing-foreign"
            self.model.append([value or b"" for value in found], self.epoch)
        self.model.truncate(end)
        self.model.safe_end = end
        self.point = self.log.recovery_point
        self.compare()

    def boundary(self, share: float) -> int:
        """An offset at which a batch begins."""
        ends = [0]
        offset = Offset(self.log.segments.first.base_offset)
        while (
            part := self.log.read(
                max(offset, self.log.log_start_offset),
                max_bytes=1,
                end_offset=self.log.log_end_offset,
            )
        ) is not None:
            from kafka_wire.records import parse_header

            offset = parse_header(part.read()).next_offset
            ends.append(offset)
        ends = [end for end in ends if end >= self.model.start] or [self.model.end]
        return ends[int(share * (len(ends) - 1))]

    def truncate_at(self, end: int) -> None:
        self.log.truncate_to(Offset(end))
        self.model.truncate(end)

    def compare(self) -> None:
        assert self.log.log_end_offset == self.model.end, "nothing-foreign"
        assert values_of(self.log) == self.model.visible(), "nothing-foreign"
        for offset, value in self.model.visible():
            assert values_of(self.log, Offset(offset))[0] == (offset, value), "indexes-agree"
        epochs = [entry.epoch for entry in self.log.epochs.entries]
        assert epochs == sorted(set(epochs)), "epochs-ascend"


TestCrashingLog = CrashingLog.TestCase
TestCrashingLog.settings = settings(
    max_examples=300,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
