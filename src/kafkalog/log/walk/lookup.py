"""Find the position of an offset through the offset index, which is verified against the log.

As in `OffsetIndex.lookup`, the greatest entry at or below the target is used. An index has no checksum, may end in
zeros or belong to another log, so the batch at the position must be valid and begin at or below both the target and the
entry's offset. No checksum covers a batch's base offset, so the batch must also be confirmed, see `_is_confirmed`:
otherwise a scan could begin at a batch with a wrong base offset and miss the target. If an entry fails, earlier ones
are tried, and finally position 0 is used.
"""

from __future__ import annotations

from bisect import bisect_right

from msgspec.structs import replace

from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB, Limits
from kafkalog.codec.common.source import Source
from kafkalog.codec.files.index_files import OFFSET_ENTRY, OffsetEntry
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.plain.scanner import Scanner, offset_behind
from kafkalog.log.disk.files import FileSource
from kafkalog.log.walk.narrowing import is_worth_it, narrowed

__all__ = ["indexed_position", "start_position"]

_TRIES = 4
"""Most entries to try: a wrapper message needs the one before, a damaged index rarely any."""
_PROBE_BYTES = 64 * KIB
_BEYOND = 1 << 64
"""Key of a slot that was never written: above every offset."""


def _entry(index: Source, slot: int) -> OffsetEntry:
    data = index.read(slot * OFFSET_ENTRY.size, OFFSET_ENTRY.size)
    return OffsetEntry(*OFFSET_ENTRY.struct.unpack(data)) if len(data) == OFFSET_ENTRY.size else OffsetEntry(0, 0)


def _relative_offset(entry: bytes) -> int:
    index_entry = OffsetEntry(*OFFSET_ENTRY.struct.unpack(entry))
    return _BEYOND if index_entry.position <= 0 else index_entry.relative_offset


def _slot_before(index: Source, relative: int) -> int:
    """Return the slot number of the last index entry whose relative offset is at or below `relative`; -1 if there is
    none. The entries are assumed to be in order. Raises `StorageError` if the index cannot be read.
    """

    def key(slot: int) -> int:
        data = index.read(slot * OFFSET_ENTRY.size, OFFSET_ENTRY.size)
        return _relative_offset(bytes(data)) if len(data) == OFFSET_ENTRY.size else _BEYOND

    slots = range(index.size // OFFSET_ENTRY.size)
    if isinstance(index, FileSource) and is_worth_it(index):
        slots = range(*narrowed(index, OFFSET_ENTRY.size, _relative_offset, relative + 1))
    return slots.start + bisect_right(slots, relative, key=key) - 1


def indexed_position(index: Source, *, base_offset: int, target: int) -> int:
    """Return the position that the index has for `target`, unchecked; 0 if no entry is at or below it. Raises
    `StorageError` if the index cannot be read.
    """
    slot = _slot_before(index, target - base_offset) if target > base_offset else -1
    return _entry(index, slot).position if slot >= 0 else 0


def _fitting_batch(
    log: Source, entry: OffsetEntry, base_offset: int, target: int, limits: Limits
) -> RecordBatch | None:
    """Return the valid batch (checksum included) at the entry's position. The first offset in its header must be at
    least `base_offset`, at most the entry's offset, and at most `target` (absolute offsets). Return None if there is no
    such batch, or if the position is 0. Raises `StorageError` if the log cannot be read.
    """
    if not 0 < entry.position < log.size:
        return None
    batch = next(iter(Scanner(log, position=entry.position, limits=limits)), None)
    if batch is None or batch.magic not in (0, 1, 2):
        return None
    fits = base_offset <= batch.header.first_offset <= min(target, base_offset + entry.relative_offset)
    return batch if fits else None


def _is_confirmed(log: Source, batch: RecordBatch, last_offset: int) -> bool:
    """Return whether a second source confirms the offsets that the batch claims. The source may be the index entry; its
    offset `last_offset` must be the last offset of the last batch of one append (`LogSegment.append`). It may also be
    the base offset of the next batch.
    """
    if batch.last_offset == last_offset:
        return True
    return offset_behind(log, batch.position + batch.size) == batch.last_offset + 1


def start_position(
    log: Source, index: Source | None, *, base_offset: int, target: int, limits: Limits = DEFAULT_LIMITS
) -> int:
    """Return a byte position from which to scan `log` for offsets at or above `target`: if the log's offsets increase,
    all batches before it end below `target`. Return 0 if there is no index, if `target` is at or below `base_offset`,
    or if no entry can be used.

    The last four entries of `index` at or below `target` are tried, from the highest to the lowest. The first one at
    which a confirmed batch begins is used. If none is confirmed, and there are more than four such entries, a fitting
    valid batch is enough. The lowest of the four with such a batch is used. Raises `StorageError` if log or index
    cannot be read.
    """
    if index is None or target <= base_offset:
        return 0
    last = _slot_before(index, target - base_offset)
    probing = replace(limits, read_window_bytes=min(limits.read_window_bytes, _PROBE_BYTES))
    position = 0
    for slot in range(last, max(last - _TRIES, -1), -1):
        entry = _entry(index, slot)
        batch = _fitting_batch(log, entry, base_offset, target, probing)
        if batch is not None:
            position = entry.position
            if _is_confirmed(log, batch, base_offset + entry.relative_offset):
                return position
    return position if last >= _TRIES else 0
