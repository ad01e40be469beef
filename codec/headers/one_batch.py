"""Runs of one batch, in plain Python: for batches with findings, for entries of magic 0 and 1, and for all batches if
there is no compiled code.

`OneBatch` has the members of `BatchRun` that readers need, so that a reader of runs (`AnyRun`) can treat both alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression.specs import is_known_codec
from kafkalog.codec.model import NO_TIMESTAMP, AnyHeader, BatchHeader, RecordBatch, codec_label
from kafkalog.codec.plain.records import first_offset_of
from kafkalog.codec.rules.batches import BatchVerdict

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["AnyRun", "OneBatch"]


class OneBatch(Struct, frozen=True):
    """A run of one batch of any magic, with the verdict about it."""

    single: RecordBatch
    verdict: BatchVerdict = BatchVerdict.KEEP
    findings: Sequence[Finding] = ()
    expected: int | None = None
    """offset that should come here; None if any is accepted"""
    reached: int = 0
    """offset after the highest one before it"""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[RecordBatch]:
        yield self.single

    @property
    def magic(self) -> int:
        """Message format: 0, 1 or 2."""
        return self.single.header.magic

    @property
    def first_offset(self) -> int:
        """First offset in the header; a compressed entry of magic 0 or 1 has the offset of its last message there."""
        return self.single.header.first_offset

    def lowest_offset(self, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the first offset. A compressed entry of magic 0 or 1 is decompressed to find it; if this fails, its
        last offset is returned.
        """
        return first_offset_of(self.single, limits)

    @property
    def final_offset(self) -> int:
        """Last offset."""
        return self.single.header.last_offset

    @property
    def next_offset(self) -> int:
        """Offset after the last one."""
        return self.single.header.next_offset

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.single.size

    @property
    def end(self) -> int:
        """Position in the file after the batch."""
        return self.single.end

    @property
    def are_codecs_known(self) -> bool:
        """Whether consumers know the compression of the batch."""
        return is_known_codec(self.single.header.codec, self.single.magic)

    @property
    def has_markers(self) -> bool:
        """Whether it is a control batch with a producer id, which ends a transaction."""
        return self.single.header.is_control and self.single.header.has_producer_id

    @property
    def has_producer_ids(self) -> bool:
        """Whether it has a producer id."""
        return self.single.header.has_producer_id

    @property
    def largest_epoch(self) -> int:
        """Leader epoch; -1 if there is none."""
        return self.single.header.partition_leader_epoch

    def position(self, number: int) -> int:
        """Return the position of the batch in the file, in bytes."""
        return self.single.position

    def batch(self, number: int) -> RecordBatch:
        """Return the batch."""
        return self.single

    def header(self, number: int) -> AnyHeader:
        """Return the header of the batch."""
        return self.single.header

    def columns(self) -> None:
        """Return None: a single batch has no columns."""

    def codecs_and_times(self) -> tuple[Mapping[str, int], tuple[int, int] | None]:
        """Return the number of batches by name of the codec, and the smallest and largest timestamp in ms since 1970;
        None instead of the timestamps if the header has none.
        """
        header = self.single.header
        first, last = header.first_timestamp, header.max_timestamp
        return {codec_label(header.codec): 1}, None if last < 0 else (last if first == NO_TIMESTAMP else first, last)

    def gaps(self) -> Iterator[tuple[int, int, int]]:
        """Yield nothing: a gap before the batch is one of its `findings`."""
        return iter(())

    def data_records(self) -> int:
        """Return the number of records by the header, 0 for a control batch and for an entry of magic 0 or 1.

        A negative number in the header counts as 0.
        """
        header = self.single.header
        return max(header.records_count, 0) if isinstance(header, BatchHeader) and not header.is_control else 0

    @property
    def final_base(self) -> int:
        """First offset of the batch by its header; for an entry of magic 0 or 1 its offset."""
        return self.single.header.first_offset

    @property
    def is_cleaned(self) -> bool:
        """Whether the batch has fewer records than offsets by its header, as compaction leaves it. False for an entry
        of magic 0 or 1, whose header does not tell.
        """
        header = self.single.header
        return isinstance(header, BatchHeader) and 0 <= header.records_count <= header.last_offset_delta

    def ranges(self, limits: Limits = DEFAULT_LIMITS) -> Iterator[tuple[int, int, bool]]:
        """Yield once the first and last offset, and False: no offsets are missing in between."""
        yield self.lowest_offset(limits), self.final_offset, False

    def reaching(self, offset: int) -> OneBatch | None:
        """Return this run if the batch ends at `offset` or later, else None."""
        return self if self.final_offset >= offset else None

    def split_at_offset(self, offset: int) -> Iterator[OneBatch]:
        """Yield this run."""
        yield self

    def split_after(self, position: int) -> Iterator[OneBatch]:
        """Yield this run."""
        yield self

    def holds(self, offset: int, limits: Limits = DEFAULT_LIMITS) -> bool:
        """Whether `offset` is one of the batch's offsets."""
        return self.lowest_offset(limits) <= offset <= self.final_offset

    def of_transactions(self) -> Iterator[RecordBatch]:
        """Yield the batch."""
        yield self.single

    def transaction_numbers(self, first: int = 0) -> range:
        """Return the number of the batch (0); empty if `first` is above 0. The batch is not examined."""
        return range(first, 1)

    def behind_last_gap(self) -> int:
        """Return 0: there is no gap within one batch."""
        return 0


AnyRun: TypeAlias = "BatchRun | OneBatch"
"""Batches in order: a run in columns, whose batches have no findings, or a single batch."""
