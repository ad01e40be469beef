"""From a time to a position, through the time index: a hint that is checked, never believed.

An entry says that everything up to its offset is no newer than its timestamp (`TimeIndex.lookup`).  It is followed only
if the entries before it increase and a valid batch stands in the log that ends at exactly that offset with exactly that
largest timestamp, which an index that belongs to other data, or to none, does not know.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafkalog.codec.index_files import TIME_ENTRY, TimeEntry, each_slot, time_entry_increases
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import FileKind
from kafkalog.codec.scan import Scanner
from kafkalog.log.files import FileSource, MissingFileError, NotRegularFileError

if TYPE_CHECKING:
    from kafkalog.log.segment import Segment

__all__ = ["position_for_timestamp"]

_TRIES = 2


def _entries_before(segment: Segment, timestamp: int) -> list[TimeEntry]:
    """The last entries of the time index that are older than a time, as far as its entries increase."""
    path = segment.files.get(FileKind.TIME_INDEX)
    last: deque[TimeEntry] = deque(maxlen=_TRIES)
    if path is None:
        return []
    try:
        with FileSource(path) as index:
            for _slot, fields in each_slot(index, TIME_ENTRY):
                entry = TimeEntry(*fields)
                if entry.timestamp >= timestamp or not time_entry_increases(last[-1] if last else None, entry):
                    break
                last.append(entry)
    except (MissingFileError, NotRegularFileError):
        return []
    return list(last)


def position_for_timestamp(
    segment: Segment, source: FileSource, timestamp: int, *, limits: Limits = DEFAULT_LIMITS
) -> int:
    """Where in `source`, the opened log, to start looking for a record with at least `timestamp`; 0 without help."""
    for entry in reversed(_entries_before(segment, timestamp)):
        position = _behind(segment, source, entry, limits)
        if position is not None:
            return position
    return 0


def _behind(segment: Segment, source: FileSource, entry: TimeEntry, limits: Limits) -> int | None:
    """Where the batch ends that an entry names, if it is there."""
    offset = segment.base_offset + entry.relative_offset
    start = segment.position_of(offset, source, limits=limits)
    for batch in Scanner(source, position=start, limits=limits):
        if batch.last_offset >= offset:
            same = batch.last_offset == offset and batch.header.max_timestamp == entry.timestamp
            return batch.position + batch.size if same else None
    return None
