"""Compaction: of all records with a key, the last one stays (KIP-58, KIP-280, KIP-534).

It works on sealed segments below a bound that nothing can change any more, in three parts:

* `plan` (the log's thread) decides what to look at. The bound is the lowest of the active segment,
  the high watermark, the first open transaction, and `min.compaction.lag.ms`.
* `Compaction.run` (any thread) reads the records behind the last compaction to learn the last
  offset of each key, then writes every segment from the start anew, several small ones into one.
  It touches no file that the log uses.
* `finish` (the log's thread) puts the new files in their places.

What stays of a segment:

* a record with a key, unless a later record below the bound has the same key;
* a tombstone (no value) until `delete.retention.ms` after it was first compacted, so that readers
  who are that slow still learn of the deletion. The batch header keeps the time (KIP-534);
* a transaction's marker for as long as records of the transaction stay, and then as long as a
  tombstone; records of an aborted transaction go;
* the last batch of each producer and the last batch of each new segment, without records if need
  be: the one so that duplicates are recognised, the other so that offsets end where they ended.

A crash is survived at every step. The new file is written as `.cleaned` and synced; its renaming
to `.swap` is the point of no return; on start a `.cleaned` file is removed, a `.swap` file takes
its place (`finish_swaps`), which is also how it goes without a crash.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Final

from kafka_wire.errors import WireError
from kafka_wire.records import BatchHeader, Record, iter_records, parse_header, rewrite_batch
from kafka_wire.records.batch import HEADER_SIZE_BYTES
from kafka_wire.types import Offset, ProducerId
from log.config import LogConfig
from log.errors import DamagedFileError
from log.filesystem import File, FileSystem
from log.names import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
    offset_of,
)
from log.partition_log import PartitionLog
from log.segment import MAX_RELATIVE_OFFSET, Segment, SegmentSettings
from log.transaction_index import AbortedTransaction

MAX_KEYS: Final = 4_000_000
"""Keys that one pass may remember; what lies behind them waits for the next pass."""
_DIGEST_BYTES: Final = 16


class Compaction:
    """One pass over a log. Made by `plan`."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        config: LogConfig,
        *,
        groups: list[list[tuple[Offset, int]]],
        first_dirty_offset: Offset,
        end_offset: Offset,
        last_offsets: Mapping[ProducerId, Offset],
        aborted: list[AbortedTransaction],
        now_ms: int,
    ) -> None:
        self.end_offset = end_offset
        """Where the next pass begins to learn keys."""
        self.groups = groups
        """Base offset and size of the segments that become one, for each new segment."""
        self._filesystem = filesystem
        self._directory = directory
        self._config = config
        self._first_dirty_offset = first_dirty_offset
        self._aborted = aborted
        self._filter = _Filter(config, last_offsets, aborted, now_ms)

    def run(self) -> None:
        """Writes the new files. May run in any thread, and may take long."""
        self._learn_keys()
        for group in self.groups:
            self._rewrite(group)

    def _learn_keys(self) -> None:
        last = self._filter.last_offset_of_key
        items = [item for group in self.groups for item in group]
        clean = sum(base <= self._first_dirty_offset for base, _ in items[1:])
        for segment in self._segments(items[clean:]):
            # Indexes are left alone: they are files of the log's own thread.
            for _, header, batch in segment.batches():
                if header.base_offset >= self.end_offset:
                    return
                if header.last_offset < self._first_dirty_offset or header.is_control:
                    continue
                if self._filter.is_aborted(header):
                    continue
                if len(last) >= MAX_KEYS:
                    self.end_offset = header.base_offset
                    return
                for record in iter_records(batch):
                    if record.key is not None:
                        last[_digest(record.key)] = record.offset

    def _rewrite(self, group: list[tuple[Offset, int]]) -> None:
        path = f"{self._directory}/{file_name(group[0][0], LOG)}{CLEANED}"
        file = self._filesystem.open(path, create=True)
        try:
            file.truncate(0)
            self._write_kept(group, file)
            file.sync()
        finally:
            file.close()

    def _write_kept(self, group: list[tuple[Offset, int]], file: File) -> None:
        last: tuple[BatchHeader, memoryview] | None = None
        kept_last = False
        for segment in self._segments(group):
            for _, header, batch in segment.batches():
                kept = self._filter.kept(header, batch)
                last, kept_last = (header, batch), kept is not None
                if kept is not None:
                    file.append(kept)
        if last is not None and not kept_last:
            file.append(rewrite_batch(last[0], ()))

    def _segments(self, items: list[tuple[Offset, int]]) -> Iterator[Segment]:
        """The old segments, with handles of their own."""
        for base_offset, size_bytes in items:
            yield Segment(
                self._filesystem,
                self._directory,
                base_offset,
                SegmentSettings.of(self._config),
                size_bytes=size_bytes,
            )


