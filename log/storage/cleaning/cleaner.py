"""One pass of the log cleaner over one log (`Cleaner.doClean`, `LocalLog.replaceSegments`).

The dirty part is read once for the latest offset of each key, then every segment up to where that map reaches is
rewritten: as `.cleaned`, which means nothing, then under `.swap`, which a start completes, while the old files go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kafkalog.codec.errors import FormatError
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.names import CLEANED, SWAP, FileKind, segment_file
from kafkalog.log.storage.cleaned_output import CleanedOutput
from kafkalog.log.storage.cleaning.batch_retention import BatchRetention, CleanedCounts
from kafkalog.log.storage.cleaning.cleanable_log import CleanableLog, Dirty
from kafkalog.log.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkalog.log.storage.cleaning.offset_map import OffsetMap
from kafkalog.log.storage.cleaning.retained_batch import records_of
from kafkalog.log.storage.cleaning.segment_groups import segment_groups
from kafkalog.log.storage.segment import LogSegment

__all__ = ["CleanedGroup", "Cleaner"]

_SEGMENT_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A segment that took the place of others."""

    base_offset: int
    replaced: tuple[int, ...]
    """base offsets of the old segments, its own among them"""


class Cleaner:
    """What a pass has done so far is in `groups` and `counts`, also when it fails."""

    def __init__(self, log: CleanableLog, dirty: Dirty, now_ms: int) -> None:
        self._log = log
        self._dirty = dirty
        self._now_ms = now_ms
        self.groups: list[CleanedGroup] = []
        self.counts = CleanedCounts()

    def clean(self) -> int:
        """All of it; gives the first offset that is still dirty.

        Raises what makes a broker mark the log as one that cannot be cleaned; the groups before are replaced by then.
        """
        log, settings, bound = self._log, self._log.settings, self._dirty.upper_bound
        clean = log.segments.between(0, self._dirty.first_offset)
        old_deletes_go_until = clean[-1].modified_ms - settings.delete_retention_ms if clean else 0
        offsets = self._latest_offsets()
        end = offsets.latest_offset + 1
        transactions = CleanedTransactions()
        retention = BatchRetention(
            offsets,
            transactions,
            {entry.producer_id: entry for entry in log.producers.producers.values()},
            bound,
            self._now_ms,
            settings.delete_retention_ms,
            self.counts,
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
        offsets = OffsetMap(log.settings.offset_map_slots, log.settings.offset_map_limit)
        transactions = CleanedTransactions()
        transactions.add(log.aborted(start, bound))
        dirty = log.segments.between(start, bound)
        for number, segment in enumerate(dirty):
            following = dirty[number + 1].base_offset if number + 1 < len(dirty) else bound
            with _named(segment):
                has_room = _take_offsets(segment, start, offsets, transactions)
            if not has_room:
                break
            offsets.latest_offset = following - 1
        return offsets

    # -- segments ----------------------------------------------------------------------------------------------------

    def _clean_group(self, group: Sequence[LogSegment], retention: BatchRetention, old_deletes_go_until: int) -> None:
        log = self._log
        base_offset = group[0].base_offset
        for kind in _SEGMENT_FILES:
            log.disk.delete(f"{log.directory}/{segment_file(base_offset, kind)}{CLEANED}")
        cleaned = LogSegment(log.disk, log.directory, base_offset, log.settings, CLEANED)
        try:
            retention.transactions.write_into(cleaned.transaction_index)
            output = CleanedOutput(cleaned)
            for number, segment in enumerate(group):
                is_last = number + 1 == len(group)
                until = segment.read_next_offset() if is_last else group[number + 1].base_offset
                retention.transactions.add(log.aborted(segment.base_offset, until))
                keeps_old_deletes = segment.modified_ms > old_deletes_go_until
                with _named(segment):
                    for batch in segment.log.batches():
                        kept = retention.retained(batch, keeps_old_deletes=keeps_old_deletes)
                        if isinstance(kept, RecordBatch):
                            output.write(kept)
                        elif kept is not None:
                            output.keep(kept, segment)
                output.finish()
            cleaned.become_inactive()
        finally:
            cleaned.store()
        cleaned.flush()
        cleaned.set_modified_ms(group[-1].modified_ms)
        self._replace(cleaned, group)
        self.groups.append(CleanedGroup(base_offset, tuple(segment.base_offset for segment in group)))

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


@contextmanager
def _named(segment: LogSegment) -> Iterator[None]:
    """What cannot be read in a segment is told with its log's name."""
    try:
        yield
    except FormatError as error:
        source = segment.path(FileKind.LOG)
        raise FormatError(error.message, position=error.position, source=source, code=error.code) from error


def _take_offsets(segment: LogSegment, start: int, offsets: OffsetMap, transactions: CleanedTransactions) -> bool:
    """Put the keys of one segment in, from an offset on; False if there was no room for one."""
    for batch in segment.log.batches(segment.offset_index.lookup(start).position):
        if batch.header.is_control:
            transactions.control_batch(batch)
        elif not transactions.batch(batch):
            for record in records_of(batch):
                if record.key is not None and record.offset >= start:
                    if offsets.is_full:
                        return False
                    offsets.put(record.key, record.offset)
        if batch.last_offset >= start:
            offsets.latest_offset = batch.last_offset
    return True
