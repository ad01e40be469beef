"""Find the position of a timestamp through the time index, which is verified against the log.

An entry says that no record up to its offset is newer than its timestamp (`TimeIndex.lookup`). It is used only if the
entries before it increase, and the log has a valid batch that ends at exactly that offset with exactly that largest
timestamp. An index of other data does not have such an entry.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.index_files import TIME_ENTRY, TimeEntry, each_slot, time_entry_increases
from kafkalog.codec.model import NO_TIMESTAMP
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import ends_reading
from kafkalog.log.disk.files import FileSource, NotRegularFileError
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.disk.unchanged import settled_state
from kafkalog.log.walk.narrowing import is_worth_it, narrowed
from kafkalog.log.walk.sliced import Sliced, run_slices

if TYPE_CHECKING:
    from kafkalog.log.walk.segment import Segment

__all__ = ["NewestTimestamps", "OlderBatches", "older_batches"]

_TRIES = 2
_NEVER = 1 << 64
"""Newer than every timestamp."""


def _entries_before(segment: Segment, timestamp: int) -> list[TimeEntry]:
    """Return the last two time index entries with timestamps below `timestamp` (ms), in ascending order. The list has
    fewer if there are not two, or if the index is missing or not a regular file. Reading ends at an entry that does not
    increase. Raises `StorageError` if the index cannot be read for another reason.
    """
    path = segment.files.get(FileKind.TIME_INDEX)
    last: deque[TimeEntry] = deque(maxlen=_TRIES)
    if path is None:
        return []
    try:
        with FileSource(path) as index:
            start, end = 0, None
            if is_worth_it(index):
                first, last_slot = narrowed(index, TIME_ENTRY.size, _time_of, timestamp, segment.newest)
                start, end = first * TIME_ENTRY.size, last_slot * TIME_ENTRY.size
            for _slot, fields in each_slot(index, TIME_ENTRY, start=start, end=end):
                entry = TimeEntry(*fields)
                if entry.timestamp >= timestamp or not time_entry_increases(last[-1] if last else None, entry):
                    break
                last.append(entry)
    except (MissingFileError, NotRegularFileError):
        return []
    return list(last)


def _time_of(entry: bytes) -> int:
    return TimeEntry(*TIME_ENTRY.struct.unpack(entry)).timestamp


class OlderBatches(NamedTuple):
    """The batches at the start of a segment that are certainly older than a timestamp."""

    end: int
    """byte position after them"""
    next_offset: int
    """offset after their last one"""
    newest: int
    """largest timestamp among them, ms; -1 if there are none"""


def older_batches(
    segment: Segment, source: FileSource, timestamp: int, *, limits: Limits = DEFAULT_LIMITS
) -> OlderBatches:
    """Return the batches at the start of the log that a search for records of `timestamp` (ms) or later may skip.
    `source` is the opened log of `segment`. If the time index does not help, there are none: the result then has
    position 0, the segment's base offset, and -1. Raises `StorageError` if a file cannot be read.
    """
    for entry in reversed(_entries_before(segment, timestamp)):
        position = _behind(segment, source, entry, limits)
        if position is not None:
            return OlderBatches(position, segment.base_offset + entry.relative_offset + 1, entry.timestamp)
    return OlderBatches(0, segment.base_offset, NO_TIMESTAMP)


def _behind(segment: Segment, source: FileSource, entry: TimeEntry, limits: Limits) -> int | None:
    """Return the byte position after the batch to which a time index entry refers; None if the first batch that reaches
    the entry's offset has another last offset or another largest timestamp. Return None also if no batch reaches it
    before damage or the end of the log. Raises `StorageError` if the log cannot be read.
    """
    offset = segment.base_offset + entry.relative_offset
    start = segment.position_of(offset, source, limits=limits)
    for batch in Scanner(source, position=start, limits=limits):
        if batch.last_offset >= offset:
            same = batch.last_offset == offset and batch.header.max_timestamp == entry.timestamp
            return batch.position + batch.size if same else None
    return None


class NewestTimestamps:
    """The largest timestamps of all segments from number `first` on, except the last segment. They are learned when
    look-ups need them. A broker has them in memory (`LogSegment.maxTimestampSoFar`); here they come from batches, or
    from time index entries that the log confirms. The timestamp of a segment that ends in damage or was modified just
    now is not learned.
    """

    def __init__(self, segments: Sequence[Segment], first: int) -> None:
        self._segments = segments
        self._first = first
        self._newest: list[int] = []
        """newest timestamp of all segments from `first` up to each one"""
        self._lock = Lock()

    def first_with(self, timestamp: int) -> Sliced[int]:
        """Find the number of the first segment that may have a record of `timestamp` (ms) or later. This is a generator
        (`Sliced`) that pauses while it reads segments; the number is its return value. If no segment has such a record,
        it is the number of the last segment.

        Segments whose largest timestamp is not known yet are read in order, until one has a large enough timestamp. If
        the timestamp of a segment cannot be learned, its number is returned. If nothing is known yet, and the first
        segment is a remote one with an unknown timestamp, the time indexes are searched by bisection instead. If no
        remote segment has such a record, the result is then the number after the last remote one. It is the number of
        segments if all are remote. Raises `StorageError` if a file cannot be read.
        """
        if not self._newest and self._first < len(self._segments) and self._segments[self._first].is_untold:
            return self._searched(timestamp)
        number = bisect_left(self._newest, timestamp)
        while number == len(self._newest) and (yield from self._learn()):
            number += self._newest[number] < timestamp
        return self._first + number

    def _searched(self, timestamp: int) -> int:
        """Return the number of the first segment that may have a record of `timestamp` (ms) or later, by binary search
        over the remote segments whose largest timestamp is unknown. Timestamps are assumed to rise from segment to
        segment, because each probe takes a request. If none of these segments matches, the result is the number after
        the last one.
        """
        untold = [number for number in range(self._first, len(self._segments)) if self._segments[number].is_untold]
        found = bisect_left(untold, timestamp, key=lambda number: _last_of_index(self._segments[number]))
        return untold[found] if found < len(untold) else untold[-1] + 1

    def _learn(self) -> Sliced[bool]:
        known = len(self._newest)
        number = self._first + known
        if number + 1 >= len(self._segments):
            return False
        segment = self._segments[number]
        newest = segment.newest
        if newest is None:
            state = settled_state(segment.path)
            newest = None if state is None else (yield from _newest_of(segment))
            if newest is None or settled_state(segment.path) != state:
                return False
        with self._lock:
            if len(self._newest) == known:  # who looked for it meanwhile has learned the same
                self._newest.append(max([newest, *self._newest[-1:]]))
        return True


def _last_of_index(segment: Segment) -> int:
    """Return the timestamp (ms) of the last entry of the segment's time index; in an inactive segment it is the
    largest. If there is no index or entry, the log is scanned for its largest timestamp, which is -1 if no batch has
    one. If the log is damaged or ends in an incomplete batch or zeros, return a value above all timestamps. Raises
    `StorageError` if a file cannot be read.
    """
    path = segment.files.get(FileKind.TIME_INDEX)
    if path is not None:
        with suppress(MissingFileError, NotRegularFileError), FileSource(path) as index:
            slot = index.size // TIME_ENTRY.size - 1
            data = index.read(slot * TIME_ENTRY.size, TIME_ENTRY.size) if slot >= 0 else b""
            if len(data) == TIME_ENTRY.size:
                return TimeEntry(*TIME_ENTRY.struct.unpack(data)).timestamp
    newest = run_slices(_newest_of(segment))
    return _NEVER if newest is None else newest


def _newest_of(segment: Segment) -> Sliced[int | None]:
    """Find the largest timestamp (ms) of a segment. The scan begins at the last time index entry that the log confirms.
    This is a generator that pauses after each batch; the timestamp is its return value. It is -1 if no batch has a
    timestamp, and None if the log is damaged or ends in an incomplete batch or zeros. Raises `StorageError` if a file
    cannot be read.
    """
    with segment.open() as source:
        older = older_batches(segment, source, _NEVER)
        newest = older.newest
        scanner = Scanner(source, position=older.end)
        for batch in scanner:
            if ends_reading(batch.header, segment.base_offset):
                return None
            newest = max(newest, batch.header.max_timestamp)
            yield
    return newest if scanner.stop is StopReason.END else None
