"""Cut a segment into spans (byte ranges) at positions where batches begin, and find their offsets. The positions come
from the offset index, and a valid batch must prove each. Without a usable index the headers of all batches are read
(`header_walk`). `likely_spans` does without proof, for readers that can correct wrong cuts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from msgspec.structs import replace

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB, MIB, Limits
from kafkalog.codec.common.source import BufferSource, Source
from kafkalog.codec.files.index_files import OFFSET_ENTRY, OffsetEntry
from kafkalog.codec.headers.index_columns import columns_of_entries
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, NO_END, BatchHeader
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_POSITION
from kafkalog.log.disk.files import FileSource, NotRegularFileError
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.walk.header_walk import Span, joined_spans
from kafkalog.log.walk.segment import Segment

__all__ = ["likely_spans", "spans"]

_PROBE_BYTES = 64 * KIB
_TRIES = 4
"""Most index entries to try for one cut."""
_FEW_BYTES = 8 * KIB
"""Largest log for which the index is not opened: it would have an entry or two, and its headers are read instead."""
_INDEX_BYTES = MIB
"""Bytes of an index read at once; further entries are read one by one."""
_MOST_INDEX_BYTES = 16 * MIB
"""Most bytes of an index that are read: more than a broker's largest by default."""
_PAGE_BYTES = 4096
"""Bytes read before the number of entries is known: most slots that a running broker allocates are empty."""
_NOTHING = OffsetEntry(0, 0)


