"""Sound batches that follow each other in one file, and how many of them another copy has byte for byte.

Replicas hold the same batches, so where two copies agree it is seen from columns of headers, many batches at a time;
where batches come one by one, a stretch is one batch.  Two batches are the same where position in the log, size, leader
epoch and the checksum that fits their bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from kafkalog.codec.insides import Insides, look_inside
from kafkalog.codec.limits import Limits
from kafkalog.codec.model import CONTROL_FLAG, NO_PARTITION_LEADER_EPOCH, BatchHeader, Codec, RecordBatch
from kafkalog.codec.records import decode_batch

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["OneBatch", "Row", "Run", "Stretch"]

_COLUMNS = ("base_offset", "last_offset_delta", "batch_length", "crc", "partition_leader_epoch", "magic")
_FEW = 16
"""Checksums that are searched for one after the other, at most."""


class Row(NamedTuple):
    """What one batch is known by; an entry of magic 0 or 1 has its offset as first and last one."""

    first: int
    last: int
    size: int
    crc: int
    epoch: int
    magic: int


class Stretch(Protocol):
    """Batches of one file with increasing offsets; `behind_damage` if the first of them is the next after damage."""

    path: str
    behind_damage: bool

    def __len__(self) -> int: ...

    def row(self, number: int) -> Row:
        """One of them."""

    def position(self, number: int) -> int:
        """Where it begins in the file."""

    def next_offset(self) -> int:
        """The offset after the last of them."""

    def same(self, start: int, other: Stretch, other_start: int) -> int:
        """How many batches from `start` on are those of another stretch from `other_start` on."""

    def ending_below(self, offset: int) -> int:
        """How many of them end below an offset; they come first."""

    def records(self, start: int, end: int, limits: Limits) -> int:
        """Records of the batches from `start` to before `end`, markers of transactions left out."""

    def insides(self, number: int, limits: Limits) -> Insides:
        """Whether the records of one of them can be read; it is opened for that."""

    def records_below(self, offset: int, limits: Limits) -> int:
        """The records of its batches that lie below an offset; the batch that reaches over it is opened for that."""

    def epoch_runs(self) -> Iterator[tuple[int, int, int, int]]:
        """Batches of one leader epoch in a row: epoch, first offset, offset after the last one, number of batches.

        Those without an epoch are left out.
        """

    def of_one_epoch(self, start: int) -> int:
        """How many batches from `start` on have the leader epoch of the first of them."""

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """First and last offset of what is missing between the batches from `start` to before `end`."""

    def with_checksums(self, wanted: frozenset[int]) -> Iterator[int]:
        """Which of them have one of these checksums."""

    def cleaned_until(self) -> int:
        """The offset after the last batch that compaction took records from; 0 if there is none."""


class OneBatch(Struct):
    """A stretch of one batch."""

    path: str
    batch: RecordBatch
    behind_damage: bool = False

    def __len__(self) -> int:
        return 1

    def row(self, number: int) -> Row:
        """The batch."""
        header = self.batch.header
        first = header.first_offset
        size, epoch = self.batch.size, header.partition_leader_epoch
        return Row(first, header.last_offset, size, header.crc, epoch, header.magic)

    def position(self, number: int) -> int:
        """Where it begins in the file."""
        return self.batch.position

    def next_offset(self) -> int:
        """The offset after it."""
        return self.batch.header.last_offset + 1

    def same(self, start: int, other: Stretch, other_start: int) -> int:
        """1 if it is the same batch, else 0."""
        return int(self.row(start) == other.row(other_start))

    def ending_below(self, offset: int) -> int:
        """1 if it ends below an offset, else 0."""
        return int(self.batch.header.last_offset < offset)

    def records(self, start: int, end: int, limits: Limits) -> int:
        """How many records it has; a compressed entry of magic 0 or 1 is opened to count them."""
        header = self.batch.header
        if start >= end:
            return 0
        if isinstance(header, BatchHeader):
            return 0 if header.is_control else max(header.records_count, 0)
        return 1 if header.codec == Codec.NONE else len(decode_batch(self.batch, limits=limits).records)

    def insides(self, number: int, limits: Limits) -> Insides:
        """Whether its records can be read."""
        return look_inside(self.batch, limits)[0]

    def records_below(self, offset: int, limits: Limits) -> int:
        """How many records lie below an offset."""
        row = self.row(0)
        if row.last < offset or row.first >= offset:
            return self.records(0, self.ending_below(offset), limits)
        return _records_below(self.batch, offset, limits)

    def epoch_runs(self) -> Iterator[tuple[int, int, int, int]]:
        """The batch."""
        row = self.row(0)
        if row.epoch != NO_PARTITION_LEADER_EPOCH:
            yield row.epoch, row.first, row.last + 1, 1

    def of_one_epoch(self, start: int) -> int:
        """One batch has one epoch."""
        return 1 - start

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Nothing is missing inside."""
        return iter(())

    def with_checksums(self, wanted: frozenset[int]) -> Iterator[int]:
        """0 if it has one of these checksums."""
        if self.batch.header.crc in wanted:
            yield 0

    def cleaned_until(self) -> int:
        """The offset after it if it has fewer records than offsets, else 0."""
        header = self.batch.header
        cleaned = isinstance(header, BatchHeader) and 0 <= header.records_count <= header.last_offset_delta
        return header.last_offset + 1 if cleaned else 0


