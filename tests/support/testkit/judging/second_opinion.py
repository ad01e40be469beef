"""What a reader must give of a partition, by the whole declarations alone: one entry after the other, nothing derived.

Slow, and without any of the code that reads: sizes, checksums, magics, counts and records are those of `codec.whole`,
read by Construct; offsets, repeats, displaced batches, transactions and where reading ends are stated here again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from construct import Container

from kafkalog.codec.layout.primitives import LayoutError
from kafkalog.codec.layout.record_batch import LOG_OVERHEAD
from kafkalog.codec.parsing.trace import FieldSpan, Reader, Window
from kafkalog.codec.parsing.whole import ENTRY, RECORD, Whole

Row = tuple[int, bytes | None, bytes | None]
"""Offset, key and value."""
NO_END = 2**63 - 1
_OVERHEAD, _MAGIC_AT, _SMALLEST = 12, 16, 26
_MOST = 2**31 - 1


@dataclass
class Entry:
    """One entry of a log, its checksum right."""

    position: int
    size: int
    header: Container
    first: int
    last: int
    rows: list[Row] = field(default_factory=list)
    """with absolute offsets, up to the first that cannot be read"""
    is_whole: bool = True
    """every record can be read"""
    repeats: bool = False
    """it ends below what was there: opened, as a consumer does, and hardly ever wanted"""

    @property
    def delta(self) -> int | None:
        """None where the header does not tell how many offsets it has."""
        if self.header.magic == 2:
            return int(self.header.last_offset_delta)
        return None if self.header.attributes.codec else 0

    @property
    def producer(self) -> int:
        return int(self.header.get("producer_id", -1))

    @property
    def is_control(self) -> bool:
        return self.header.magic == 2 and bool(self.header.attributes.is_control)

    @property
    def is_transactional(self) -> bool:
        return self.header.magic == 2 and bool(self.header.attributes.is_transactional)

    def marker(self) -> int | None:
        """0 for ABORT, 1 for COMMIT; None for another control record, or none."""
        key = self.rows[0][1] if self.rows else None
        kind = int.from_bytes(key[2:4], "big") if key is not None and len(key) >= 4 else None
        return kind if kind in (0, 1) else None


def entry_at(data: bytes, position: int) -> Entry | None:
    """The entry at a position; None where its size or its checksum is wrong."""
    left = len(data) - position
    if left <= _MAGIC_AT + 1:  # `FileLogInputStream`
        return None
    size = _OVERHEAD + int(LOG_OVERHEAD.parse(data[position : position + _OVERHEAD]).size)
    magic = data[position + _MAGIC_AT]
    if size < _SMALLEST or size > left:
        return None
    tree = ENTRY.cases.get(magic, ENTRY.cases[2])
    smallest = tree.header.sizeof()
    if size < smallest:
        return None
    whole = data[position : position + size]
    header = tree.header.parse(whole)
    check = tree.check
    assert check is not None
    covered = tree.header.sizeof() if check.field not in header else _behind(tree, check.field)
    if check.function(whole[covered:]) != header[check.field]:
        return None
    return _opened(tree, header, whole, position)


def _behind(tree: Whole, name: str) -> int:
    """Where the bytes after a field begin."""
    at = 0
    for each in tree.header.subcons:
        at += int(each.sizeof())
        if each.name == name:
            return at
    raise AssertionError(name)


def _opened(tree: Whole, header: Container, whole: bytes, position: int) -> Entry:
    first = header.base_offset if header.magic not in (0, 1) else header.offset
    last = first + header.last_offset_delta if header.magic not in (0, 1) else first
    found = Entry(position, len(whole), header, first, last)
    if header.magic not in (0, 1, 2) or (header.magic == 2 and header.records_count == 0):
        return found  # of no records nothing is read (`DefaultRecordBatch`)
    try:
        values = tree.read(Reader(Window(memoryview(whole)), FieldSpan("", 0, len(whole))))
    except LayoutError:
        found.is_whole = False
        found.rows = list(_before_fault(header, whole, first))
        return found
    inner = (values.messages or []) if header.magic < 2 else []
    if header.magic == 1 and inner and 0 != first < inner[-1].offset:
        found.is_whole = False  # which Kafka declines too (`AbstractLegacyRecordBatch.DeepRecordsIterator`)
        return found
    found.rows = list(_rows(values, first))
    return found


def _rows(values: Container, first: int) -> Iterator[Row]:
    if values.magic == 2:
        for each in values.records:
            yield first + each.offset_delta, each.key, each.value
        return
    if values.messages is None:
        yield first, values.key, values.value
        return
    inner = values.messages
    shift = first - inner[-1].offset if values.magic == 1 and inner and first else 0
    for each in inner:
        yield each.offset + shift, each.key, each.value


def _before_fault(header: Container, whole: bytes, first: int) -> Iterator[Row]:
    """What comes before the first record that cannot be read, where the records are not compressed."""
    if header.magic != 2 or header.attributes.codec:
        return
    reader = Reader(Window(memoryview(whole)), FieldSpan("", 0, len(whole)))
    reader.window.seek(ENTRY.cases[2].header.sizeof())
    for _ in range(max(header.records_count, 0)):
        try:
            each = RECORD.read(reader)
        except LayoutError:
            return
        yield first + each.offset_delta, each.key, each.value


@dataclass
class Log:
    """What is known of a log: segments in order, and what its transaction indexes list."""

    segments: Sequence[tuple[int, bytes]]
    log_start: int = 0
    listed: Sequence[tuple[int, int, int]] = ()
    """(producer, first offset, offset of the marker) of aborted transactions"""


@dataclass
class Answer:
    """What must be given: the rows, and whether reading ended before the log did."""

    rows: list[Row]
    is_error: bool
    why: str = ""
    is_open: bool = False
    """whether it is an error bytes alone do not tell: a message of magic 0 or 1 claims to reach beyond the file, and
    what it claims holds a sound batch, which may be its value, or have been written behind it; an index knows"""
    astray: list[Row] = field(default_factory=list)
    """those whose offsets are not among the ones that the header of their batch claims"""


@dataclass
class _Walked:
    """Batches in order; `stop` says what ended them, at which segment and position."""

    kept: list[Entry]
    stop: str | None = None
    place: tuple[int, int] = (0, 0)
    reached: int = 0


def _begins(data: bytes, position: int, next_base: int | None) -> int | None:
    """The offset of the header at a position; at the end that of the next segment."""
    if position >= len(data):
        return next_base
    is_whole = position + _MAGIC_AT < len(data)
    return int.from_bytes(data[position : position + 8], "big", signed=True) if is_whole else None


def _second(data: bytes, position: int, next_base: int | None) -> int | None:
    """The offset of the header after the one at a position."""
    size = _OVERHEAD + int.from_bytes(data[position + 8 : position + _OVERHEAD], "big", signed=True)
    is_header = position + _OVERHEAD <= len(data) and size >= _SMALLEST
    return _begins(data, position + size, next_base) if is_header else None


def judged(entry: Entry, expected: int, reached: int, base: int, next_base: int | None, data: bytes) -> str:
    """keep, repeats, displaced, or stop, of an entry where `expected` should come in a segment."""
    if entry.header.magic not in (0, 1, 2) or entry.last - base > _MOST:
        return "stop"
    end = entry.position + entry.size
    delta, following, second = entry.delta, _begins(data, end, next_base), _second(data, end, next_base)
    if delta is not None and delta >= 0 and entry.first != expected:
        fits = following is not None and expected + delta < following < entry.first
        if fits and following is not None and second is not None and following < second <= entry.last:
            return "displaced"  # two that follow one another fit where this one left a gap
        if following == expected + delta + 1:
            return "displaced"
        if next_base is not None and entry.first > expected and entry.last >= next_base:
            return "displaced"
    return "repeats" if entry.last < reached else "keep"


def _has_another_length(data: bytes, position: int) -> bool:
    """With one bit of its length turned over it is whole, and a sound batch comes after it."""
    for bit in range(31):
        changed = bytearray(data[position:])
        changed[11 - bit // 8] ^= 1 << bit % 8
        whole = entry_at(bytes(changed), 0)
        if whole is not None and entry_at(data, position + whole.size) is not None:
            return True
    return False


def walked(log: Log) -> _Walked:
    """Up to what ends reading."""
    found = _Walked([], reached=log.log_start)
    for number, (base, data) in enumerate(log.segments):
        next_base = log.segments[number + 1][0] if number + 1 < len(log.segments) else None
        position, expected = 0, base
        while position < len(data):
            entry = entry_at(data, position)
            found.place = number, position
            if entry is None:
                if next_base is None and _is_tail(data, position, expected):
                    return found
                found.stop = "bytes"
                return found
            verdict = judged(entry, expected, found.reached, base, next_base, data)
            if verdict in ("stop", "displaced"):
                found.stop = verdict
                return found
            found.kept.append(entry)
            entry.repeats = verdict == "repeats"
            if verdict == "keep":
                found.reached = max(found.reached, entry.last + 1)
            expected = max(expected, entry.last + 1)
            position += entry.size
    return found


def _claimed(data: bytes) -> int:
    """The size of an entry by its header."""
    return _OVERHEAD + int.from_bytes(data[8:_OVERHEAD], "big", signed=True)


def _is_tail(data: bytes, position: int, expected: int) -> bool:
    """The log ends inside a batch that was never finished, or in zeros; no sound batch is anywhere behind."""
    if not any(data[position:]):
        return True
    left = len(data) - position
    size = _OVERHEAD + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    if left > _MAGIC_AT + 1 and size <= left:
        return False
    # what a value of the torn batch holds has other offsets than what would follow it
    behind = expected + 1
    if left >= 27 and data[position + _MAGIC_AT] == 2:
        behind = expected + max(int.from_bytes(data[position + 23 : position + 27], "big", signed=True), 0) + 1
    if left > 61 and data[position + _MAGIC_AT] == 2 and _has_another_length(data, position):
        return False
    found = (
        entry_at(data, at) for at in range(position + 1, len(data) - _MAGIC_AT) if data[at + _MAGIC_AT] in (0, 1, 2)
    )
    return not any(each is not None and behind <= each.first <= behind + _MOST for each in found)


@dataclass
class _Transactions:
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    undecided: list[int] = field(default_factory=list)
    """first offsets of transactions whose marker cannot be read"""


def _transactions(log: Log, walk: _Walked) -> _Transactions:
    found = _Transactions()
    for each in walk.kept:
        if each.producer < 0 or each.header.magic != 2 or each.repeats:
            continue
        if not each.is_control:
            if each.is_transactional:
                found.open.setdefault(each.producer, each.first)
            continue
        if not each.rows:
            if each.is_whole:
                continue
            first = found.open.get(each.producer)
            if first is not None and (each.producer, first, each.first) in log.listed:
                found.aborted.append((each.producer, found.open.pop(each.producer), each.first))
            elif first is not None:
                found.undecided.append(first)
            continue
        kind = each.marker()
        if kind is None:
            continue
        first = found.open.pop(each.producer, None)
        if first is not None and kind == 0:
            found.aborted.append((each.producer, first, each.first))
    if walk.stop is not None:
        number, position = walk.place
        data = log.segments[number][1][position : position + 61]
        for producer, first in list(found.open.items()):
            if len(data) == 61 and _is_listed_marker(log, data, producer, first):
                found.aborted.append((producer, first, int.from_bytes(data[:8], "big", signed=True)))
                del found.open[producer]
    return found


def _is_listed_marker(log: Log, data: bytes, producer: int, first: int) -> bool:
    """The damaged bytes claim to be the marker that the transaction index lists."""
    base, claimed = int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[43:51], "big", signed=True)
    return claimed == producer and (producer, first, base) in log.listed


def answer(log: Log, start: int = 0, end: int = NO_END, *, committed: bool = False) -> Answer:
    """What a reader that stops at damage gives between two offsets."""
    walk = walked(log)
    found = _answer(log, walk, start, end, committed)
    number, position = walk.place
    data = log.segments[number][1][position:] if log.segments else b""
    claims_more = len(data) > _MAGIC_AT and data[_MAGIC_AT] < 2 and _claimed(data) > len(data)
    found.is_open = walk.stop == "bytes" and claims_more
    found.astray = [row for each in walk.kept for row in each.rows if row[0] > each.last]
    return found


def _answer(log: Log, walk: _Walked, start: int, end: int, committed: bool) -> Answer:
    low = max(start, log.log_start)
    view_end, aborted, undecided = end, [], NO_END
    if committed:
        transactions = _transactions(log, walk)
        aborted = transactions.aborted
        still_open = list(transactions.open.values())
        undecided = min(transactions.undecided, default=NO_END)
        if walk.stop is not None:
            undecided = min([undecided, *still_open])
        view_end = min([end, *still_open, undecided])
    rows: list[Row] = []
    reached = low
    for each in walk.kept:
        if reached >= view_end or (each.header.magic == 2 and each.first >= view_end):
            break
        is_wanted = each.last >= low
        at, reached = reached, max(reached, each.last + 1) if is_wanted else reached
        if not is_wanted or each.is_control or _is_aborted(each, aborted):
            continue
        rows += [row for row in each.rows if at <= row[0] < view_end]
        if not each.is_whole:
            return Answer(rows, True, "inside")
    else:
        if walk.stop is not None and reached < view_end:
            return Answer(rows, True, walk.stop)
    if undecided < end and undecided == view_end:
        return Answer(rows, True, "undecided")
    return Answer(rows, False)


def _is_aborted(entry: Entry, aborted: Sequence[tuple[int, int, int]]) -> bool:
    return entry.is_transactional and any(
        producer == entry.producer and first <= entry.last <= last for producer, first, last in aborted
    )


def all_entries(log: Log) -> Iterator[Any]:
    """Every entry that is sound where it stands when a walk comes to it from the first byte."""
    for base, data in log.segments:
        position = 0
        while (found := entry_at(data, position)) is not None:
            yield base, found
            position += found.size
