"""Opening a log: what is on disk becomes a `PartitionLog`, after a clean stop or a crash.

After a clean stop the files are what they were. After a crash everything above the recovery point
is suspect and every batch there is checked:

* From the first batch on that is torn, zero, fails its checksum or is out of order, the rest goes:
  nobody was told that it is safe.
* A bad batch *below* the recovery point, or an end of the log before it, is another matter. Those
  records were synced and may have been acknowledged. The log is not shortened; a
  `DamagedLogError` names the file and the offset, and the partition stays offline.
* What was found is synced before it counts (a page that is in memory need not be on disk).
* Indexes of segments that were checked are made anew; those of others are checked when used.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_wire.errors import WireError
from kafka_wire.records import parse_header, validate_batch
from kafka_wire.records.batch import HEADER_SIZE_BYTES
from kafka_wire.types import LeaderEpoch, Offset
from log.compaction import finish_swaps
from log.config import LogConfig
from log.epochs import LeaderEpochs, decode_epochs, encode_epochs
from log.errors import DamagedFileError, DamagedLogError
from log.filesystem import FileSystem
from log.flush import read_file, write_safely
from log.names import (
    CLEANED,
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    TEMPORARY,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_of,
)
from log.partition_log import PartitionLog, segment_settings
from log.replay import load_producers
from log.segment import Segment
from log.segments import Segments


def open_log(
    filesystem: FileSystem,
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: Offset = Offset(0),  # noqa: B008 - a NewType of an int is an int
    log_start_offset: Offset = Offset(0),  # noqa: B008
    before_truncation: Callable[[Offset], None] = lambda _: None,
) -> PartitionLog:
    """Opens the log in a directory, which may be empty.

    `clean` says that the last owner has closed it; `recovery_point` and `log_start_offset` are
    those that were last written down. `before_truncation` is called with the offset that a
    truncation will cut at, and must write a higher recovery point down as that one first:
    otherwise the next start would miss what was cut on purpose.
    """
    finish_swaps(filesystem, directory)
    segments = _find_segments(filesystem, directory, config, log_start_offset)
    if clean:
        suspects: list[Segment] = []
        end = _end_of(segments.active)
    else:
        suspects, end = _check(filesystem, directory, config, segments, recovery_point)
    if end < recovery_point:
        raise DamagedLogError(
            segments.active.path(),
            segments.active.size_bytes,
            end,
            f"records up to offset {recovery_point} were synced and are missing",
        )
    opened = PartitionLog(
        filesystem,
        directory,
        config,
        segments=segments,
        epochs=_load_epochs(filesystem, directory, segments, suspects, end),
        producers=load_producers(filesystem, directory, segments, end),
        log_start_offset=min(max(log_start_offset, segments.first.base_offset), end),
        log_end_offset=end,
        recovery_point=recovery_point,
        unsynced=[file for segment in suspects for file in segment.files()],
        before_truncation=before_truncation,
    )
    opened.flush()
    return opened


def _find_segments(
    filesystem: FileSystem, directory: str, config: LogConfig, log_start_offset: Offset
) -> Segments:
    """The segments on disk, after the remains of unfinished work were removed."""
    settings = segment_settings(config)
    found: list[Segment] = []
    others: list[tuple[Offset, str]] = []
    for entry in filesystem.list(directory):
        if entry.name.endswith((TEMPORARY, CLEANED)):
            filesystem.remove(f"{directory}/{entry.name}")
            continue
        base_offset = offset_of(entry.name, LOG)
        if base_offset is not None:
            segment = Segment(
                filesystem, directory, base_offset, settings, size_bytes=entry.size_bytes
            )
            found.append(segment)
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            owner = offset_of(entry.name, suffix)
            if owner is not None:
                others.append((owner, entry.name))
    bases = {segment.base_offset for segment in found}
    for owner, name in others:
        if owner not in bases:
            filesystem.remove(f"{directory}/{name}")
    if not found:
        segment = Segment(filesystem, directory, log_start_offset, settings)
        segment.file.sync()
        filesystem.sync_directory(directory)
        found.append(segment)
    return Segments(found)


def _check(
    filesystem: FileSystem,
    directory: str,
    config: LogConfig,
    segments: Segments,
    recovery_point: Offset,
) -> tuple[list[Segment], Offset]:
    """Checks every batch of the segments that reach above the recovery point.

    Cuts the log at the first bad batch; returns the segments that were checked and the log's end.
    """
    suspects = list(segments.from_offset(recovery_point))
    expected = suspects[0].base_offset
    epoch: LeaderEpoch | None = None
    gaps = "compact" in config.cleanup_policy
    for number, segment in enumerate(suspects):
        bad = (
            _Bad(0, "an earlier segment ends elsewhere") if segment.base_offset < expected else None
        )
        if bad is None and segment.base_offset > expected and not gaps:
            bad = _Bad(0, f"the segment before ends at offset {expected}")
        if bad is None:
            expected = max(expected, segment.base_offset)
            bad, expected, epoch = _first_bad(segment, expected, epoch, gaps=gaps)
        if bad is not None:
            if expected < recovery_point:
                raise DamagedLogError(segment.path(), bad.position, expected, bad.reason)
            _cut(filesystem, directory, segments, segment, bad.position)
            suspects = suspects[: number + 1]
            if segments.active is not segment:
                suspects.pop()
            break
    for segment in suspects:
        segment.rebuild_indexes()
    return suspects, expected


class _Bad(NamedTuple):
    """Where a segment stops making sense, and why."""

    position: int
    reason: str


def _first_bad(
    segment: Segment, expected: Offset, epoch: LeaderEpoch | None, *, gaps: bool
) -> tuple[_Bad | None, Offset, LeaderEpoch | None]:
    """The first bad batch of a segment, with the offset and epoch up to which it is good."""
    position = 0
    while position < segment.size_bytes:
        try:
            header = parse_header(segment.file.read(HEADER_SIZE_BYTES, position))
            if header.size_bytes > segment.size_bytes - position:
                return _Bad(position, "the last batch is torn"), expected, epoch
            validate_batch(segment.file.read(header.size_bytes, position))
        except WireError as error:
            return _Bad(position, str(error)), expected, epoch
        if header.base_offset < expected or (header.base_offset > expected and not gaps):
            reason = f"offset {header.base_offset} follows where {expected} should"
            return _Bad(position, reason), expected, epoch
        if header.leader_epoch is None or (epoch is not None and header.leader_epoch < epoch):
            reason = f"leader epoch {header.leader_epoch} follows {epoch}"
            return _Bad(position, reason), expected, epoch
        epoch = header.leader_epoch
        expected = header.next_offset
        position += header.size_bytes
    return None, expected, epoch


def _cut(
    filesystem: FileSystem, directory: str, segments: Segments, bad: Segment, position: int
) -> None:
    """Removes everything from a position on, later segments first: never a hole between."""
    while segments.active is not bad:
        segments.remove_last().remove()
    if position == 0 and len(segments) > 1:
        segments.remove_last().remove()
    filesystem.sync_directory(directory)
    if segments.active is bad:
        bad.cut_file(position)


def _end_of(active: Segment) -> Offset:
    """The end of a log that was closed: behind the last batch, which the index leads to."""
    end = active.base_offset
    last = active.indexes.offsets.last
    for step in active.steps(0 if last is None else last.position):
        end = Offset(step.last_offset + 1)
    return end


def _load_epochs(
    filesystem: FileSystem,
    directory: str,
    segments: Segments,
    suspects: list[Segment],
    end: Offset,
) -> LeaderEpochs:
    """The epochs that were written down, and those of batches behind them.

    The checkpoint is synced before the recovery point passes an epoch's first batch, so only
    suspect segments can have epochs that it lacks. A damaged one is made anew from all batches.
    """
    path = f"{directory}/{LEADER_EPOCHS}"
    try:
        stored = read_file(filesystem, path) if filesystem.exists(path) else encode_epochs(())
        epochs = LeaderEpochs(decode_epochs(stored, path))
    except DamagedFileError:
        stored, epochs, suspects = b"", LeaderEpochs(), list(segments)
    epochs.truncate_end(end)
    for segment in suspects:
        for _, header in segment.headers():
            if header.leader_epoch is not None and (
                epochs.latest is None or header.leader_epoch > epochs.latest
            ):
                epochs.assign(header.leader_epoch, header.base_offset)
    wanted = encode_epochs(epochs.entries)
    if wanted != stored:
        write_safely(filesystem, directory, LEADER_EPOCHS, wanted)
    return epochs