class _Filter:
    """Decides batch by batch, in the order of the log from its start, what stays."""

    def __init__(
        self,
        config: LogConfig,
        last_offsets: Mapping[ProducerId, Offset],
        aborted: list[AbortedTransaction],
        now_ms: int,
    ) -> None:
        self.last_offset_of_key: dict[bytes, Offset] = {}
        self._horizon_ms = now_ms + config.delete_retention_ms
        self._now_ms = now_ms
        self._last_offsets = last_offsets
        self._aborted: dict[ProducerId, list[AbortedTransaction]] = {}
        for transaction in aborted:
            self._aborted.setdefault(transaction.producer_id, []).append(transaction)
        self._with_records: set[ProducerId] = set()
        """Producers of whose current transaction a record stays."""

    def is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional or header.producer_id is None:
            return False
        return any(
            transaction.first_offset <= header.base_offset <= transaction.last_offset
            for transaction in self._aborted.get(header.producer_id, ())
        )

    def kept(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """What is to be written for a batch: itself, a smaller one, or nothing."""
        if header.is_control:
            return self._kept_marker(header, batch)
        horizon_ms = header.delete_horizon_ms
        records, tombstones = [], False
        total = 0
        for record in () if self.is_aborted(header) else iter_records(batch):
            total += 1
            if not self._stays(record, horizon_ms):
                continue
            records.append(record)
            tombstones = tombstones or record.value is None
        if records:
            if header.is_transactional and header.producer_id is not None:
                self._with_records.add(header.producer_id)
            new_horizon = self._horizon_ms if tombstones and horizon_ms is None else None
            if len(records) == total == header.records_count and new_horizon is None:
                return batch
            return rewrite_batch(header, records, delete_horizon_ms=new_horizon)
        if header.producer_id is not None and (
            self._last_offsets.get(header.producer_id) == header.last_offset
        ):
            return rewrite_batch(header, ())
        return None

    def _stays(self, record: Record, horizon_ms: int | None) -> bool:
        if record.key is None:
            return False
        if self.last_offset_of_key.get(_digest(record.key), record.offset) > record.offset:
            return False
        return record.value is not None or horizon_ms is None or horizon_ms > self._now_ms

    def _kept_marker(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        needed = header.producer_id in self._with_records
        if header.producer_id is not None:
            self._with_records.discard(header.producer_id)
        if needed:
            return batch
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None:
            records = list(iter_records(batch))
            return rewrite_batch(header, records, delete_horizon_ms=self._horizon_ms)
        return batch if horizon_ms > self._now_ms else None


def plan(
    filesystem: FileSystem, log: PartitionLog, *, first_dirty_offset: Offset, now_ms: int
) -> Compaction | None:
    """A pass over everything below the bound, or None if there is nothing new to compact."""
    limit = min(log.segments.active.base_offset, log.last_stable_offset)
    youngest_ms = now_ms - log.config.min_compaction_lag_ms
    chosen: list[Segment] = []
    for segment in log.segments.sealed():
        newest = segment.indexes.max_timestamp
        if log.segments.end_of(segment, log.log_end_offset) > limit:
            break
        if log.config.min_compaction_lag_ms and newest is not None and newest[0] > youngest_ms:
            break
        chosen.append(segment)
    if not chosen:
        return None
    end_offset = log.segments.end_of(chosen[-1], log.log_end_offset)
    if end_offset <= first_dirty_offset:
        return None
    return Compaction(
        filesystem,
        log.directory,
        log.config,
        groups=_groups(chosen, log),
        first_dirty_offset=max(first_dirty_offset, chosen[0].base_offset),
        end_offset=end_offset,
        last_offsets={
            entry.producer_id: entry.batches[-1].last_offset
            for entry in log.producers.entries()
            if entry.batches
        },
        # The marker of a transaction may lie behind the bound, but it is there: see the limit.
        aborted=list(log.aborted_transactions(log.log_start_offset, end_offset)),
        now_ms=now_ms,
    )


def finish(filesystem: FileSystem, log: PartitionLog, compaction: Compaction) -> None:
    """Puts the new segments in the places of the old; readers of old files may go on.

    Where the log has deleted or cut an old segment since the plan, the new one is dropped: it
    would bring records back.
    """
    log.require_online()
    try:
        for group in compaction.groups:
            name = f"{log.directory}/{file_name(group[0][0], LOG)}"
            sizes = {segment.base_offset: segment.size_bytes for segment in log.segments.sealed()}
            if any(sizes.get(base_offset) != size_bytes for base_offset, size_bytes in group):
                _remove(filesystem, name + CLEANED)
                continue
            filesystem.rename(name + CLEANED, name + SWAP)
            filesystem.sync_directory(log.directory)
            finish_swap(filesystem, log.directory, group[0][0], [base for base, _ in group[1:]])
            log.replace_segments([base for base, _ in group])
    except OSError as error:
        raise log.go_offline(error) from error


def finish_swaps(filesystem: FileSystem, directory: str) -> None:
    """On start: completes what a crash interrupted behind the point of no return."""
    sizes = {entry.name: entry.size_bytes for entry in filesystem.list(directory)}
    for name in sizes:
        base_offset = offset_of(name.removesuffix(SWAP), LOG) if name.endswith(SWAP) else None
        if base_offset is None:
            continue
        last_offset = _last_offset(filesystem, directory, base_offset, sizes[name])
        covered = [offset_of(other, LOG) for other in sizes]
        replaced = [o for o in covered if o is not None and base_offset < o <= last_offset]
        finish_swap(filesystem, directory, base_offset, replaced)


def finish_swap(
    filesystem: FileSystem, directory: str, base_offset: Offset, replaced: list[Offset]
) -> None:
    """Removes the segments that a `.swap` file replaces, and gives it its name."""
    for old in reversed(replaced):
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT):
            _remove(filesystem, f"{directory}/{file_name(old, suffix)}")
    # Of aborted transactions nothing is left to tell readers of; the other indexes are made anew.
    for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
        _remove(filesystem, f"{directory}/{file_name(base_offset, suffix)}")
    name = f"{directory}/{file_name(base_offset, LOG)}"
    filesystem.rename(name + SWAP, name)
    filesystem.sync_directory(directory)


def _groups(segments: list[Segment], log: PartitionLog) -> list[list[tuple[Offset, int]]]:
    """Neighbours that fit into one segment together."""
    groups: list[list[tuple[Offset, int]]] = []
    size_bytes = 0
    for segment in segments:
        end = log.segments.end_of(segment, log.log_end_offset)
        fits = (
            bool(groups)
            and size_bytes + segment.size_bytes <= log.config.segment_bytes
            and end - groups[-1][0][0] <= MAX_RELATIVE_OFFSET
        )
        if not fits:
            groups.append([])
            size_bytes = 0
        groups[-1].append((segment.base_offset, segment.size_bytes))
        size_bytes += segment.size_bytes
    return groups


def _last_offset(
    filesystem: FileSystem, directory: str, base_offset: Offset, size_bytes: int
) -> Offset:
    """The last offset in a `.swap` file, which was synced before it got that name."""
    path = f"{directory}/{file_name(base_offset, LOG)}{SWAP}"
    file = filesystem.open(path)
    try:
        position, last_offset = 0, base_offset
        while position < size_bytes:
            header = parse_header(file.read(HEADER_SIZE_BYTES, position))
            position += header.size_bytes
            last_offset = header.last_offset
    except WireError as error:
        raise DamagedFileError(path, str(error)) from None
    finally:
        file.close()
    return last_offset


def _remove(filesystem: FileSystem, path: str) -> None:
    if filesystem.exists(path):
        filesystem.remove(path)


def _digest(key: bytes) -> bytes:
    """A key in sixteen bytes: what makes the memory of a pass independent of long keys."""
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()