def spans(
    segment: Segment,
    every: int,
    next_base: int | None = None,
    *,
    start: int = 0,
    end: int = NO_END,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Span]:
    """Return consecutive spans that cover the whole segment. They are of about equal size, and with `start` and `end`
    at their defaults at most about `every` bytes each. If the segment has at most `every` bytes, the list has one span,
    or with `end` perhaps two; if it is empty, none. Raises `StorageError` if the log or its offset index cannot be
    read.

    Only the part with offsets from `start` to `end` (exclusive) is cut, as far as the offset index shows it. The bytes
    before that part belong to the first span, and the bytes after it are the last span. Without a usable index the
    whole segment is cut. `next_base` is the base offset of the next segment; None for the last one.
    """
    base = segment.base_offset
    with segment.open() as source:
        size = min(source.size, segment.size)
        if size == 0:
            return []
        if size <= min(every, _FEW_BYTES):
            whole = BufferSource(source.read(0, size))
            return list(joined_spans(whole, base, whole.size, size, base=base, next_base=next_base))
        step = size // -(-size // max(every, 1))
        proving = replace(limits, read_window_bytes=min(limits.read_window_bytes, _PROBE_BYTES))
        asked = (start - base, end - base)
        indexed = _indexed(source, segment, range(step, size - step // 2, step), asked, size, next_base, proving)
        if indexed is None:
            return list(joined_spans(source, base, size, step, base=base, next_base=next_base))
        cuts, next_offset, is_followed = indexed
    starts = [(0, base), *cuts]
    ends = [*cuts, (size, next_offset)]
    pieces = [Span(begin, end, low, high, low) for (begin, low), (end, high) in zip(starts, ends, strict=True)]
    return [*pieces[:-1], replace(pieces[-1], is_followed=is_followed)]


def likely_spans(
    source: FileSource, segment: Segment, position: int, end: int, step: int, rows: int, next_base: int | None = None
) -> Iterator[Span]:
    """Yield consecutive spans from the batch at byte `position` to `end` (exclusive). Each span is determined only when
    it is requested. The first one gets the segment's base offset as its first offset, whatever `position` is.

    Cuts come from the offset index and the headers at its positions. They are not proven: a wrong index gives wrong
    cuts. Such spans have about `step` bytes, or fewer so that they hold at most about `rows` offsets. After the last
    index entry, or from an entry that does not fit the log, all headers are read instead (`joined_spans`). Spans there
    have at least `step` bytes, with any number of offsets. Raises `StorageError` if the log cannot be read.
    """
    offset = segment.base_offset
    for cut, expected in _likely_cuts(source, segment, position, end, step, rows, next_base):
        yield Span(position, cut, offset, expected, offset)
        position, offset = cut, expected
    yield from joined_spans(source, offset, end, step, position=position, base=segment.base_offset, next_base=next_base)


def _likely_cuts(
    source: FileSource, segment: Segment, position: int, end: int, step: int, rows: int, next_base: int | None
) -> Iterator[tuple[int, int]]:
    """Yield byte positions between `position` and `end` (both exclusive) at which batches probably begin, each with the
    offset expected there. They are about `step` bytes apart, or less if that would be more than `rows` offsets. Stops
    when at most `step` bytes are left, at the end of the offset index, or at an entry that does not fit the log. Yields
    nothing if the index is missing or cannot be read. `next_base` is the base offset of the next segment; None for the
    last one. Raises `StorageError` while iterating if the log cannot be read.
    """
    path = segment.files.get(FileKind.OFFSET_INDEX)
    if path is None:
        return
    try:
        with FileSource(path) as index:
            entries = _Slots(index)
            data = index.read(0, min(len(entries) * OFFSET_ENTRY.size, _MOST_INDEX_BYTES))
    except StorageError:
        return
    columns = columns_of_entries(data[: len(data) - len(data) % OFFSET_ENTRY.size], OFFSET_ENTRY)
    relative_offsets, positions = columns["relative_offset"], columns["position"]
    base = offset = segment.base_offset
    while end - position > step and len(positions) > 1:
        before = bisect_right(positions, position)
        by_rows = bisect_left(relative_offsets, offset + rows - base)
        number = max(min(bisect_right(positions, position + step), by_rows) - 1, before, 1)
        if number >= len(positions):
            return
        two = [OffsetEntry(base + relative_offsets[entry], positions[entry]) for entry in (number - 1, number)]
        cut = _likely_cut(source, two[0], two[1], next_base)
        if cut is None or not position < cut[0] < end:
            return
        yield cut
        position, offset = cut


def _likely_cut(
    source: FileSource, before: OffsetEntry, entry: OffsetEntry, next_base: int | None
) -> tuple[int, int] | None:
    """Return the byte position of index entry `entry`, and the offset expected there after the batches before it.
    Return None unless `before`, the earlier entry, has a lower position, and v2 headers are at both positions. The
    batch at `entry` must also end with the entry's offset. `relative_offset` of both entries has absolute offsets here.
    `next_base` is the base offset of the next segment. Raises `StorageError` if the log cannot be read.
    """
    if not 0 <= before.position < entry.position:
        return None
    heads = [source.read(offset_entry.position, BATCH.size) for offset_entry in (before, entry)]
    if any(len(head) < BATCH.size or head[MAGIC_POSITION] != BATCH_MAGIC for head in heads):
        return None
    first, second = (PLAIN.batch_header(head, 0) for head in heads)
    if second.last_offset != entry.relative_offset:
        return None
    behind = before.position + LOG_OVERHEAD.size + first.batch_length
    if behind == entry.position:
        return behind, first.next_offset
    size = entry.position - before.position
    between = joined_spans(
        source, first.base_offset, entry.position, size, position=before.position, next_base=next_base
    )
    return entry.position, max(span.next_offset for span in between)


class _Slots(Sequence[OffsetEntry]):
    """Entries of an open offset index, decoded when examined: a running broker allocates a million. Unused slots are
    left out, as far as binary search finds the first.
    """

    def __init__(self, index: Source) -> None:
        self._index = index
        self._begin = index.read(0, min(index.size, _PAGE_BYTES))
        self._count = index.size // OFFSET_ENTRY.size
        self._count = bisect_left(self, True, key=lambda entry: entry.position <= 0)
        if self._count * OFFSET_ENTRY.size > len(self._begin):
            self._begin = index.read(0, min(self._count * OFFSET_ENTRY.size, _INDEX_BYTES))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, slot: int) -> OffsetEntry: ...

    @overload
    def __getitem__(self, slot: slice) -> list[OffsetEntry]: ...

    def __getitem__(self, slot: int | slice) -> OffsetEntry | list[OffsetEntry]:
        if isinstance(slot, slice):
            return [self[each] for each in range(*slot.indices(self._count))]
        position = slot * OFFSET_ENTRY.size
        data = self._begin[position : position + OFFSET_ENTRY.size] or self._index.read(position, OFFSET_ENTRY.size)
        return OffsetEntry(*OFFSET_ENTRY.struct.unpack(data)) if len(data) == OFFSET_ENTRY.size else _NOTHING


def _indexed(
    source: Source,
    segment: Segment,
    wanted: range,
    asked: tuple[int, int],
    size: int,
    next_base: int | None,
    limits: Limits,
) -> tuple[list[tuple[int, int]], int, bool] | None:
    """Return three results. The first are cuts (byte position and base offset) near those of the `wanted` byte
    positions that are in the requested part. The second is the offset after the last batch. The third says whether
    headers lead from the last index entry to the end of the file. Return None if there is no index or it does not help.

    `asked` has the first and the end (exclusive) of the requested offsets, relative to the base offset. If the index
    continues beyond them, a last cut is made after them, and the rest of the file is not examined. The second result is
    then the offset of that cut, and the third is False. Raises `StorageError` if a file cannot be read.
    """
    path = segment.files.get(FileKind.OFFSET_INDEX)
    base_offset = segment.base_offset
    if path is None:
        return None
    try:
        with FileSource(path) as index:
            entries = _Slots(index)
            if not entries:
                return None
            below = bisect_right(entries, asked[0], key=_relative_offset)
            low = entries[below - 1].position if below else 0
            behind_asked = bisect_left(entries, asked[1], key=_relative_offset) + 1
            is_bounded = behind_asked < len(entries)
            high = entries[behind_asked].position if is_bounded else size
            cuts = _cuts(source, base_offset, entries, _between(wanted, low, high), limits)
            if cuts is not None and is_bounded:
                last = _proved(source, base_offset, entries[behind_asked : behind_asked + _TRIES], limits)
                if last is None or last[1] - base_offset < asked[1] or (cuts and last[0] < cuts[-1][0]):
                    return None
                return [*(cut for cut in cuts if cut[0] < last[0]), last], last[1], False
            tail = _proved(source, base_offset, entries[-1:], limits)
    except (MissingFileError, NotRegularFileError):
        return None
    if cuts is None or tail is None:
        return None
    begin = max(tail, cuts[-1]) if cuts else tail
    behind = joined_spans(source, begin[1], size, size, position=begin[0], base=base_offset, next_base=next_base)
    rest = next(behind, Span(begin[0], size, begin[1], begin[1], begin[1]))
    return cuts, max(begin[1], rest.next_offset), rest.is_followed


def _relative_offset(entry: OffsetEntry) -> int:
    return entry.relative_offset


def _between(positions: range, low: int, high: int) -> range:
    """Return the positions above `low` and below `high`."""
    return positions[bisect_right(positions, low) : bisect_left(positions, high)]


def _proved(source: Source, base_offset: int, entries: Iterable[OffsetEntry], limits: Limits) -> tuple[int, int] | None:
    """Return byte position and base offset of the batch of the first index entry that the log proves; None if there is
    none. A v2 batch with a right checksum must be at the entry's position. Its last offset must be the entry's offset,
    and its base offset must not be below `base_offset`, the segment's own. Entries with position 0 are skipped. The
    proof is needed because no checksum covers the base offset of a batch. Raises `StorageError` if the log cannot be
    read.
    """
    for entry in entries:
        if not 0 < entry.position < source.size:
            continue
        batch = next(iter(Scanner(source, position=entry.position, limits=limits)), None)
        header = batch.header if batch is not None else None
        if (
            isinstance(header, BatchHeader)
            and header.magic == BATCH_MAGIC
            and base_offset <= header.base_offset
            and base_offset + entry.relative_offset == header.last_offset
        ):
            return entry.position, header.base_offset
    return None


def _cuts(
    source: Source, base_offset: int, entries: Sequence[OffsetEntry], wanted: range, limits: Limits
) -> list[tuple[int, int]] | None:
    """For each wanted byte position, try at most four index entries at or after it, and use the first proven one.
    Return the positions of these entries with their base offsets, in increasing order and without duplicates. The list
    ends early if the index does. Return None if all tries for a position fail, or if the base offsets do not increase.
    Raises `StorageError` if the log cannot be read.
    """
    cuts: list[tuple[int, int]] = []
    for position in wanted:
        if cuts and position <= cuts[-1][0]:
            continue
        number = bisect_left(entries, position, key=lambda entry: entry.position)
        if number == len(entries):
            return cuts
        cut = _proved(source, base_offset, entries[number : number + _TRIES], limits)
        if cut is None or (cuts and cut[1] <= cuts[-1][1]):
            return None
        cuts.append(cut)
    return cuts
