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
from kafkalog.log.walk.header_walk import joined_spans

__all__ = ["records_are_back", "returning_records"]


def returning_records(
    entries: Sequence[LeaderEpoch],
    log_start: int,
    bases: Collection[int],
    log_at: Callable[[int, int], tuple[Source, int]],
) -> tuple[int, int] | None:
    """Return first and last offset (both inclusive) of the records that were deleted and are in the log again; None if
    nothing shows any. The first is `log_start`, the last is the one before the first epoch begins. `entries` are the
    entries of the epoch checkpoint, `bases` the base offsets of the segments. `log_at(base, offset)` returns the log
    with that base offset, and a byte position from which a scan finds `offset`.

    Records were deleted if the checkpoint's first epoch begins above `log_start`, and the batch before it has the same
    epoch: the epoch really began earlier. Two cases prove nothing. If the epoch begins with a segment, a start without
    a checkpoint may have listed it. If the batch has no epoch, the log was upgraded.

    Reads headers of the segment that has the batch. Raises `StorageError` if it cannot be read.
    """
    first = min(entries, key=lambda entry: entry.start_offset, default=None)
    if first is None or first.start_offset <= log_start or first.start_offset in bases:
        return None
    base = max((base for base in bases if base < first.start_offset), default=None)
    if base is None:
        return None
    log, position = log_at(base, first.start_offset - 1)
    epoch = _epoch_before(log, position, base, first.start_offset)
    return (log_start, first.start_offset - 1) if epoch == first.epoch else None


def _epoch_before(log: Source, position: int, base: int, offset: int) -> int | None:
    """Return the leader epoch of the last batch before the first one that begins at or above `offset`, in one segment
    from byte `position` on. Return None if there is no such batch, or if it is not valid or of an old format. `base` is
    the segment's base offset. Raises `StorageError` if the log cannot be read.
    """
    found: int | None = None
    for span in joined_spans(log, base, log.size, 1, position=position, base=base):
        if span.first_offset >= offset:
            break
        found = span.start
    batch = None if found is None else next(iter(Scanner(log, position=found)), None)
    header = None if batch is None else batch.header
    if not isinstance(header, BatchHeader) or header.base_offset >= offset:
        return None
    return header.partition_leader_epoch


def records_are_back(first: int, last: int) -> str:
    """Return a sentence about the result of `returning_records`."""
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    return (
        f"{offsets} had been deleted, and consumers get them again: delete them again after a start (runbook: "
        "deleted-records)"
    )
