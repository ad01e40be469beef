"""Where a segment can be cut: positions at which batches begin, and the offsets that lie between them.

The offset index names positions, and each is proved by a valid batch there; without a usable index the headers of all
batches are walked over.  Nothing is guessed, and bytes that are no batch stay in the span that they stand in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kafkalog.codec.fast.plain import PLAIN
from kafkalog.codec.index_files import OffsetEntry, decode_offset_index, used_offset_entries
from kafkalog.codec.limits import DEFAULT_LIMITS, KIB, Limits
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, BatchHeader
from kafkalog.codec.names import FileKind
from kafkalog.codec.scan import MAGIC_POSITION, SMALLEST_MESSAGE, Scanner
from kafkalog.codec.source import Source
from kafkalog.log.files import FileSource, MissingFileError, NotRegularFileError
from kafkalog.log.segment import Segment

__all__ = ["Span", "batch_spans", "spans", "spans_from"]

_PROBE_BYTES = 64 * KIB
BATCH_MAGIC = 2
_TRIES = 4
"""Index entries looked at for one cut before the index is given up."""
_SIZE = LOG_OVERHEAD.reader("size")
_OFFSET = LOG_OVERHEAD.reader("offset")


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a segment from the beginning of a batch on, and the offsets that headers claim for them."""

    start: int
    end: int
    first_offset: int
    next_offset: int
    """behind the last one"""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


def batch_spans(segment: Segment) -> list[Span]:
    """A span for each batch of the segment; behind the last sound header one for all the rest."""
    with segment.open() as source:
        return list(_walk(source, segment.base_offset, 0, min(source.size, segment.size)))


def spans_from(segment: Segment, offset: int) -> Iterator[Span]:
    """A span for each batch, from one at or before the batch with `offset` on; the last as in `batch_spans`."""
    with segment.open() as source:
        position = segment.position_of(offset, source)
        yield from _walk(source, segment.base_offset, position, min(source.size, segment.size))


def spans(segment: Segment, every: int, *, limits: Limits = DEFAULT_LIMITS) -> list[Span]:
    """The segment in about equal spans of at most about `every` bytes, or one where it is smaller than that."""
    with segment.open() as source:
        size = min(source.size, segment.size)
        if size == 0:
            return []
        step = size // -(-size // max(every, 1))
        entries = _entries(segment)
        proving = replace(limits, read_window_bytes=min(limits.read_window_bytes, _PROBE_BYTES))
        cuts = _cuts(source, segment.base_offset, entries, range(step, size - step // 2, step), proving)
        tail = _proved(source, segment.base_offset, entries[-1:], proving)
        if cuts is None or (entries and tail is None):
            return _joined(_walk(source, segment.base_offset, 0, size), step)
        first = (0, segment.base_offset)
        begin = max(tail or first, cuts[-1] if cuts else first)
        next_offset = max([begin[1], *(span.next_offset for span in _walk(source, begin[1], begin[0], size))])
    starts = [first, *cuts]
    ends = [*cuts, (size, next_offset)]
    return [Span(at, end, low, high) for (at, low), (end, high) in zip(starts, ends, strict=True)]


def _joined(found: Iterable[Span], step: int) -> list[Span]:
    joined: list[Span] = []
    for span in found:
        if joined and joined[-1].size < step:
            joined[-1] = replace(joined[-1], end=span.end, next_offset=max(joined[-1].next_offset, span.next_offset))
        else:
            joined.append(span)
    return joined


def _walk(source: Source, offset: int, position: int, end: int) -> Iterator[Span]:
    """A span for each batch, from its header alone; `offset` is where the first one should begin."""
    while position < end:
        head = source.read(position, BATCH.size)
        length = _SIZE(head, 0) if len(head) > MAGIC_POSITION else -1
        behind = position + LOG_OVERHEAD.size + length
        if length < SMALLEST_MESSAGE or behind > end or (head[MAGIC_POSITION] > 1 and len(head) < BATCH.size):
            yield Span(position, end, offset, offset)
            return
        first, next_offset = offset, _OFFSET(head, 0) + 1
        if head[MAGIC_POSITION] > 1:
            header = PLAIN.batch_header(head, 0)
            first, next_offset = header.base_offset, header.next_offset
        yield Span(position, behind, first, next_offset)
        offset = next_offset
        position = behind


def _entries(segment: Segment) -> list[OffsetEntry]:
    path = segment.files.get(FileKind.OFFSET_INDEX)
    if path is None:
        return []
    try:
        with FileSource(path) as index:
            entries = decode_offset_index(index.read(0, index.size))
    except (MissingFileError, NotRegularFileError):
        return []
    return entries[: used_offset_entries(entries)]


def _proved(source: Source, base_offset: int, entries: Iterable[OffsetEntry], limits: Limits) -> tuple[int, int] | None:
    """Position and first offset of the first entry at which a valid v2 batch begins that the entry may mean."""
    for entry in entries:
        batch = next(iter(Scanner(source, position=entry.position, limits=limits)), None)
        header = batch.header if batch is not None else None
        if (
            isinstance(header, BatchHeader)
            and header.magic == BATCH_MAGIC
            and base_offset <= header.base_offset <= base_offset + entry.relative_offset <= header.last_offset
        ):
            return entry.position, header.base_offset
    return None


def _cuts(
    source: Source, base_offset: int, entries: list[OffsetEntry], wanted: range, limits: Limits
) -> list[tuple[int, int]] | None:
    """Proved positions at or behind the wanted ones, with their first offsets; None if the index does not help."""
    cuts: list[tuple[int, int]] = []
    for position in wanted:
        if cuts and position <= cuts[-1][0]:
            continue
        number = bisect_left(entries, position, key=lambda entry: entry.position)
        if number == len(entries):
            return cuts if entries else None
        found = _proved(source, base_offset, entries[number : number + _TRIES], limits)
        if found is None or (cuts and found[1] <= cuts[-1][1]):
            return None
        cuts.append(found)
    return cuts
