"""Detect deleted records that consumers get again. `kafka-delete-records` moves the log start offset in memory, and the
leader epochs with it (`UnifiedLog.maybeIncrementLogStartOffset`, `LeaderEpochFileCache.truncateFromStart`). The epoch
checkpoint is written at once, log-start-offset-checkpoint every minute and at a stop. After a kill in between a log
begins at the older log start offset, while its leader epochs begin where the records were deleted to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from kafkalog.codec.common.source import Source
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.plain.scanner import Scanner

__all__ = ["records_are_back", "returning_records"]


def returning_records(
    entries: Sequence[LeaderEpoch], log_start: int, bases: Collection[int], log_at: Callable[[int], Source]
) -> tuple[int, int] | None:
    """Return first and last offset (both inclusive) of the records that were deleted and are in the log again; None if
    nothing shows any. `entries` are those of the epoch checkpoint, `bases` the base offsets of the segments, and
    `log_at` opens the log with a base offset.

    They are shown by a first entry that begins above `log_start` and inside a segment whose first batch is below it and
    has its epoch: that epoch began earlier. An epoch that begins with a segment proves nothing, because a start that
    finds no checkpoint lists the epochs of the segments that it recovers. Neither does a batch without an epoch: epochs
    of an upgraded log begin later. Reads the header of at most one batch. Raises `StorageError` if it cannot be read.
    """
    first = min(entries, key=lambda entry: entry.start_offset, default=None)
    if first is None or first.start_offset <= log_start or first.start_offset in bases:
        return None
    base = max((base for base in bases if base < first.start_offset), default=None)
    batch = None if base is None else next(iter(Scanner(log_at(base))), None)
    header = None if batch is None else batch.header
    if not isinstance(header, BatchHeader) or header.base_offset >= first.start_offset:
        return None
    return (log_start, first.start_offset - 1) if header.partition_leader_epoch == first.epoch else None


def records_are_back(first: int, last: int) -> str:
    """Return a sentence about the result of `returning_records`."""
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    return (
        f"{offsets} had been deleted, and consumers get them again: delete them again after a start (runbook: "
        "deleted-records)"
    )
