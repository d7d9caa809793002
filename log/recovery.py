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
from itertools import pairwise, zip_longest

from kafka_wire.types import Offset
from log.check import BatchCheck
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
from log.partition_log import PartitionLog
from log.replay import load_producers
from log.segment import Segment, SegmentSettings
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
    on_failure: Callable[[Exception], None] = lambda _: None,
) -> PartitionLog:
    """Opens the log in a directory, which may be empty.

    `clean` says that the last owner has closed it; `recovery_point` and `log_start_offset` are
    those that were last written down. `before_truncation` is called with the offset that a
    truncation will cut at, and must write a higher recovery point down as that one first:
    otherwise the next start would miss what was cut on purpose. `on_failure` is told when the log
    goes offline.
    """
    finish_swaps(filesystem, directory)
    segments = _find_segments(filesystem, directory, config, log_start_offset)
    epochs = _read_epochs(filesystem, directory)
    if clean:
        suspects: list[Segment] = []
        end = segments.active.end_offset()
    else:
        check = BatchCheck(
            start=_doubtful(segments, recovery_point)[0].base_offset,
            known_epochs=epochs or LeaderEpochs(),
            known_end=recovery_point,
        )
        suspects = _check(filesystem, directory, segments, recovery_point, check)
        end = check.expected
    if end < recovery_point:
        raise DamagedLogError(
            segments.active.path(),
            segments.active.size_bytes,
            end,
            f"records up to offset {recovery_point} were synced and are missing",
        )
    log_start_offset = max(log_start_offset, segments.first.base_offset)
    written = None if epochs is None else epochs.entries
    if epochs is not None:
        # Epochs behind the recovery point may be those of batches that were cut since.
        epochs.truncate_end(end if clean else recovery_point)
        if epochs.entries:
            # They are cut at the log's start, and may be written down before it is.
            log_start_offset = max(log_start_offset, epochs.entries[0].start_offset)
    log_start_offset = min(log_start_offset, end)
    epochs = _complete_epochs(epochs, segments, suspects, log_start_offset)
    if epochs.entries != written:
        write_safely(filesystem, directory, LEADER_EPOCHS, encode_epochs(epochs.entries))
    producers = load_producers(
        filesystem, directory, segments, end, trusted_end=None if clean else recovery_point
    )
    for segment in suspects:
        segment.indexes.write() if segment is segments.active else segment.seal()
    opened = PartitionLog(
        filesystem,
        directory,
        config,
        segments=segments,
        epochs=epochs,
        producers=producers,
        log_start_offset=log_start_offset,
        log_end_offset=end,
        recovery_point=recovery_point,
        unsynced=[file for segment in suspects for file in segment.files()],
        before_truncation=before_truncation,
        on_failure=on_failure,
    )
    opened.flush()
    return opened


def _find_segments(
    filesystem: FileSystem, directory: str, config: LogConfig, log_start_offset: Offset
) -> Segments:
    """The segments on disk, after the remains of unfinished work were removed."""
    settings = SegmentSettings.of(config)
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
        segment.create().sync()
        filesystem.sync_directory(directory)
        found.append(segment)
    return Segments(found)


def _check(
    filesystem: FileSystem,
    directory: str,
    segments: Segments,
    recovery_point: Offset,
    check: BatchCheck,
) -> list[Segment]:
    """Checks every batch of the segments that reach above the recovery point.

    Cuts the log at the first bad batch; returns the segments that were checked and stay.
    """
    suspects = _doubtful(segments, recovery_point)
    for segment, following in pairwise([*segments][: len(segments) - len(suspects) + 1]):
        if segment.end_offset() != following.base_offset:
            reason = f"the next segment begins at offset {following.base_offset}"
            raise DamagedLogError(segment.path(), segment.size_bytes, segment.end_offset(), reason)
    for segment, following in zip_longest(suspects, suspects[1:]):
        bad = check.first_bad(segment, following)
        if bad is not None:
            if check.expected < recovery_point:
                raise DamagedLogError(segment.path(), bad.position, check.expected, bad.reason)
            _cut(filesystem, directory, segments, segment, bad.position)
            break
    suspects = _doubtful(segments, recovery_point)
    for segment in suspects:
        segment.rebuild_indexes()
    return suspects


def _doubtful(segments: Segments, recovery_point: Offset) -> list[Segment]:
    """The segments to check: from the one that holds the last synced batch.

    Where that one ends with the recovery point, its batches were synced, but it may have been
    sealed after that: then its indexes were not.
    """
    return list(segments.from_offset(Offset(max(recovery_point - 1, 0))))


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


def _read_epochs(filesystem: FileSystem, directory: str) -> LeaderEpochs | None:
    """The epochs that were written down; None if the file is damaged."""
    path = f"{directory}/{LEADER_EPOCHS}"
    if not filesystem.exists(path):
        return LeaderEpochs()
    try:
        return LeaderEpochs(decode_epochs(read_file(filesystem, path), path))
    except DamagedFileError:
        return None


def _complete_epochs(
    known: LeaderEpochs | None,
    segments: Segments,
    suspects: list[Segment],
    log_start_offset: Offset,
) -> LeaderEpochs:
    """The epochs that were written down, and those of batches behind them.

    The checkpoint is synced before the recovery point passes an epoch's first batch, so only
    suspect segments can have epochs that it lacks. A damaged one is made anew from all batches.
    """
    epochs = known if known is not None else LeaderEpochs()
    for segment in list(segments) if known is None else suspects:
        for _, header, _ in segment.batches():
            if header.leader_epoch is not None and (
                epochs.latest is None or header.leader_epoch > epochs.latest
            ):
                epochs.assign(header.leader_epoch, header.base_offset)
    epochs.truncate_start(log_start_offset)
    return epochs
