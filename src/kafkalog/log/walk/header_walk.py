"""Scan the batches of a segment by their headers, and make spans (byte ranges) of neighboring batches. Nothing is
guessed: bytes that are not a batch stay in the span before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.limits import KIB
from kafkalog.codec.common.source import Source
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, NO_END, AnyHeader, BatchHeader
from kafkalog.codec.native.library import is_there
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.scanner import Scanner, offsets_behind
from kafkalog.codec.rules.batches import MAGICS, BatchVerdict, Continuity
from kafkalog.codec.rules.framing import MAGIC_POSITION, SMALLEST_MESSAGE
from kafkalog.log.disk.files import FileSource
from kafkalog.log.walk.segment import Segment

__all__ = ["Span", "batch_spans", "joined_spans", "spans_from", "walk_headers"]

_BLOCK_BYTES = 64 * KIB
"""Bytes read at once if batches are small."""
_OFFSET, _SIZE = LOG_OVERHEAD.reader("offset"), LOG_OVERHEAD.reader("size")


class Span(Struct, frozen=True):
    """Bytes of a segment from the start of a batch on, with the offsets that headers claim for them."""

    start: int
    end: int
    first_offset: int
    next_offset: int
    """offset after the last one"""
    expected: int
    """offset that should come at `start`: after the highest one before it"""
    is_followed: bool = True
    """whether sound headers lead to its end; otherwise it may hold other offsets than it claims"""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.end - self.start


def batch_spans(segment: Segment, next_base: int | None = None) -> list[Span]:
    """Return a span for each batch of the segment, in file order; `walk_headers` says which batches share one. If no
    header follows a batch, its span includes all the rest of the segment. Raises `StorageError` if the log cannot be
    read.
    """
    with segment.open() as source:
        size, base = min(source.size, segment.size), segment.base_offset
        return list(walk_headers(source, base, 0, size, base=base, next_base=next_base))


def spans_from(segment: Segment, offset: int, next_base: int | None = None) -> Iterator[Span]:
    """Yield a span for each batch, starting at or before the batch that contains `offset`; `walk_headers` says which
    batches share one. If no header follows a batch, its span includes all the rest of the segment. Raises
    `StorageError` while iterating if the log cannot be read.
    """
    with segment.open() as source:
        position = segment.position_of(offset, source)
        size, base = min(source.size, segment.size), segment.base_offset
        yield from walk_headers(source, base, position, size, base=base, next_base=next_base)


def joined_spans(
    source: Source,
    offset: int,
    end: int,
    step: int,
    *,
    position: int = 0,
    base: int | None = None,
    next_base: int | None = None,
) -> Iterator[Span]:
    """Yield consecutive spans of whole batches from byte `position` to `end` (exclusive). Each has at least `step`
    bytes, except the last. If there is no header at `position`, or none follows a batch, the span extends to `end`.
    `offset` is the base offset expected at `position`. `base` is the base offset of the segment, None if unknown;
    `next_base` that of the next one, None for the last one. Headers are read, and a whole batch only if its header is
    doubtful. Raises `StorageError` while iterating if the log cannot be read.
    """
    if offset <= NO_END and isinstance(source, FileSource) and source.descriptor >= 0 and is_there():
        for span, expected in _by_compiled_code(source, offset, range(position, end), step, base, next_base):
            yield span
            position, offset = span.end, expected
    yield from _joined(walk_headers(source, offset, position, end, base=base, next_base=next_base), step)


def _by_compiled_code(
    source: FileSource, offset: int, bytes_wanted: range, step: int, base: int | None, next_base: int | None
) -> Iterator[tuple[Span, int]]:
    """Yield each span with the offset that is expected after it, found by compiled code. Stops before the end of
    `bytes_wanted` at headers that compiled code cannot judge; the caller continues there. Other parameters as in
    `joined_spans`. Raises `StorageError` if the log cannot be read.
    """
    from kafkalog.codec.common.buffer_pool import Block
    from kafkalog.codec.native import functions
    from kafkalog.codec.native.cells import zeros
    from kafkalog.codec.native.tables import Walk

    position, end = bytes_wanted.start, bytes_wanted.stop
    memory = Block(_BLOCK_BYTES)
    walk = zeros(len(Walk))
    walk[Walk.END], walk[Walk.FILE_END], walk[Walk.STEP], walk[Walk.EXPECTED] = end, source.size, step, offset
    walk[Walk.POSITION], walk[Walk.BASE] = position, NO_END if base is None else base
    walk[Walk.NEXT_BASE] = NO_END if next_base is None else next_base
    while position < end and functions.walk_headers(source.descriptor, memory.address, _BLOCK_BYTES, walk):
        behind, expected = walk[Walk.POSITION], walk[Walk.EXPECTED]
        first_offset, next_offset = walk[Walk.FIRST_OFFSET], walk[Walk.NEXT_OFFSET]
        yield Span(position, behind, first_offset, next_offset, offset, bool(walk[Walk.IS_FOLLOWED])), expected
        position, offset = behind, expected


def _joined(spans: Iterable[Span], step: int) -> Iterator[Span]:
    """Join consecutive spans and yield the joined ones in order, each with at least `step` bytes except the last."""
    joined: Span | None = None
    for span in spans:
        if joined is not None and joined.size >= step:
            yield joined
            joined = None
        if joined is None:
            joined = span
            continue
        joined = _together(joined, span)
    if joined is not None:
        yield joined


def _together(span: Span, following: Span) -> Span:
    next_offset = max(span.next_offset, following.next_offset)
    return replace(span, end=following.end, next_offset=next_offset, is_followed=following.is_followed)


def _is_sound(source: Source, position: int, end: int) -> bool:
    return next(iter(Scanner(source, position=position, end=end)), None) is not None


def walk_headers(
    source: Source, offset: int, position: int, end: int, *, base: int | None = None, next_base: int | None = None
) -> Iterator[Span]:
    """Yield a span for each batch, with the exceptions below, from byte `position` to `end` (exclusive). `offset` is
    the offset expected at `position`, `base` the base offset of the segment (None: unknown), `next_base` that of the
    next one (None: last segment). If there is no header at `position`, yield one span that covers everything. Raises
    `StorageError` while iterating if the log cannot be read.

    A displaced batch (its header has wrong offsets, see `codec.rules.batches`) gets the right offsets. A batch whose
    offsets are too high for its segment shares a span with the next batch: they do not count, and any may come after
    them. So does a batch with a wrong checksum whose header contradicts the next one or has only offsets below the
    expected one. If no header follows a batch, its size may be wrong, so its span extends to `end`.
    """
    continuity = Continuity(base, next_segment=next_base, expected=offset)
    head = source.read(position, BATCH.size)
    if position < end and not _is_header(head, position, end):
        yield Span(position, end, offset, offset, offset, is_followed=False)
        return
    doubtful: Span | None = None
    while position < end:
        behind = position + LOG_OVERHEAD.size + _SIZE(head, 0)
        header = PLAIN.batch_header(head, 0) if head[MAGIC_POSITION] > 1 else PLAIN.legacy_header(head, 0)
        head = source.read(behind, BATCH.size) if behind < source.size else b""
        continuity.behind = following = _offset_at(head, behind, source, next_base)
        _, second = offsets_behind(source, header, behind, continuity)
        first, next_offset, is_believed = offset, header.next_offset, True
        verdict = continuity.judge(header, following, second)
        is_too_high = verdict is BatchVerdict.STOP and header.magic in MAGICS
        if is_too_high:
            next_offset, is_believed = offset, False
        elif verdict is BatchVerdict.DISPLACED:
            next_offset = offset + (header.next_offset - header.first_offset)
        elif _is_doubtful(header, offset, following) and not _is_sound(source, position, behind):
            next_offset, is_believed = offset, False
        elif isinstance(header, BatchHeader):
            first = header.base_offset
        is_followed = is_believed if behind >= end else _is_header(head, behind, end)
        span = Span(position, behind if is_followed else end, first, next_offset, offset, is_followed)
        if doubtful is not None:
            span = _together(doubtful, span)
        doubtful = None if is_believed else span
        if doubtful is None or span.end >= end:
            yield span
        if not is_followed:
            return
        offset = max(offset, next_offset)
        continuity.took(offset - 1)
        if is_too_high:
            continuity.goes_on()
        position = behind


def _is_doubtful(header: AnyHeader, expected: int, following: int | None) -> bool:
    """Whether a header claims offsets that contradict the next header, or only offsets below the expected one."""
    return header.next_offset <= expected or (following is not None and following < header.next_offset)


def _is_header(head: bytes | memoryview, position: int, end: int) -> bool:
    """Whether a batch that ends at or before `end` can begin with `head`."""
    if len(head) <= MAGIC_POSITION or (head[MAGIC_POSITION] > 1 and len(head) < BATCH.size):
        return False
    length = int(_SIZE(head, 0))
    return length >= SMALLEST_MESSAGE and position + LOG_OVERHEAD.size + length <= end


def _offset_at(head: bytes | memoryview, position: int, source: Source, next_base: int | None) -> int | None:
    """Return the base offset in a header. At the end of the file return the next segment's; None if the header is
    incomplete.
    """
    if position >= source.size:
        return next_base
    return int(_OFFSET(head, 0)) if len(head) > MAGIC_POSITION else None
