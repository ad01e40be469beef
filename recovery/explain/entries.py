"""Explain entries of an index file around a position, each compared with the entry before and with the log of the
segment.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.common.source import Source, used_end
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import (
    ABORTED_TRANSACTION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    each_slot,
    offset_entry_increases,
    time_entry_increases,
)
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.names import FileKind
from kafkalog.codec.parsing.trace import FieldSpan, read_spans
from kafkalog.codec.parsing.whole import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, Sequence
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery.explain.explanation import ExplainedPart, PartRole

__all__ = ["explain_index"]

Fields = tuple[Any, ...]
Suspect = tuple[str, str]
_AROUND = 3
"""Entries shown before the wanted one."""
_LAYOUTS: dict[FileKind, tuple[FixedLayout, Sequence]] = {
    FileKind.OFFSET_INDEX: (OFFSET_ENTRY, OFFSET_INDEX),
    FileKind.TIME_INDEX: (TIME_ENTRY, TIME_INDEX),
    FileKind.TRANSACTION_INDEX: (ABORTED_TRANSACTION, TRANSACTION_INDEX),
}


def explain_index(
    source: Source, path: str, kind: FileKind, base_offset: int, position: int | None, *, most: int
) -> tuple[ExplainedPart, ...]:
    """Explain entries of an index (offset, time or transaction index) of the segment with `base_offset`; return a tuple
    of one part. The part begins with the entry that contains byte `position`, which must be in the file. Without a
    position, it begins three entries before the first wrong one, but not before the first entry. If no entry is wrong
    but the file ends within the last one, it begins three entries before this one. In a sound index, it begins with the
    first entry. About `most` fields are shown.

    Each entry is compared with the one before it. Entries of an offset or time index are also compared with the log
    beside `path`, if it can be read, up to the log's first damaged frame. The part's role is DAMAGED if a shown entry
    is wrong, else ASKED. Its remarks are the number of entries in use and, if there are any, the number of zero bytes
    after them. Raises `StorageError` if the index cannot be read.
    """
    layout, tree = _LAYOUTS[kind]
    end = min(-(-used_end(source, source.size) // layout.size) * layout.size, source.size)
    judge = _judge(source, path, kind, base_offset, layout, end)
    wrong = next(_wrong(source, layout, judge, 0, end), None)
    torn = end // layout.size * layout.size if end % layout.size else 0
    start = max((torn if wrong is None else wrong[0]) - _AROUND * layout.size, 0)
    if position is not None:
        start = position - position % layout.size
    shown = min(max(end, start + layout.size) - start, max(most // (len(layout.fields) + 1), 1) * layout.size)
    span = read_spans(tree, source.read(start, shown), position=start, most=most)
    problems = dict(_wrong(source, layout, judge, start, min(start + shown, end)))
    for child in span.children:
        _describe(child, base_offset, problems.get(child.position, ()))
    breaks = tuple(f"{entry.name}.{field.name}" for entry in span.children for field in entry.children if field.problem)
    breaks = breaks or tuple(child.name for child in span.children if child.problem)
    remarks = [f"{end // layout.size} entries are in use"]
    if source.size > end:
        remarks.append(f"{source.size - end} zero bytes follow, allocated and never written")
    role = PartRole.DAMAGED if breaks else PartRole.ASKED
    what = f"entries of {kind.value}"
    return (ExplainedPart(role=role, what=what, span=span, remarks=tuple(remarks), breaks=breaks),)


def _describe(entry: FieldSpan, base_offset: int, problems: tuple[Suspect, ...]) -> None:
    for child in entry.children:
        if child.name == "relative_offset" and isinstance(child.value, int):
            child.resolved = base_offset + child.value
        for name, message in problems:
            if name == child.name and child.problem is None:
                child.problem, child.code = message, "contradiction"


Judge = Callable[[Fields | None, Fields], Iterator[Suspect]]
"""function of the entry before (None for the first) and an entry; yields what is wrong with the latter"""


def _wrong(
    source: Source, layout: FixedLayout, judge: Judge, start: int, end: int
) -> Iterator[tuple[int, tuple[Suspect, ...]]]:
    """Yield (position, problems) of each wrong index entry in the bytes from `start` to `end` (exclusive), in order.
    `start` is the beginning of an entry. `judge` gets the entry before (None at the start of the file) and the entry,
    and yields the problems. A problem is a pair of field name and sentence. Raises `StorageError` if the index cannot
    be read.
    """
    before: Fields | None = None
    if start:
        before = layout.struct.unpack(source.read(start - layout.size, layout.size))
    for number, entry in each_slot(source, layout, start=start, end=end):
        problems = tuple(judge(before, entry))
        if problems:
            yield start + number * layout.size, problems
        before = entry


def _judge(source: Source, path: str, kind: FileKind, base_offset: int, layout: FixedLayout, end: int) -> Judge:
    if kind is FileKind.TRANSACTION_INDEX:
        return _aborted
    entries = [entry for _, entry in each_slot(source, layout, end=end)]
    is_offset_index = kind is FileKind.OFFSET_INDEX
    offsets = [base_offset + entry[layout.names.index("relative_offset")] for entry in entries]
    positions = [entry[layout.names.index("position")] for entry in entries] if is_offset_index else []
    log = _Log(os.path.splitext(path)[0] + FileKind.LOG.value, offsets, positions)
    of_kind = _offset_entry if is_offset_index else _time_entry
    return lambda before, entry: of_kind(before, entry, base_offset, log)


class _Batch(Struct, frozen=True, kw_only=True):
    """A batch of the log: the range of offsets that it may hold, its position in bytes, and its largest timestamp."""

    low: int
    last: int
    position: int
    timestamp: int


class _Log:
    """Batches of a log that hold certain offsets or begin at certain positions; empty if the log cannot be read."""

    def __init__(self, path: str, offsets: Iterable[int], positions: Iterable[int]) -> None:
        self._batches: list[_Batch] = []
        self._damaged_from: int | None = None
        """first offset that a damaged frame hides; None if there is no damaged frame"""
        try:
            with FileSource(path) as source:
                self._batches, self._damaged_from = _holding(source, sorted(offsets), set(positions))
        except KafkaLogError:
            return

    def __bool__(self) -> bool:
        return bool(self._batches)

    def begins_at(self, position: int) -> bool:
        """Whether one of the batches begins at the position."""
        place = bisect_left(self._batches, position, key=lambda batch: batch.position)
        return place < len(self._batches) and self._batches[place].position == position

    def of(self, offset: int) -> _Batch | None:
        """Batch that holds an offset; None if none does."""
        place = bisect_left(self._batches, offset, key=lambda batch: batch.last)
        batch = self._batches[place] if place < len(self._batches) else None
        return batch if batch is not None and batch.low <= offset else None

    def lacks(self, offset: int) -> bool:
        """Whether no batch holds an offset. False if a damaged frame may hide the batch."""
        is_hidden = self._damaged_from is not None and offset >= self._damaged_from
        return not is_hidden and self.of(offset) is None


def _holding(source: Source, wanted: list[int], positions: set[int]) -> tuple[list[_Batch], int | None]:
    """Return the batches of a log, in order, that contain one of the offsets in `wanted` (sorted) or begin at one of
    the byte `positions`. Reading ends at the first damaged frame. Also return the offset after the last batch before
    this frame, or None if no frame is damaged. Checksums are not verified. The header of a message of magic 0 or 1 does
    not give its first offset. The offset after the entry before it is used instead, or the message's last offset if
    this is lower. Raises `StorageError` if the log cannot be read.
    """
    batches: list[_Batch] = []
    behind = 0
    scanner = Scanner(source, check_crc=False)
    for batch in scanner:
        header = batch.header
        low = header.first_offset if isinstance(header, BatchHeader) else min(behind, header.last_offset)
        place = bisect_left(wanted, low)
        if batch.position in positions or (place < len(wanted) and wanted[place] <= header.last_offset):
            last = header.last_offset
            batches.append(_Batch(low=low, last=last, position=batch.position, timestamp=header.max_timestamp))
        behind = header.last_offset + 1
    return batches, None if scanner.stop is StopReason.END else behind


def _offset_entry(before: Fields | None, entry: Fields, base_offset: int, log: _Log) -> Iterator[Suspect]:
    offset, position = entry
    if not offset_entry_increases(before, entry):
        previous = (-1, 0) if before is None else before
        yield ("relative_offset" if offset <= previous[0] else "position"), "it is not above that of the entry before"
    elif log:
        batch = log.of(base_offset + offset)
        if log.lacks(base_offset + offset):
            yield "relative_offset", f"no batch of the log holds offset {base_offset + offset}"
        elif batch is not None and (position > batch.position or not log.begins_at(position)):
            # it may lie before: of several batches appended at once, the last offset is indexed with the first position
            yield "position", f"the batch that holds offset {base_offset + offset} begins at byte {batch.position}"


def _time_entry(before: Fields | None, entry: Fields, base_offset: int, log: _Log) -> Iterator[Suspect]:
    timestamp, offset = entry
    if not time_entry_increases(before, entry):
        previous = (-1, 0) if before is None else before
        name = "timestamp" if timestamp <= previous[0] else "relative_offset"
        yield name, "it is not above that of the entry before"
    elif log:
        batch = log.of(base_offset + offset)
        if log.lacks(base_offset + offset):
            yield "relative_offset", f"no batch of the log holds offset {base_offset + offset}"
        elif batch is not None and batch.timestamp != timestamp:
            yield "timestamp", f"the batch that holds that offset has the time {batch.timestamp}"


def _aborted(before: Fields | None, entry: Fields) -> Iterator[Suspect]:
    version, producer, first, last, stable = entry
    if version != 0:
        yield "version", "0 is needed"
    if producer < 0:
        yield "producer_id", "it cannot be below zero"
    if not 0 <= first <= last:
        yield "first_offset", f"a transaction ends at its marker, offset {last}"
    if before is not None and last <= before[3]:
        yield "last_offset", f"the entry before ends at {before[3]}, and markers grow"
    if not 0 <= stable <= last + 1:
        yield "last_stable_offset", f"it is at most {last + 1}, the offset after the marker"
