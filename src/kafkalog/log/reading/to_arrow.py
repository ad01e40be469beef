"""Read a whole partition as one stream of Arrow batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from kafkalog.codec.columnar.assembler import ArrowAssembler, Bounds
from kafkalog.codec.columnar.schema import COPY, record_schema
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import KIB, MIB, Limits
from kafkalog.codec.model import BATCH, NO_END, NO_PARTITION_LEADER_EPOCH, Codec
from kafkalog.codec.names import without_surrogates
from kafkalog.codec.native.thresholds import kernel_is_worth_it
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_POSITION
from kafkalog.codec.rules.record_shape import SMALLEST_RECORD
from kafkalog.log.disk.held_files import HeldFiles
from kafkalog.log.reading.consumer_view import (
    ConsumerView,
    Telling,
    consumer_view,
    nothing_to_read,
    wanted_offsets,
)
from kafkalog.log.reading.in_order import InOrder
from kafkalog.log.reading.lossy import Lossy, before_and_from_null_time
from kafkalog.log.reading.readable import ReadablePartition
from kafkalog.log.reading.record_filter import EVERY_RECORD, RecordFilter, conditions_of
from kafkalog.log.reading.slices import Damage, Slice, SliceReader
from kafkalog.log.walk.header_walk import Span
from kafkalog.log.walk.on_damage import RAISE, SKIP, STOP, check_on_damage, raised, warn_of_loss
from kafkalog.log.walk.segment import Segment, index_of
from kafkalog.log.walk.spans import likely_spans

__all__ = ["OPEN_TRANSACTION", "partition_to_arrow"]

OPEN_TRANSACTION = "open_transaction"
"""Key in the metadata of a reader's schema for the sentence of `RecordReader.open_transaction`."""

_PART_BYTES = 8 * MIB
"""Most bytes of a segment that a thread reads as one part."""
_BEHIND = 32 * KIB
"""Bytes after the last index entry below an offset in which that offset is probably found."""
_SHARED_BYTES = 16 * MIB
"""Bytes that all threads together read at once, and that their Arrow batches take; each gets its share."""
_LEAST_BYTES = MIB
"""Least bytes that a thread reads as one part: for fewer, the start takes longer than the reading."""
_WAITING_BYTES = 12 * MIB
"""Most bytes of Arrow batches that wait to be read."""
_DEFAULT_ROWS, _MOST_ROWS = 65_536, 16 * 1024 * 1024
"""Rows of one Arrow batch: the default, and the most."""
_UNPACKED = 2
"""Least factor by which compressed records expand, so that parts of them are smaller."""
_LARGE_PART = 2
"""Factor above the intended size from which on a part contains a large batch."""


