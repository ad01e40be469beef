"""Behind damage: where the next batch begins.

First where the damaged batch says it ends, then at every position whose bytes could be a batch header of this segment.
Only a valid checksum counts, so what is found is a batch; and the work is bounded, whatever the bytes are.
"""

from __future__ import annotations

from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, BatchHeader
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET
from kafkalog.codec.scan import MAGIC_POSITION, SMALLEST_MESSAGE, Scanner
from kafkalog.codec.source import Source, next_data

__all__ = ["next_batch"]

_MAGIC = 2
_MAGIC_BYTE = bytes([_MAGIC])
_CHECKED_BYTES_PER_BYTE = 8
"""How often each byte may go through a checksum on average before the search is given up."""
_OFFSET = BATCH.reader("base_offset")
_SIZE = BATCH.reader("batch_length")


def next_batch(
    source: Source, position: int, end: int, *, base_offset: int, next_offset: int, limits: Limits = DEFAULT_LIMITS
) -> int:
    """Where behind `position` a valid batch begins whose offset is not below `next_offset`; `end` if nowhere."""
    head = source.read(position, LOG_OVERHEAD.size)
    if len(head) == LOG_OVERHEAD.size:
        claimed = position + LOG_OVERHEAD.size + LOG_OVERHEAD.reader("size")(head, 0)
        if claimed > position and _begins(source, claimed, end, next_offset, limits):
            return claimed
    budget = _CHECKED_BYTES_PER_BYTE * (end - position)
    start = position + 1
    while start < end:
        # a batch whose magic byte is not zero may begin so many bytes before the next data
        start = max(start, min(next_data(source, start, end) - MAGIC_POSITION, end))
        piece = bytes(source.read(start, min(limits.read_window_bytes, end - start)))
        last = len(piece) - BATCH.size
        found = piece.find(_MAGIC_BYTE, MAGIC_POSITION)
        while 0 <= found <= last + MAGIC_POSITION:
            at = found - MAGIC_POSITION
            size = _SIZE(piece, at) + LOG_OVERHEAD.size
            plausible = next_offset <= _OFFSET(piece, at) <= base_offset + MAX_RELATIVE_OFFSET
            if plausible and SMALLEST_MESSAGE < size <= end - start - at:
                if _begins(source, start + at, end, next_offset, limits):
                    return start + at
                budget -= size
                if budget < 0:
                    return end
            found = piece.find(_MAGIC_BYTE, found + 1)
        if start + len(piece) >= end or last < 0:
            return end
        start += last + 1
    return end


def _begins(source: Source, position: int, end: int, next_offset: int, limits: Limits) -> bool:
    if not 0 <= position < end:
        return False
    batch = next(iter(Scanner(source, position=position, end=end, limits=limits)), None)
    if batch is None or batch.magic > _MAGIC:
        return False
    header = batch.header
    first = header.base_offset if isinstance(header, BatchHeader) else header.last_offset
    return first >= next_offset
