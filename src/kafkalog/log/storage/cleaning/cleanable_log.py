"""A log as the log cleaner sees it, and its dirty part: the segments to be cleaned
(`LogCleanerManager.cleanableOffsets`, `LogToClean`).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from kafkalog.codec.model import AbortedTransaction
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.leader_epochs import LeaderEpochFileCache
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.segment import LogSegment
from kafkalog.log.storage.segments import LogSegments
from kafkalog.log.storage.settings import CleanerSettings

__all__ = ["CleanableLog", "Dirty", "dirty_part"]

_NEVER = 2**63 - 1


class CleanableLog(Struct, kw_only=True):
    """A loaded log to be cleaned: its segments, producer state and settings. The last segment is the active one."""

    disk: Disk
    directory: str
    settings: CleanerSettings
    segments: LogSegments
    producers: ProducerStateManager
    epochs: LeaderEpochFileCache
    log_start_offset: int
    end_offset: int
    high_watermark: int
    retire: Callable[[LogSegment], None]
    """function that removes the files of a replaced or deleted segment from the log"""

    def __post_init__(self) -> None:
        self.high_watermark = min(max(self.high_watermark, self.log_start_offset), self.end_offset)
        self.producers.on_high_watermark_updated(self.high_watermark)

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction; the high watermark if none is open."""
        unstable = self.producers.first_unstable_offset()
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that begin before offset `end`, in index order. They are read from the
        transaction indexes of the segment that contains `start` and of later segments. Transactions that end below the
        log start offset are omitted, so the cleaner treats their batches as committed. Return an empty list if no
        segment begins at or below `start`.

        Pending entries of the indexes are written first. Raises `KafkaError` if the high byte of an entry's version is
        1 to 127. Raises `StorageError` if an index cannot be read or written.
        """
        transactions: list[AbortedTransaction] = []
        if self.segments.floor(start) is None:
            return transactions
        for segment in self.segments.between(start, _NEVER):
            entries, is_complete = segment.transaction_index.collect(self.log_start_offset, end)
            transactions += entries
            if is_complete:
                break
        return transactions

    def inactive_from(self, offset: int) -> list[LogSegment]:
        """Return the segments from the one that holds `offset` on, in order, without the active one. Empty if `offset`
        is above the base offset of the active segment.
        """
        last = self.segments.last.base_offset
        return [] if offset > last else self.segments.between(offset, last)


class Dirty(Struct, frozen=True, kw_only=True):
    """The part of a log that a cleaner pass would clean. Sizes are of whole log files in bytes."""

    first_offset: int
    """first offset that was not cleaned before"""
    upper_bound: int
    """first offset that the pass does not clean, a segment's base offset"""
    clean_bytes: int
    cleanable_bytes: int
    """a segment that contains `first_offset` counts in both sizes"""
    is_overdue: bool
    """whether a batch has been dirty longer than `max.compaction.lag.ms`"""
    is_reset: bool
    """whether the checkpoint was outside the log: a broker corrects it at once"""

    @property
    def ratio(self) -> float:
        """Share of the bytes that are cleanable, from 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_cleaned(self, min_ratio: float) -> bool:
        """Whether a broker's cleaner would clean this log: its share of cleanable bytes is above `min_ratio`, or it is
        overdue and has cleanable bytes.
        """
        return (self.is_overdue and self.cleanable_bytes > 0) or self.ratio > min_ratio


def dirty_part(log: CleanableLog, checkpoint: int | None, now_ms: int) -> Dirty:
    """Return the dirty part of a log: its offset range, the bytes of clean and of cleanable segments, and whether a
    batch has been dirty longer than `max.compaction.lag.ms`. A segment in which the dirty part begins counts as both
    clean and cleanable. `checkpoint` is the log's first dirty offset in `cleaner-offset-checkpoint`, None if it has no
    entry.

    The dirty part begins at `checkpoint`. It begins at the log start offset if `checkpoint` is None or outside the log;
    in the second case `is_reset` is True. It ends at the base offset of the first segment that must not be cleaned: the
    segment with the last stable offset, the first one younger than `min.compaction.lag.ms`, or the active one. Raises
    `JavaError` if timestamps of a segment cannot be read. Raises `StorageError` if a segment cannot be read.
    """
    start = log.log_start_offset
    first = start if checkpoint is None else checkpoint
    is_reset = not start <= first <= log.end_offset
    if is_reset:
        first = start
    bound = min(log.last_stable_offset, log.segments.last.base_offset, _too_young(log, first, now_ms))
    inactive = log.inactive_from(max(first, bound))
    upper_bound = (inactive[0] if inactive else log.segments.last).base_offset
    cleanable = log.segments.between(min(first, upper_bound), upper_bound)
    return Dirty(
        first_offset=first,
        upper_bound=upper_bound,
        clean_bytes=sum(segment.log.size for segment in log.segments.between(-1, first)),
        cleanable_bytes=sum(segment.log.size for segment in cleanable),
        is_overdue=_is_overdue(log, first, now_ms),
        is_reset=is_reset,
    )


def _too_young(log: CleanableLog, first: int, now_ms: int) -> int:
    """Return the base offset of the first inactive segment that is younger than `min.compaction.lag.ms`, from the one
    that contains offset `first` on. The age counts from the largest timestamp, or from the modification time without
    timestamps. Return an offset above all others if there is none or the lag is 0. Raises `JavaError` if timestamps of
    a segment cannot be read. Raises `StorageError` if a segment cannot be read.
    """
    lag = log.settings.min_compaction_lag_ms
    if lag > 0:
        for segment in log.inactive_from(first):
            if segment.age_timestamp > now_ms - lag:
                return segment.base_offset
    return _NEVER


def _is_overdue(log: CleanableLog, first: int, now_ms: int) -> bool:
    clean_until = now_ms - max(log.settings.max_compaction_lag_ms, 0)
    times = (segment.first_batch_timestamp for segment in log.inactive_from(first))
    earliest = min((time for time in times if time is not None and time > 0), default=_NEVER)
    return earliest < clean_until
