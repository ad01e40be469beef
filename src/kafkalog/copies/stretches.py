"""Compare sequences of sound batches in one file ("stretches") with another copy's, byte for byte.

Replicas hold the same batches. Equal parts of two copies are found by comparing columns of headers, many batches at
once; without columns, a stretch is one batch. Two batches are equal if their offsets, size, leader epoch and verified
checksum are equal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from kafkalog.codec.common.limits import Limits
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH, BatchHeader, Codec, RecordBatch
from kafkalog.codec.native.cells import column_of
from kafkalog.codec.native.functions import equal_batches, new_epochs, with_checksums
from kafkalog.codec.native.tables import RunFacts
from kafkalog.codec.plain.insides import Insides, look_inside
from kafkalog.codec.plain.records import decode_batch

if TYPE_CHECKING:
    from kafkalog.codec.headers.one_batch import AnyRun
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["Row", "Stretch", "stretch_of"]


class Row(Struct, frozen=True):
    """Key of one batch: offsets, size (bytes), checksum, leader epoch and magic. For magic 0 or 1 `first` is the offset
    in its header.
    """

    first: int
    last: int
    size: int
    crc: int
    epoch: int
    magic: int


class Stretch(Protocol):
    """Consecutive batches of one file with increasing offsets, numbered from 0. `behind_damage` is True if the first is
    the next sound batch after damage.
    """

    path: str
    behind_damage: bool

    def __len__(self) -> int: ...

    def columns(self) -> BatchRun | None:
        """Headers as columns; None if there are none."""

    def row(self, number: int) -> Row:
        """Key of batch `number`."""

    def position(self, number: int) -> int:
        """Position of batch `number` in the file, in bytes."""

    def next_offset(self) -> int:
        """Offset after the last batch."""

    def same(self, start: int, other: Stretch, other_start: int) -> int:
        """Number of equal batches from number `start` on here and from `other_start` on in `other`, up to the first
        difference.
        """

    def ending_below(self, offset: int) -> int:
        """Number of batches whose last offset is below `offset`."""

    def records(self, start: int, end: int, limits: Limits) -> int:
        """Number of records in batches `start` to `end` (exclusive), without control records."""

    def insides(self, number: int, limits: Limits) -> Insides:
        """Whether the records of batch `number` can be read, as `Insides`; decompresses the batch."""

    def records_below(self, offset: int, limits: Limits) -> int:
        """Number of records below `offset`, without control records. Decompresses the batch that contains
        the offset.
        """

    def epoch_runs(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield each sequence of batches with one leader epoch: epoch, first offset, offset after the last, number of
        batches. Batches without an epoch are omitted.
        """

    def of_one_epoch(self, start: int) -> int:
        """Number of batches from `start` on that have the leader epoch of batch `start`."""

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield first and last offset of each gap between consecutive batches from `start` to `end` (exclusive)."""

    def with_checksums(self, wanted: frozenset[int]) -> Iterator[int]:
        """Yield the numbers of the batches that have one of these checksums."""

    def cleaned_until(self) -> int:
        """Offset after the last batch that has fewer records than offsets, so was compacted; 0 if there is none."""


class _SingleStretch(Struct):
    """Stretch of one batch."""

    path: str
    batch: RecordBatch
    behind_damage: bool = False

    def __len__(self) -> int:
        return 1

    def columns(self) -> None:
        """Headers as columns: None, there are none."""

    def row(self, number: int) -> Row:
        """Key of batch `number`."""
        header = self.batch.header
        first = header.first_offset
        size, epoch = self.batch.size, header.partition_leader_epoch
        return Row(first, header.last_offset, size, header.crc, epoch, header.magic)

    def position(self, number: int) -> int:
        """Position of batch `number` in the file, in bytes."""
        return self.batch.position

    def next_offset(self) -> int:
        """Offset after the last batch."""
        return self.batch.header.last_offset + 1

    def same(self, start: int, other: Stretch, other_start: int) -> int:
        """1 if the batches are equal, else 0."""
        return int(self.row(start) == other.row(other_start))

    def ending_below(self, offset: int) -> int:
        """1 if the batch ends below `offset`, else 0."""
        return int(self.batch.header.last_offset < offset)

    def records(self, start: int, end: int, limits: Limits) -> int:
        """Return the number of records of this batch if `start` < `end`, else 0. A control batch has 0. For magic 2 the
        count is from the header, 0 if it is negative. A message of magic 0 or 1 has 1; if it is compressed, it is
        decompressed, and its records are counted up to the first fault.
        """
        header = self.batch.header
        if start >= end:
            return 0
        if isinstance(header, BatchHeader):
            return 0 if header.is_control else max(header.records_count, 0)
        return 1 if header.codec == Codec.NONE else len(decode_batch(self.batch, limits=limits).records)

    def insides(self, number: int, limits: Limits) -> Insides:
        """Whether the records of batch `number` can be read; decompresses it."""
        return look_inside(self.batch, limits)[0]

    def records_below(self, offset: int, limits: Limits) -> int:
        """Number of records below `offset`."""
        row = self.row(0)
        if row.last < offset or row.first >= offset:
            return self.records(0, self.ending_below(offset), limits)
        return _records_below(self.batch, offset, limits)

    def epoch_runs(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the batch's epoch, first offset, offset after it, and 1; nothing if it has no epoch."""
        row = self.row(0)
        if row.epoch != NO_PARTITION_LEADER_EPOCH:
            yield row.epoch, row.first, row.last + 1, 1

    def of_one_epoch(self, start: int) -> int:
        """1 if `start` is 0, else 0 or less."""
        return 1 - start

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield nothing: one batch has no neighbors."""
        return iter(())

    def with_checksums(self, wanted: frozenset[int]) -> Iterator[int]:
        """Yield 0 if the batch has one of these checksums."""
        if self.batch.header.crc in wanted:
            yield 0

    def cleaned_until(self) -> int:
        """Offset after the batch if it has fewer records than offsets, else 0."""
        header = self.batch.header
        cleaned = isinstance(header, BatchHeader) and 0 <= header.records_count <= header.last_offset_delta
        return header.last_offset + 1 if cleaned else 0


class _RunStretch:
    """Stretch of batches of magic 2 whose headers are held as columns."""

    def __init__(self, path: str, run: BatchRun, behind_damage: bool = False) -> None:
        self.path = path
        self.run = run
        self.behind_damage = behind_damage

    def __len__(self) -> int:
        return len(self.run)

    def columns(self) -> BatchRun:
        """Headers as columns."""
        return self.run

    def row(self, number: int) -> Row:
        """Key of batch `number`."""
        run = self.run
        header = run.v2_header(number)
        first, last = header.base_offset, header.base_offset + header.last_offset_delta
        return Row(first, last, header.size, header.crc, header.partition_leader_epoch, header.magic)

    def position(self, number: int) -> int:
        """Position of batch `number` in the file, in bytes."""
        return self.run.position(number)

    def next_offset(self) -> int:
        """Offset after the last batch."""
        return self.row(len(self) - 1).last + 1

    def same(self, start: int, other: Stretch, other_start: int) -> int:
        """Return the number of equal batches from number `start` on here and from `other_start` on in the other
        stretch, up to the first difference or the end of either: 0 if the first two differ. If `other` has no columns,
        only the first two batches are compared.
        """
        theirs = other.columns()
        if theirs is None:
            return int(self.row(start) == other.row(other_start))
        return equal_batches(self.run.cells, start, theirs.cells, other_start)

    def ending_below(self, offset: int) -> int:
        """Number of batches whose last offset is below `offset`."""
        return self.run.ending_below(offset)

    def records(self, start: int, end: int, limits: Limits) -> int:
        """Number of records in batches `start` to `end` (exclusive), without control records."""
        return self.run.part(start, end).data_records()

    def insides(self, number: int, limits: Limits) -> Insides:
        """Whether the records of batch `number` can be read; decompresses it."""
        return look_inside(self.run.batch(number), limits)[0]

    def records_below(self, offset: int, limits: Limits) -> int:
        """Return the number of records with offsets below `offset`, without control records. Counts are taken from
        headers. Only a batch that contains the offset is decoded, up to its first fault.
        """
        whole = self.ending_below(offset)
        count = self.records(0, whole, limits)
        if whole < len(self) and self.row(whole).first < offset:
            count += _records_below(self.run.batch(whole), offset, limits)
        return count

    def epoch_runs(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield a tuple for each sequence of consecutive batches with one leader epoch, in order: epoch, first offset,
        offset after the last one, number of batches. Batches without an epoch are omitted.
        """
        bounds = [0, *self._epoch_changes, len(self)]
        for number, end in pairwise(bounds):
            row = self.row(number)
            if row.epoch != NO_PARTITION_LEADER_EPOCH:
                yield row.epoch, row.first, self.row(end - 1).last + 1, end - number

    def of_one_epoch(self, start: int) -> int:
        """Number of batches from `start` on that have the leader epoch of batch `start`."""
        change = bisect_right(self._epoch_changes, start)
        return (self._epoch_changes[change] if change < len(self._epoch_changes) else len(self)) - start

    @cached_property
    def _epoch_changes(self) -> list[int]:
        """Numbers of the batches with another leader epoch than the batch before them, ascending."""
        return new_epochs(self.run.cells)

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield first and last offset of each gap between consecutive batches from `start` to `end` (exclusive)."""
        for last_before, first, _position in self.run.part(start, end).gaps():
            yield last_before + 1, first - 1

    def with_checksums(self, wanted: frozenset[int]) -> Iterator[int]:
        """Yield the numbers of the batches whose CRC is one of `wanted`, in ascending order."""
        yield from with_checksums(self.run.cells, column_of(sorted(wanted)))

    def cleaned_until(self) -> int:
        """Offset after the last batch with fewer records than offsets; 0 if there is none."""
        number = self.run.fact(RunFacts.LAST_CLEANED)
        return 0 if number < 0 else self.run.last_offset(number) + 1


def stretch_of(path: str, run: AnyRun) -> Stretch:
    """Return a run of the file at `path` as a stretch."""
    columns = run.columns()
    return _SingleStretch(path, run.batch(0)) if columns is None else _RunStretch(path, columns)


def _records_below(batch: RecordBatch, offset: int, limits: Limits) -> int:
    header = batch.header
    if isinstance(header, BatchHeader) and header.is_control:
        return 0
    return sum(record.offset < offset for record in decode_batch(batch, limits=limits).records)
