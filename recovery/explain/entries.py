"""Indexes: their entries around a place, each compared with the one before it and with the log beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.errors import KafkaLogError
from kafkalog.codec.framing import MAGIC_END
from kafkalog.codec.index_files import (
    ABORTED_TRANSACTION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    offset_entry_increases,
    time_entry_increases,
)
from kafkalog.codec.names import FileKind
from kafkalog.codec.scan import Scanner
from kafkalog.codec.source import Source, used_end
from kafkalog.codec.trace import Span, read_spans
from kafkalog.codec.whole import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, Sequence
from kafkalog.log.files import FileSource
from kafkalog.recovery.explain.explanation import Part, Role

__all__ = ["explain_index"]

Fields = tuple[Any, ...]
Suspect = tuple[str, str]
_AROUND = 3
"""Entries before the one that is shown for its own sake."""
_LAYOUTS: dict[FileKind, tuple[FixedLayout, Sequence]] = {
    FileKind.OFFSET_INDEX: (OFFSET_ENTRY, OFFSET_INDEX),
    FileKind.TIME_INDEX: (TIME_ENTRY, TIME_INDEX),
    FileKind.TRANSACTION_INDEX: (ABORTED_TRANSACTION, TRANSACTION_INDEX),
}


def explain_index(
    source: Source, path: str, kind: FileKind, base_offset: int, position: int | None, *, most: int
) -> tuple[Part, ...]:
    """The entries from the place on, or from shortly before the first one that is wrong."""
    layout, tree = _LAYOUTS[kind]
    used = used_end(source, source.size)
    end = min(-(-used // layout.size) * layout.size, source.size)
    wrong = dict(_wrong(source, path, kind, base_offset, layout, end))
    first = min(wrong, default=0)
    start = first if position is None else position - position % layout.size
    start = max(start - (_AROUND * layout.size if position is None else 0), 0)
    entries = max(most // (len(layout.fields) + 1), 1)
    data = source.read(start, min(max(end, start + layout.size) - start, entries * layout.size))
    span = read_spans(tree, data, position=start, most=most)
    for child in span.children:
        _describe(child, base_offset, wrong.get(child.position, ()))
    breaks = tuple(f"{child.name}.{each.name}" for child in span.children for each in child.children if each.problem)
    breaks = breaks or tuple(child.name for child in span.children if child.problem)
    remarks = [f"{end // layout.size} entries are in use"]
    if source.size > end:
        remarks.append(f"{source.size - end} zero bytes follow, allocated and never written")
    return (Part(Role.DAMAGED if breaks else Role.ASKED, f"entries of {kind.value}", span, tuple(remarks), breaks),)


def _describe(entry: Span, base_offset: int, problems: tuple[Suspect, ...]) -> None:
    for child in entry.children:
        if child.name == "relative_offset" and isinstance(child.value, int):
            child.resolved = base_offset + child.value
        for name, message in problems:
            if name == child.name and child.problem is None:
                child.problem, child.code = message, "contradiction"


def _wrong(
    source: Source, path: str, kind: FileKind, base_offset: int, layout: FixedLayout, end: int
) -> Iterator[tuple[int, tuple[Suspect, ...]]]:
    """Position of each entry that is wrong, and what is."""
    batches = {} if kind is FileKind.TRANSACTION_INDEX else _last_offsets(path)
    judge: dict[FileKind, Callable[[Fields | None, Fields], Iterator[Suspect]]] = {
        FileKind.OFFSET_INDEX: lambda before, entry: _offset_entry(before, entry, base_offset, batches),
        FileKind.TIME_INDEX: lambda before, entry: _time_entry(before, entry, base_offset, batches),
        FileKind.TRANSACTION_INDEX: _aborted,
    }
    before: Fields | None = None
    for position in range(0, end - layout.size + 1, layout.size):
        entry = layout.struct.unpack(source.read(position, layout.size))
        found = tuple(judge[kind](before, entry))
        if found:
            yield position, found
        before = entry


Batches = dict[int, tuple[int, int]]
"""Byte position of each batch of a log -> its last offset and its largest timestamp."""


def _last_offsets(index: str) -> Batches:
    """Of the log beside an index; nothing where it cannot be read."""
    log = os.path.splitext(index)[0] + FileKind.LOG.value
    try:
        with FileSource(log) as source:
            if source.size < MAGIC_END:
                return {}
            return {each.position: (each.last_offset, each.header.max_timestamp) for each in Scanner(source)}
    except KafkaLogError:
        return {}


def _offset_entry(before: Fields | None, entry: Fields, base_offset: int, batches: Batches) -> Iterator[Suspect]:
    offset, position = entry
    if not offset_entry_increases(before, entry):
        previous = (-1, 0) if before is None else before
        yield ("relative_offset" if offset <= previous[0] else "position"), "it is not above that of the entry before"
    if not batches:
        return
    if position not in batches:
        at = next((there for there, (last, _) in batches.items() if last == base_offset + offset), None)
        right = "" if at is None else f"; the batch that ends at offset {base_offset + offset} begins at byte {at}"
        yield "position", f"no sound batch begins at byte {position} of the log{right}"
    elif batches[position][0] != base_offset + offset:
        yield "relative_offset", f"the batch there ends at offset {batches[position][0]}"


def _time_entry(before: Fields | None, entry: Fields, base_offset: int, batches: Batches) -> Iterator[Suspect]:
    timestamp, offset = entry
    if not time_entry_increases(before, entry):
        previous = (-1, 0) if before is None else before
        name = "timestamp" if timestamp <= previous[0] else "relative_offset"
        yield name, "it is not above that of the entry before"
    if not batches:
        return
    times = dict(batches.values())
    if base_offset + offset not in times:
        yield "relative_offset", f"no sound batch of the log ends at offset {base_offset + offset}"
    elif times[base_offset + offset] != timestamp:
        yield "timestamp", f"the batch that ends there has the time {times[base_offset + offset]}"


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
