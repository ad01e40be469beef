"""Divide segments among Spark tasks, using only facts from directories, indexes and headers.

Slices begin with a batch. Large ones have about the same size, and small ones share a task, in offset order. Nothing
here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.model import NO_END, AbortedTransaction
from kafkalog.log.reading.slices import Slice
from kafkalog.log.walk.header_walk import Span

__all__ = ["PartitionFacts", "Piece", "SegmentFacts", "plan", "target_bytes"]

SMALLEST_TARGET = 4 << 20
"""A task costs tens of milliseconds regardless of its size, so smaller tasks gain nothing."""
_TASKS_FOR_A_CORE = 2
_MOST_IN_A_BYTE = 40
"""Maximum number of records per byte of log: the smallest message of a wrapper with the best gzip compression.

Damaged headers that claim more would otherwise lead to a task for every few nonexistent offsets.
"""
_FULL = 1.25
"""A task may exceed its target by this factor, to avoid another task for a small rest."""


class SegmentFacts(Struct, frozen=True, kw_only=True):
    """What the planning needs to know of a log file: its place in the log and its spans, in order."""

    path: str
    base_offset: int
    spans: tuple[Span, ...]
    is_last: bool
    next_base: int | None = None
    """base offset of the next segment, if there is one"""
    size: int = 0
    """size of the file in bytes, as listed"""


class PartitionFacts(Struct, frozen=True, kw_only=True):
    """What the planning needs to know of a partition: its segments in order, and the requested offsets."""

    topic: str | None
    partition: int | None
    segments: tuple[SegmentFacts, ...]
    start_offset: int
    end_offset: int = NO_END
    aborted: tuple[AbortedTransaction, ...] | None = None
    """None: records of aborted transactions are wanted too"""
    checks_below: bool = False
    """whether spans below the start are also read, to find damage, if any span reaches the start"""


class Piece(Struct, frozen=True, kw_only=True):
    """A slice of a segment for one task, with what its reader must know of the partition."""

    topic: str | None
    partition: int | None
    slice: Slice
    aborted: tuple[AbortedTransaction, ...] | None
    size: int = 0
    """size of the file in bytes, as listed"""

    def is_replaced(self, size: int) -> bool:
        """Whether the file, which has `size` bytes now, cannot be the one that was listed: the size of the last segment
        has decreased, or the size of an earlier segment has changed.
        """
        return size < self.size if self.slice.next_base is None else size != self.size


def target_bytes(total: int, *, largest: int, min_partitions: int | None, cores: int) -> int:
    """Return the size in bytes of one task, from 1 to `largest`, if `total` bytes are to be read. It is chosen so that
    all cores get the same number of tasks, but is at least `SMALLEST_TARGET` if `largest` allows that. If there would
    be fewer than `min_partitions` tasks, the size is reduced to give about that number (None: no minimum).
    """
    smallest = min(SMALLEST_TARGET, largest)
    rounds = max(_TASKS_FOR_A_CORE, -(-total // (largest * cores)))
    target = max(-(-total // (rounds * cores)), smallest)
    if min_partitions is not None:
        target = min(target, -(-total // min_partitions))
    return max(target, 1)


def plan(
    partitions: Iterable[PartitionFacts], target: int, *, max_records: int | None = None
) -> list[tuple[Piece, ...]]:
    """Return one tuple of pieces for each Spark task, of about `target` bytes; empty if there is nothing to read. Tasks
    and pieces are in the order of `partitions` and their offsets, and a task may have pieces of several partitions.
    `max_records` is how many offsets, claimed by batches, a task may have (None: no limit); see `_by_records` for
    exceptions.
    """
    pieces = [piece for partition in partitions for piece in _pieces(partition, target)]
    if max_records is None:
        return _packed([(piece, 0) for piece, _ in pieces], target, 0)
    return _packed([part for piece in pieces for part in _by_records(piece, max_records)], target, max_records)


Cut = tuple[Piece, tuple[Span, ...]]


def _pieces(facts: PartitionFacts, target: int) -> Iterator[Cut]:
    next_offset = facts.start_offset
    below = [_below(segment, facts.start_offset) for segment in facts.segments]
    if facts.checks_below and any(
        count < len(segment.spans) for count, segment in zip(below, facts.segments, strict=True)
    ):
        below = [0] * len(below)
    for segment, first_wanted in zip(facts.segments, below, strict=True):
        for group in _grouped(_wanted(segment, first_wanted, next_offset, facts), target):
            first = group[0]
            part = Slice(
                path=segment.path,
                start=first.start,
                end=group[-1].end,
                base_offset=segment.base_offset,
                start_offset=next_offset,
                end_offset=facts.end_offset,
                is_last=segment.is_last and group[-1] == segment.spans[-1],
                next_base=segment.next_base,
                expected=first.expected if first.start > segment.spans[0].start else None,
                opens_from=facts.start_offset,
            )
            aborted = _aborted(facts.aborted, min(first.first_offset, next_offset), _highest(segment, group))
            piece = Piece(
                topic=facts.topic, partition=facts.partition, slice=part, aborted=aborted, size=segment.size
            )  # fmt: skip
            yield piece, tuple(group)
            # lower offsets are not read again, whether later in this segment or in one that overlaps it
            next_offset = max(next_offset, *(span.next_offset for span in group))


def _wanted(segment: SegmentFacts, first: int, reached: int, facts: PartitionFacts) -> list[Span]:
    """Return the spans to read, in order, from the one at index `first` on. All spans up to the last one that starts
    below `facts.end_offset` are included, so that the reader reports wrong headers in them; later ones only until the
    offsets reach `facts.end_offset`. `reached` is the offset (exclusive) that earlier segments reach.
    """
    spans = segment.spans
    last = max((index for index, span in enumerate(spans) if span.first_offset < facts.end_offset), default=-1)
    wanted: list[Span] = []
    for index in range(first, len(spans)):
        if index > last and reached >= facts.end_offset:
            break
        wanted.append(spans[index])
        reached = max(reached, spans[index].next_offset)
    return wanted


def _below(segment: SegmentFacts, start: int) -> int:
    """Return how many spans at the beginning of a segment have only offsets below `start`, so that they need not be
    read. Counting stops at the first span whose offsets go back or whose batch headers are not all sound
    (`is_followed`), because anything may follow such a span.
    """
    expected = segment.base_offset
    for number, span in enumerate(segment.spans):
        if not (span.is_followed and expected <= span.first_offset < span.next_offset <= start):
            return number
        expected = span.next_offset
    return len(segment.spans)


def _grouped(spans: Sequence[Span], target: int) -> list[list[Span]]:
    """Return the spans, in order, in groups of about equal size, near `target` bytes. Spans are not divided. A span
    that does not begin where the previous one ends begins a new group.
    """
    total = sum(span.size for span in spans)
    groups: list[list[Span]] = []
    share = total / max(1, round(total / target))
    done = 0
    for span in spans:
        adjoining = bool(groups) and groups[-1][-1].end == span.start
        if adjoining and done + span.size / 2 <= share * len(groups):
            groups[-1].append(span)
        else:
            groups.append([span])
        done += span.size
    return groups


def _highest(segment: SegmentFacts, group: Sequence[Span]) -> int:
    """Return an offset that is at least as high as any that a reader of the group may find. At the end of a segment it
    is the base offset of the next one, or `NO_END`, because offsets after damage may be higher than headers claim.
    """
    if group[-1] == segment.spans[-1] and (segment.is_last or segment.next_base is not None):
        return NO_END if segment.next_base is None else segment.next_base
    return max(span.next_offset for span in group)


def _aborted(
    aborted: tuple[AbortedTransaction, ...] | None, low: int, high: int
) -> tuple[AbortedTransaction, ...] | None:
    """Return the aborted transactions that have offsets from `low` to `high`, both included, in their order; None if
    `aborted` is None.
    """
    if aborted is None:
        return None
    return tuple(txn for txn in aborted if txn.last_offset >= low and txn.first_offset <= high)


def _by_records(cut: Cut, most: int) -> Iterator[tuple[Piece, int]]:
    """Divide a piece at offsets into pieces of at most `most` offsets each. Yield (piece, number of its offsets), in
    order. If a cut lies within a batch, both pieces read that batch.

    A batch counts as many offsets as its header claims, but at most the number of records that its bytes can hold. So
    gaps from compaction and damaged headers add nothing. A cut is made only if all batches before it have lower offsets
    and all batches after it higher ones. A piece without such a place may be larger than `most`.
    """
    piece, spans = cut
    whole = piece.slice
    claimed = list(_claimed(spans, whole.start_offset, whole.end_offset))
    lowest = [*accumulate((span.first_offset for span in reversed(spans[1:])), min, initial=NO_END)][::-1]
    total = sum(count for _, count in claimed)
    ranges = max(1, -(-total // most))
    is_shared = False
    begin, start_offset, highest, done, yielded, number = 0, whole.start_offset, whole.start_offset, 0, 0, 1
    for last, (first_offset, count) in enumerate(claimed):
        while number < ranges and (target := total * number // ranges) <= done + count:
            number += 1
            end_offset = first_offset + target - done
            if not highest <= end_offset <= lowest[last]:
                continue
            goes_on = end_offset < spans[last].next_offset
            part = replace(
                whole, start=spans[begin].start, end=spans[last].end, start_offset=start_offset,
                # a cut between two batches is given by bytes, since records may have offsets that no batch claims
                end_offset=end_offset if goes_on else whole.end_offset,
                is_last=False, expected=spans[begin].expected if begin else whole.expected,
                is_shared=is_shared,
            )  # fmt: skip
            yield replace(piece, slice=part), target - yielded
            is_shared = goes_on
            begin, start_offset, yielded = last + (not is_shared), end_offset, target
        done += count
        highest = max(highest, spans[last].next_offset)
    expected = spans[begin].expected if begin else whole.expected
    last_part = replace(
        whole, start=spans[begin].start, start_offset=start_offset, expected=expected, is_shared=is_shared
    )
    yield replace(piece, slice=last_part), total - yielded


def _claimed(spans: Sequence[Span], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (first counted offset, number of counted offsets) for each span, in order. Offsets of a span from `start`
    to `end` (exclusive) are counted if no earlier span claims them. At most as many are counted as the span's bytes can
    hold records, and at most `Limits.records_per_batch`. The number is 0 if there is no such offset.
    """
    for span in spans:
        first, span_end = max(start, span.first_offset), min(end, span.next_offset)
        most = min(DEFAULT_LIMITS.records_per_batch, span.size * _MOST_IN_A_BYTE)
        yield first, min(max(span_end - first, 0), most)
        start = max(start, span_end)


def _packed(pieces: Sequence[tuple[Piece, int]], target: int, most: int) -> list[tuple[Piece, ...]]:
    """Divide pieces into tasks, in order. A task has at most 1.25 times `target` bytes and at most `most` records,
    unless a single piece exceeds one of these; that is a task by itself. `pieces` has pairs of a piece and its number
    of records.
    """
    tasks: list[list[Piece]] = []
    size = count = 0
    for piece, records in pieces:
        if tasks and size + piece.slice.size <= target * _FULL and count + records <= most:
            tasks[-1].append(piece)
        else:
            tasks.append([piece])
            size = count = 0
        size += piece.slice.size
        count += records
    return [tuple(task) for task in tasks]