class Run:
    """A stretch of version 2 whose headers are columns."""

    def __init__(self, path: str, run: BatchRun, behind_damage: bool = False) -> None:
        self.path = path
        self.run = run
        self.behind_damage = behind_damage

    def __len__(self) -> int:
        return len(self.run)

    def row(self, number: int) -> Row:
        """One of them."""
        run = self.run
        first, delta, _length, crc, epoch, magic = (int(run[name][number]) for name in _COLUMNS)
        return Row(first, first + delta, int(run.sizes[number]), crc, epoch, magic)

    def position(self, number: int) -> int:
        """Where it begins in the file."""
        return int(self.run.positions[number])

    def next_offset(self) -> int:
        """The offset after the last of them."""
        return self.row(len(self) - 1).last + 1

    def same(self, start: int, other: Stretch, other_start: int) -> int:
        """How many batches from `start` on are those of another stretch from `other_start` on."""
        if not isinstance(other, Run):
            return int(self.row(start) == other.row(other_start))
        count = min(len(self) - start, len(other) - other_start)
        alike = None
        for name in _COLUMNS:
            column = self.run[name][start : start + count] == other.run[name][other_start : other_start + count]
            alike = column if alike is None else alike & column
        return count if alike is None or alike.all() else int(alike.argmin())

    def ending_below(self, offset: int) -> int:
        """How many of them end below an offset."""
        return int((self.run.last_offsets < offset).sum())

    def records(self, start: int, end: int, limits: Limits) -> int:
        """Records of the batches from `start` to before `end`, markers of transactions left out."""
        counts = self.run["records_count"][start:end]
        data = self.run["attributes"][start:end] & CONTROL_FLAG == 0
        return int(counts[data & (counts > 0)].sum())

    def insides(self, number: int, limits: Limits) -> Insides:
        """Whether the records of one of them can be read."""
        return look_inside(self.run.batch(number), limits)[0]

    def records_below(self, offset: int, limits: Limits) -> int:
        """The records of its batches that lie below an offset."""
        whole = self.ending_below(offset)
        count = self.records(0, whole, limits)
        if whole < len(self) and self.row(whole).first < offset:
            count += _records_below(self.run.batch(whole), offset, limits)
        return count

    def epoch_runs(self) -> Iterator[tuple[int, int, int, int]]:
        """Batches of one leader epoch in a row: epoch, first offset, offset after the last one, number of batches."""
        column = self.run["partition_leader_epoch"]
        bounds = [0, *((column[1:] != column[:-1]).nonzero()[0] + 1).tolist(), len(self)]
        for number, end in pairwise(bounds):
            row = self.row(number)
            if row.epoch != NO_PARTITION_LEADER_EPOCH:
                yield row.epoch, row.first, self.row(end - 1).last + 1, end - number

    def of_one_epoch(self, start: int) -> int:
        """How many batches from `start` on have the leader epoch of the first of them."""
        column = self.run["partition_leader_epoch"][start:]
        other = (column != column[0]).nonzero()[0]
        return int(other[0]) if len(other) else len(column)

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """First and last offset of what is missing between the batches from `start` to before `end`."""
        expected, first = self.run.last_offsets[start : end - 1] + 1, self.run["base_offset"][start + 1 : end]
        for number in (expected != first).nonzero()[0].tolist():
            yield int(expected[number]), int(first[number]) - 1

    def with_checksums(self, wanted: frozenset[int]) -> Iterator[int]:
        """Which of them have one of these checksums."""
        column, alike = self.run["crc"], None
        if len(wanted) > _FEW:
            yield from (number for number, crc in enumerate(column.tolist()) if crc in wanted)
            return
        for crc in wanted:
            alike = column == crc if alike is None else alike | (column == crc)
        if alike is not None:
            yield from alike.nonzero()[0].tolist()

    def cleaned_until(self) -> int:
        """The offset after the last batch with fewer records than offsets; 0 if there is none."""
        counts = self.run["records_count"]
        numbers = ((counts >= 0) & (counts <= self.run["last_offset_delta"])).nonzero()[0]
        return int(self.run.last_offsets[numbers[-1]]) + 1 if len(numbers) else 0


def _records_below(batch: RecordBatch, offset: int, limits: Limits) -> int:
    header = batch.header
    if isinstance(header, BatchHeader) and header.is_control:
        return 0
    return sum(record.offset < offset for record in decode_batch(batch, limits=limits).records)