def partition_to_arrow(
    partition: ReadablePartition,
    columns: Iterable[str] | None = None,
    filter: RecordFilter = EVERY_RECORD,
    *,
    batch_rows: int = _DEFAULT_ROWS,
    batch_bytes: int = 8 * MIB,
    on_damage: str = RAISE,
    findings: list[Finding] | None = None,
    threads: int = 1,
    layout: str = COPY,
) -> pa.RecordBatchReader:
    """Return a reader of the records of a partition as Arrow batches. Implements `Partition.to_arrow`, which explains
    the parameters. Bounds by timestamp and, for `read_committed`, the transactions are determined at once; the records
    are read lazily. The log files are kept open from now on. `batch_rows` may be lowered for a small log.

    Raises `UsageError` for an invalid argument, such as sizes or `threads` below 1, `StorageError` if a file cannot be
    read. While the batches are read, damage is raised as `FormatError`, appended to `findings` or reported as
    a warning.
    """
    if batch_rows < 1 or batch_bytes < 1 or threads < 1:
        raise UsageError("batch_rows, batch_bytes and threads must be positive")
    limits = partition.limits
    schema = told = record_schema(columns, layout)
    skips = check_on_damage(on_damage) == SKIP
    passed: list[Finding] = []
    low, high = wanted_offsets(partition, filter, passed, limits)
    view = consumer_view(
        partition, low, high, isolation_level=filter.isolation, batches=conditions_of(filter), through_damage=skips,
        limits=limits,
    )  # fmt: skip
    if view.open_transaction is not None:
        told = schema.with_metadata({OPEN_TRANSACTION: view.open_transaction})
    wanted = partition.segments[index_of(partition.segments, view.start_offset) :]
    files = HeldFiles([segment.path for segment in wanted])
    work_bytes = sum(segment.size for segment in wanted)

    likely_rows = min(batch_bytes // SMALLEST_RECORD, work_bytes, _MOST_ROWS)
    rows = min(batch_rows, max(likely_rows, _DEFAULT_ROWS))  # room is made for all of them at once
    in_threads = threads > 1 and not skips and kernel_is_worth_it(work_bytes)
    share = max(_SHARED_BYTES // threads, _LEAST_BYTES)

    def assembler() -> ArrowAssembler:
        return ArrowAssembler(
            schema,
            topic=without_surrogates(partition.topic),
            partition=partition.partition,
            bounds=Bounds(
                rows=rows, bytes=batch_bytes, first_rows=rows, most_collected=share if in_threads else None
            ),
            limits=limits,
            work_bytes=work_bytes,
        )

    reading = _Reading(assembler, view, files, limits, tolerant=skips)
    if in_threads:
        every = min(_PART_BYTES, share)
        parts = _parts(_slices(wanted, view, files, limits), every, rows, files)
        pieces = reading.in_threads(parts, min(threads, work_bytes // every + 1), every)
    else:
        pieces = reading.one_by_one(part for _, part in _slices(wanted, view, files, limits))
    reported = _all_reported(partition, pieces, view, passed, limits)
    sound = _undamaged(reported, Lossy(partition.path), on_damage, findings)
    return pa.RecordBatchReader.from_batches(told, sound)


def _all_reported(
    partition: ReadablePartition, pieces: Iterable[pa.RecordBatch | Damage], view: ConsumerView,
    passed: Iterable[Finding], limits: Limits,
) -> Iterator[pa.RecordBatch | Damage]:  # fmt: skip
    """Yield the Arrow batches and damage in `pieces`, with further findings as damage before and after them. Before
    them come the findings in `passed`, which may hide earlier rows, and those about markers that cannot be read. After
    them comes the undecided transaction that ends the view, if there is one. If there is none, the last item is the
    reason why a consumer gets no record. It is omitted if `pieces` has rows or damage that ends the reading, or if no
    reason is known. Raises `StorageError` if a file cannot be read.
    """
    for finding in passed:
        yield _elsewhere(finding, view.start_offset)
    for finding in view.findings:
        yield replace(_elsewhere(finding, view.start_offset), goes_on=True)
    is_empty = True
    for piece in pieces:
        is_empty = is_empty and isinstance(piece, Damage) and piece.goes_on  # a fault whose records are read
        yield piece
        del piece
    if view.undecided is not None:
        yield _elsewhere(view.undecided, view.end_offset)
    elif is_empty and (nothing := nothing_to_read(partition, limits)) is not None:
        yield _elsewhere(nothing, view.start_offset)


def _elsewhere(finding: Finding, offset: int) -> Damage:
    """Return damage for a finding about bytes that are not between the rows; `offset` is its `next_offset`."""
    return Damage(finding=finding, start=finding.position or 0, end=finding.position or 0, next_offset=offset)


def _undamaged(
    pieces: Iterable[pa.RecordBatch | Damage], lossy: Lossy, on_damage: str, findings: list[Finding] | None
) -> Iterator[pa.RecordBatch]:
    repeats, telling, held_back = False, Telling(), set[Finding]()
    for piece in pieces:
        if not isinstance(piece, Damage):
            for rows in before_and_from_null_time(piece) if on_damage == RAISE else (piece,):
                _report(lossy(rows), on_damage, findings)
                yield rows
                del rows
            del piece  # the next one may be as large
            continue
        if piece.goes_on:  # a consumer gets all rows in spite of the fault
            is_repeat = piece.finding.code is FindingCode.OFFSET_NOT_INCREASING
            if findings is None:
                if not piece.is_beside:
                    telling(piece.finding)
            elif not (is_repeat and repeats):
                findings.append(piece.finding)
            repeats = repeats or is_repeat
            continue
        if piece.finding in held_back:
            continue
        if piece.finding.code is FindingCode.TRANSACTION_UNDECIDED:  # repeated for each batch of the transaction
            held_back.add(piece.finding)
        if findings is not None:
            findings.append(piece.finding)
        elif on_damage != RAISE:
            warn_of_loss(piece.finding, on_damage)
        if on_damage == RAISE:
            raise raised(piece.finding)
        if on_damage == STOP:
            return


def _report(lossy: Iterable[Finding], on_damage: str, findings: list[Finding] | None) -> None:
    """Report findings about values that a table cannot hold: append them to `findings`, or warn if `findings` is None.
    With `on_damage="raise"`, a finding of severity ERROR (a time that is null in the table) raises `FormatError`, after
    it was appended.
    """
    for finding in lossy:
        if findings is not None:
            findings.append(finding)
        if on_damage == RAISE and finding.severity is Severity.ERROR:
            raise raised(finding)
        if findings is None:
            warnings.warn(str(finding), RuntimeWarning, stacklevel=2)


def _slices(
    wanted: Sequence[Segment], view: ConsumerView, files: HeldFiles, limits: Limits
) -> Iterator[tuple[Segment, Slice]]:
    """Yield each segment with the slice of it to read. The first slice begins at or before the view's start, as near as
    the offset index shows; all others begin at byte 0. If the view has an end, the slice that contains it and later
    ones have `likely_end`. By this byte position the end is probably reached. Raises `StorageError` if a file cannot be
    opened or read.
    """
    low, high = view.start_offset, view.end_offset
    for number, segment in enumerate(wanted):
        start, following = 0, None if number + 1 == len(wanted) else wanted[number + 1].base_offset
        ends_here = high != NO_END and (following is None or high <= following)
        likely_end = None
        if number == 0 or ends_here:
            with files.open(segment.path) as source:
                start = segment.position_of(low, source, limits=limits) if number == 0 else 0
                likely_end = segment.position_of(high, source, limits=limits) + _BEHIND if ends_here else None
        yield (
            segment,
            Slice(
                path=segment.path, start=start, end=segment.size, base_offset=segment.base_offset, start_offset=low,
                end_offset=high, is_last=following is None, next_base=following, likely_end=likely_end, opens_from=low,
            ),
        )  # fmt: skip


def _parts(
    slices: Iterable[tuple[Segment, Slice]], every: int, rows: int, files: HeldFiles
) -> Iterator[tuple[Slice, Slice]]:
    """Cut slices into parts for threads; yield each part with its whole slice. A part has about `every` bytes and at
    most about `rows` rows; a slice that begins with an entry of magic 0 or 1 is one part. Ends when the slices' end
    offset is reached. Only indexes and headers are read, and only when a part is requested. They give the cuts and the
    expected offset at each cut. Faults are left to the readers. Raises `StorageError` if a file cannot be read.
    """
    next_offset = -1
    for segment, whole in slices:
        for span in _spans(segment, whole, every, rows, files):
            start_offset = max(next_offset, whole.start_offset)
            if start_offset >= whole.end_offset:
                return
            is_last = whole.is_last and span.end == whole.end
            expected = None if span.start == whole.start else span.expected
            part = replace(
                whole, start=span.start, end=span.end, start_offset=start_offset, is_last=is_last, expected=expected
            )
            yield part, whole
            next_offset = max(next_offset, span.next_offset)


def _spans(segment: Segment, whole: Slice, every: int, rows: int, files: HeldFiles) -> Iterator[Span]:
    """Yield consecutive spans that cover a slice without gaps. Each has about `every` bytes, or half as many if the
    slice begins with a compressed batch. A span has fewer bytes if the offset index shows that it would have more than
    about `rows` offsets. Yield only one span if the slice begins with an entry of magic 0 or 1. The last span reaches
    the slice's end even if the file is shorter now: the reader reports the missing bytes. Yield nothing for an empty
    slice. Raises `StorageError` while iterating if a file cannot be read.
    """
    last = Span(whole.start, whole.start, segment.base_offset, segment.base_offset, segment.base_offset)
    for span in _spans_of_file(segment, whole, every, rows, files):
        if last.size:
            yield last
        last = span
    if last.start < whole.end:
        yield replace(last, end=whole.end)


def _spans_of_file(segment: Segment, whole: Slice, every: int, rows: int, files: HeldFiles) -> Iterator[Span]:
    with files.open(segment.path) as source:
        size = min(source.size, whole.end) - whole.start
        head = source.read(whole.start, BATCH.size)
        if len(head) > MAGIC_POSITION and head[MAGIC_POSITION] < BATCH_MAGIC:
            # entries of magic 0 and 1 are mostly single messages: finding a cut among them takes longer than reading
            yield Span(whole.start, whole.end, segment.base_offset, segment.base_offset, segment.base_offset)
        elif size > 0:
            if len(head) == BATCH.size and PLAIN.batch_header(head, 0).codec != Codec.NONE:
                every //= _UNPACKED
            step = size // -(-size // every)
            yield from likely_spans(source, segment, whole.start, whole.start + size, step, rows, whole.next_base)


class _End(NamedTuple):
    """Position in the log at which the reader of a slice ended."""

    next_offset: int
    """next wanted offset"""
    expected: int | None
    """offset that should come after it; None if unknown"""
    leader_epoch: int
    """highest leader epoch of the segment so far"""


class _Reading:
    """Reader of slices one after another, each from the offset at which the previous one ended. With `tolerant` it
    continues after damage.
    """

    def __init__(
        self,
        assembler: Callable[[], ArrowAssembler],
        view: ConsumerView,
        files: HeldFiles,
        limits: Limits,
        *,
        tolerant: bool = False,
    ) -> None:
        self._tolerant = tolerant
        self._assembler = assembler
        self._view = view
        self._files = files
        self._limits = limits
        self._idle: list[ArrowAssembler] = []
        self._undivided: Slice | None = None
        """slice that was read to its end as a whole instead of in parts; None if there is none"""

    def _reader(self, part: Slice, assembler: ArrowAssembler) -> SliceReader:
        view = self._view
        return SliceReader(
            part, assembler, aborted=view.aborted, tolerant=self._tolerant, batches=view.batches, limits=self._limits,
            files=self._files,
        )  # fmt: skip

    def _part(
        self, part: Slice, await_turn: Callable[[], None] | None = None, is_large: bool = False
    ) -> Iterator[pa.RecordBatch | Damage | _End]:
        """Yield the Arrow batches and damage of a part. The last item is an `_End` with the next wanted offset, the
        next expected offset and the leader epoch. `await_turn` is a function that waits until this part is next in
        order. It is called at once if `is_large`, and otherwise by the assembler before a large batch. The assembler is
        used again for a later part, unless there is damage. Raises `StorageError` while iterating if a file cannot be
        read.
        """
        if is_large and await_turn is not None:
            await_turn()
        try:
            assembler = self._idle.pop()
        except IndexError:
            assembler = self._assembler()
        assembler.await_turn = await_turn
        reader = self._reader(part, assembler)
        damaged = False
        for piece in reader:
            damaged = damaged or (isinstance(piece, Damage) and not piece.goes_on)
            yield piece
            del piece
        assembler.await_turn = None
        if not damaged:
            self._idle.append(assembler)
        yield _End(reader.next_offset, reader.expected, reader.leader_epoch)

    def one_by_one(self, slices: Iterable[Slice]) -> Iterator[pa.RecordBatch | Damage]:
        assembler, next_offset = self._assembler(), -1
        for part in slices:
            start_offset = max(next_offset, part.start_offset)
            if start_offset >= part.end_offset:
                return
            reader = self._reader(replace(part, start_offset=start_offset), assembler)
            yield from reader
            next_offset = max(next_offset, reader.next_offset)
            self._files.passed(part.path)

    def in_threads(
        self, parts: Iterable[tuple[Slice, Slice]], threads: int, every: int
    ) -> Iterator[pa.RecordBatch | Damage]:
        """Yield the Arrow batches and damage of slices, in the order of the log. `threads` threads read them in parts;
        `parts` has pairs of a part and its whole slice. `every` is the approximate size of a part in bytes. A part of
        more than twice that size contains a large batch; it is read only after all parts before it. A file is closed
        when the next one begins. Raises `StorageError` if a file cannot be read, `UsageError` in a forked child.

        The cuts are guesses. A part is read again if it began with another offset than the previous part ended with. It
        is also read again if it began with a lower leader epoch than an earlier part of its file. If a part has damage,
        it is read again together with the rest of its slice.
        """
        works = (
            ((part, whole), partial(self._in_thread, part, part.size > _LARGE_PART * every)) for part, whole in parts
        )
        next_offset, path, expected, leader_epoch = -1, None, None, NO_PARTITION_LEADER_EPOCH
        with InOrder(works, threads, size_of=_held_bytes, room=_WAITING_BYTES, takes_part=True) as under_way:
            for (part, whole), pieces in under_way:
                start_offset = max(next_offset, self._view.start_offset)
                if start_offset >= part.end_offset:
                    return
                if whole is self._undivided:
                    _pass_over(pieces)
                    continue
                if path is not None and path != part.path:
                    self._files.passed(path)
                if path != part.path:
                    leader_epoch = NO_PARTITION_LEADER_EPOCH
                path = part.path
                is_other = start_offset != part.start_offset or part.expected not in (None, expected)
                if is_other or self._first_epoch(part) < leader_epoch:
                    _pass_over(pieces)
                    part = replace(
                        part, start_offset=start_offset, expected=part.expected and expected, leader_epoch=leader_epoch
                    )
                    pieces = self._part(part)
                for piece in self._undamaged(pieces, part, whole):
                    if isinstance(piece, _End):
                        next_offset, expected = piece.next_offset, piece.expected
                        leader_epoch = max(leader_epoch, piece.leader_epoch)
                    else:
                        yield piece
                    del piece

    def _first_epoch(self, part: Slice) -> int:
        """Return the leader epoch of the first batch of a part; -1 if it has none. Raises `StorageError` if the file
        cannot be read.
        """
        with self._files.open(part.path) as source:
            head = source.read(part.start, BATCH.size)
        if len(head) < BATCH.size or head[MAGIC_POSITION] != BATCH_MAGIC:
            return NO_PARTITION_LEADER_EPOCH
        return PLAIN.batch_header(head, 0).partition_leader_epoch

    def _undamaged(
        self, pieces: Iterable[pa.RecordBatch | Damage | _End], part: Slice, whole: Slice
    ) -> Iterator[pa.RecordBatch | Damage | _End]:
        """Yield the pieces of a part of the slice `whole`. If damage ends a part that is not the last of the slice, the
        slice is recorded as `_undivided`. It is then read again, as one part, from the start of this part. Rows and
        faults that were already yielded are then skipped. They are counted, not compared by offset, because an offset
        may occur twice. Raises `StorageError` while iterating if a file cannot be read.
        """
        damage: Damage | None = None
        rows = faults = 0
        for piece in pieces:
            if isinstance(piece, Damage) and not piece.goes_on and part.end < whole.end:
                damage = piece
            elif not isinstance(piece, _End) or damage is None:
                faults += isinstance(piece, Damage)
                rows += piece.num_rows if isinstance(piece, pa.RecordBatch) else 0
                yield piece
            del piece
        if damage is None:
            return
        self._undivided = whole
        for piece in self._part(replace(part, end=whole.end, is_last=whole.is_last)):
            if isinstance(piece, pa.RecordBatch):
                passed = min(rows, piece.num_rows)
                rows -= passed
                if passed < piece.num_rows:
                    yield piece.slice(passed) if passed else piece
            elif faults and isinstance(piece, Damage):
                faults -= 1
            else:
                yield piece
            del piece

    def _in_thread(
        self, part: Slice, is_large: bool, await_turn: Callable[[], None]
    ) -> Iterator[pa.RecordBatch | Damage | _End]:
        return self._part(part, await_turn=await_turn, is_large=is_large)


def _pass_over(pieces: Iterable[object]) -> None:
    for _ in pieces:
        pass


def _held_bytes(piece: pa.RecordBatch | Damage | _End) -> int:
    """Return the bytes that an item keeps in memory. Slices of one Arrow batch share its memory, and each counts all of
    it. Other items count 0.
    """
    return int(piece.get_total_buffer_size()) if isinstance(piece, pa.RecordBatch) else 0
