"""From a time to a position, through the time index: a hint that is checked, never believed.

An entry says that everything up to its offset is no newer than its timestamp (`TimeIndex.lookup`).  It is followed only
if the entries before it increase and a valid batch stands in the log that ends at exactly that offset with exactly that
largest timestamp, which an index that belongs to other data, or to none, does not know.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from kafkalog.codec.index_files import TIME_ENTRY, TimeEntry, decode_time_index, used_time_entries
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import FileKind
from kafkalog.codec.scan import Scanner
from kafkalog.log.files import FileSource, MissingFileError, NotRegularFileError

if TYPE_CHECKING:
    from kafkalog.log.segment import Segment

__all__ = ["position_for_timestamp"]

_TRIES = 2
_LARGEST_INDEX = 1 << 28


def _entries(segment: Segment) -> list[TimeEntry]:
    path = segment.files.get(FileKind.TIME_INDEX)
    if path is None:
        return []
    try:
        with FileSource(path) as index:
            if index.size > _LARGEST_INDEX:
                return []
            data = index.read(0, index.size // TIME_ENTRY.size * TIME_ENTRY.size)
    except (MissingFileError, NotRegularFileError):
        return []
    written = len(data.rstrip(b"\0"))  # a live broker reserves room for nearly a million entries
    entries = decode_time_index(data[: -(-written // TIME_ENTRY.size) * TIME_ENTRY.size])
    return entries[: used_time_entries(entries)]


def position_for_timestamp(
    segment: Segment, source: FileSource, timestamp: int, *, limits: Limits = DEFAULT_LIMITS
) -> int:
    """Where in `source`, the opened log, to start looking for a record with at least `timestamp`; 0 without help."""
    entries = _entries(segment)
    found = bisect_left(entries, timestamp, key=lambda entry: entry.timestamp)
    for entry in entries[max(found - _TRIES, 0) : found][::-1]:
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
