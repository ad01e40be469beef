"""Run one pass of the log cleaner over one log (`Cleaner.doClean`, `LocalLog.replaceSegments`). The dirty part is read
once to find the latest offset of each key. Then every segment up to the last offset in that map is rewritten. The new
files are called `.cleaned` at first, which a broker's start deletes. They are renamed to `.swap`, which a start
completes, and the old files are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.names import CLEANED, SWAP, FileKind, segment_file
from kafkalog.codec.native.thresholds import kernel_is_worth_it
from kafkalog.log.storage.cleaned_output import CleanedOutput
from kafkalog.log.storage.cleaning.batch_retention import BatchRetention, CleanedCounts
from kafkalog.log.storage.cleaning.cleanable_log import CleanableLog, Dirty
from kafkalog.log.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkalog.log.storage.cleaning.latest_offsets import take_offsets
from kafkalog.log.storage.cleaning.offset_map import OffsetMap
from kafkalog.log.storage.cleaning.segment_groups import segment_groups
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.segment import LogSegment

__all__ = ["CleanedGroup", "Cleaner"]

_SEGMENT_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


class CleanedGroup(Struct, frozen=True):
    """Base offsets of a new segment and of the old segments that it replaced."""

    base_offset: int
    replaced: tuple[int, ...]
    """base offsets of the old segments, its own included"""


class Cleaner:
    """One pass of the cleaner over one log. `groups` and `counts` have the results so far, also after a failure."""

    def __init__(self, log: CleanableLog, dirty: Dirty, now_ms: int) -> None:
        self._log = log
        self._dirty = dirty
        self._now_ms = now_ms
        self.groups: list[CleanedGroup] = []
        self.counts = CleanedCounts()
        cleaned = log.segments.between(0, dirty.upper_bound)
        self._by_runs = kernel_is_worth_it(sum(segment.log.size for segment in cleaned))

    def clean(self) -> int:
        """Clean the dirty part of the log: rewrite and replace its segments. Return the first offset that is still
        dirty, which is the new cleaner checkpoint. It is below the end of the dirty part if the offset map became full.
        Changes the files, the segments of the log and its producer snapshots, and fills `groups` and `counts`.

        Raises `FormatError` or `JavaError` if records, markers or indexes cannot be read or rewritten; a broker would
        then mark the log as uncleanable. Groups that were finished before stay replaced. Raises `StorageError` for I/O
        errors.
        """
        log, settings, bound = self._log, self._log.settings, self._dirty.upper_bound
        clean = log.segments.between(0, self._dirty.first_offset)
        old_deletes_go_until = clean[-1].modified_ms - settings.delete_retention_ms if clean else 0
        offsets = self._latest_offsets()
        end = offsets.latest_offset + 1
        transactions = CleanedTransactions()
        retention = BatchRetention(
            offsets=offsets,
            transactions=transactions,
            producers={entry.producer_id: entry for entry in log.producers.producers.values()},
            upper_bound=bound,
            now_ms=self._now_ms,
            delete_retention_ms=settings.delete_retention_ms,
            counts=self.counts,
        )
        groups = segment_groups(
            log.segments.between(0, end), settings.segment_bytes, settings.segment_index_bytes, bound
        )
        for group in groups:
            self._clean_group(group, retention, old_deletes_go_until)
        return end

    # -- the latest offset of each key -------------------------------------------------------------------------------

    def _latest_offsets(self) -> OffsetMap:
        log, start, bound = self._log, self._dirty.first_offset, self._dirty.upper_bound
        offsets, take_offsets = self._map()
        transactions = CleanedTransactions()
        transactions.add(log.aborted(start, bound))
        dirty = log.segments.between(start, bound)
        for number, segment in enumerate(dirty):
            following = dirty[number + 1].base_offset if number + 1 < len(dirty) else bound
            with _named(segment):
                has_room = take_offsets(segment, start, offsets, transactions)
            if not has_room:
                break
            offsets.latest_offset = following - 1
        return offsets

    def _map(self) -> tuple[OffsetMap, Callable[[LogSegment, int, Any, CleanedTransactions], bool]]:
        """Return an empty offset map of the configured size, and the function that puts the keys of a segment into it.
        The parameters of the function are segment, first offset, map and transactions; it returns False if the map
        became full. Map and function use compiled code if the cleaner does.
        """
        slots, limit = self._log.settings.offset_map_slots, self._log.settings.offset_map_limit
        if not self._by_runs:
            return OffsetMap(slots, limit), take_offsets
        from kafkalog.log.storage.cleaning import by_runs
        from kafkalog.log.storage.cleaning.key_columns import KeyColumns

        return KeyColumns(slots, limit), by_runs.take_offsets

    # -- segments ----------------------------------------------------------------------------------------------------

    def _clean_group(self, group: Sequence[LogSegment], retention: BatchRetention, old_deletes_go_until: int) -> None:
        cleaned = self._written_by_runs(group, retention, old_deletes_go_until)
        if cleaned is None:
            cleaned = self._new_segment(group)
            try:
                self._write(cleaned, group, retention, old_deletes_go_until, _clean_segment)
            finally:
                cleaned.store()
        cleaned.flush()
        cleaned.set_modified_ms(group[-1].modified_ms)
        self._replace(cleaned, group)
        bases = tuple(segment.base_offset for segment in group)
        self.groups.append(CleanedGroup(cleaned.base_offset, bases))

    def _new_segment(self, group: Sequence[LogSegment]) -> LogSegment:
        log, base_offset = self._log, group[0].base_offset
        for kind in _SEGMENT_FILES:
            log.disk.delete(f"{log.directory}/{segment_file(base_offset, kind)}{CLEANED}")
        return LogSegment(log.disk, log.directory, base_offset, log.settings, CLEANED)

    def _written_by_runs(
        self, group: Sequence[LogSegment], retention: BatchRetention, old_deletes_go_until: int
    ) -> LogSegment | None:
        """Write a new segment for a group with compiled code, as `.cleaned`, and return it. Return None if compiled
        code is not used, or if a `FormatError` or `JavaError` occurred. In the second case the new files are deleted,
        and transactions and counts are restored. The caller can then repeat the work in plain Python, which raises the
        broker's exception. Raises `StorageError` for I/O errors.

        `retention` decides which records are kept. Tombstones of magic 0 and 1 are kept in segments that were modified
        after `old_deletes_go_until` (ms since 1970).
        """
        if not self._by_runs:
            return None
        from kafkalog.log.storage.cleaning.by_runs import clean_segment

        transactions, counts = retention.transactions.copy(), replace(retention.counts)
        cleaned = self._new_segment(group)
        try:
            self._write(cleaned, group, retention, old_deletes_go_until, clean_segment)
        except (FormatError, JavaError):
            cleaned.delete_files()
            retention.transactions = transactions
            self.counts = retention.counts = counts
            return None
        cleaned.store()
        return cleaned

    def _write(
        self,
        cleaned: LogSegment,
        group: Sequence[LogSegment],
        retention: BatchRetention,
        old_deletes_go_until: int,
        clean_segment: Callable[..., None],
    ) -> None:
        log = self._log
        retention.transactions.write_into(cleaned.transaction_index)
        output = CleanedOutput(cleaned)
        for number, segment in enumerate(group):
            is_last = number + 1 == len(group)
            until = segment.read_next_offset() if is_last else group[number + 1].base_offset
            retention.transactions.add(log.aborted(segment.base_offset, until))
            keeps_old_deletes = segment.modified_ms > old_deletes_go_until
            with _named(segment):
                clean_segment(segment, retention, output, keeps_old_deletes=keeps_old_deletes)
            output.finish()
        cleaned.become_inactive()

    def _replace(self, cleaned: LogSegment, group: Sequence[LogSegment]) -> None:
        log = self._log
        log.disk.sync_names(log.directory)
        cleaned.change_suffix(SWAP)
        log.disk.sync_names(log.directory)
        log.segments.put(cleaned, cleaned.base_offset)
        for segment in group:
            if segment.base_offset != cleaned.base_offset:
                log.segments.remove(segment.base_offset)
            log.retire(segment)
        log.disk.sync_names(log.directory)
        cleaned.change_suffix("")
        log.disk.sync_names(log.directory)
        log.producers.delete_snapshots_of([segment.base_offset for segment in group[1:]])


def _clean_segment(
    segment: LogSegment, retention: BatchRetention, output: CleanedOutput, *, keeps_old_deletes: bool
) -> None:
    for batch in segment.log.batches():
        output.put(retention.retained(batch, keeps_old_deletes=keeps_old_deletes), segment)


@contextmanager
def _named(segment: LogSegment) -> Iterator[None]:
    """Context manager that replaces any `FormatError` raised in its block, also one of a subclass. The new error is a
    plain `FormatError` with the path of the segment's log file. Message, position and code are kept; `field` and
    `finding` are not.
    """
    try:
        yield
    except FormatError as error:
        source = segment.path(FileKind.LOG)
        raise FormatError(error.message, position=error.position, source=source, code=error.code) from error
