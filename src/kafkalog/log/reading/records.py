"""Read the records of a partition as a consumer gets them (see `consumer_view`), from the files alone. Damage that
stops a consumer stops this reader too, unless the caller lets it continue. Records before the damage are yielded; then
the finding about it is kept, and raised as an error by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalog.codec.common.findings import Finding, FindingCode, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.headers.one_batch import AnyRun
from kafkalog.codec.model import Record, RecordBatch
from kafkalog.codec.native.handed_back import HandedBack
from kafkalog.codec.native.thresholds import kernel_is_worth_it
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.reading.consumer_view import (
    BatchSelection,
    ConsumerView,
    consumer_view,
    nothing_to_read,
    wanted_offsets,
)
from kafkalog.log.reading.readable import ReadablePartition
from kafkalog.log.reading.record_filter import EVERY_RECORD, RecordFilter, conditions_of
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.on_damage import RAISE, SKIP, check_on_damage, raised
from kafkalog.log.walk.segment import Segment

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.columnar.record_objects import RecordObjects
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["RecordReader"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_ONE_BY_ONE_BYTES = 2 * MIB
"""Bytes of a large log that are read without compiled code, whose loading takes longer."""
_LOWEST, _HIGHEST = -(2**64), 2**64
"""Bounds beyond all offsets that headers and deltas can add up to."""
OfBatch = tuple[RecordBatch, Sequence[Record]]
"""A batch, and its wanted records."""


class _ObjectsOfRuns:
    """`RecordObjects`, loaded with the first run."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._made: RecordObjects | None = None

    def __call__(
        self, run: BatchRun, low: npt.NDArray[np.int64], high: int, /
    ) -> Iterator[Iterator[Record] | HandedBack]:
        if self._made is None:
            from kafkalog.codec.columnar.record_objects import RecordObjects

            self._made = RecordObjects(self._limits)
        return self._made.pieces(run, low, high)


class TakeRun(Protocol[T_co]):
    """Function that converts many batches at once."""

    def __call__(self, run: BatchRun, low: npt.NDArray[np.int64], high: int, /) -> Iterator[T_co | HandedBack]:
        """Convert the records of each batch from offset `low` to `high` (exclusive); yield the results, and a
        `HandedBack` for batches that were not converted.
        """


class RecordReader:
    """Iterator over the wanted records of a partition. Afterwards `findings` and `stop` tell whether those were all. If
    damage ends the reading, `FormatError` with the finding is raised after the records before it. With
    `on_damage="stop"` the reader just ends, and with `"skip"` it continues with the next sound batch. `all_records`
    yields everything in the files that the filter accepts: control records, records below the log start offset, aborted
    transactions, repeated offsets, and records after damage. The files are kept open from its creation on, see
    `HeldFiles`.
    """

    def __init__(
        self,
        partition: ReadablePartition,
        filter: RecordFilter = EVERY_RECORD,
        *,
        include_control: bool = False,
        all_records: bool = False,
        on_damage: str = RAISE,
        limits: Limits = DEFAULT_LIMITS,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self._skips = check_on_damage(on_damage) == SKIP and not all_records
        self._raises = on_damage == RAISE and not all_records
        self._partition = partition
        self._limits = limits
        self._control = include_control
        self._all = all_records
        self._passed: list[Finding] = []
        low, high = wanted_offsets(partition, filter, self._passed, limits)
        if all_records:
            self._view = ConsumerView(
                start_offset=_LOWEST if low is None else low, end_offset=_HIGHEST if high is None else high,
                batches=conditions_of(filter),
            )  # fmt: skip
        else:
            self._view = consumer_view(
                partition, low, high, isolation_level=filter.isolation, batches=conditions_of(filter),
                through_damage=self._skips, limits=limits,
            )  # fmt: skip
        self._is_damaged = False
        self._ended_by: Finding | None = None
        self._held_back: list[Finding] = []
        self._batches = BatchReader(
            partition.segments,
            start_offset=low if all_records else self._view.start_offset,
            through_damage=all_records or self._skips,
            limits=limits,
            on_bytes=on_bytes,
        )

    @property
    def findings(self) -> list[Finding]:
        """Faults found so far, with file and position."""
        return self._batches.findings

    @property
    def stop(self) -> StopReason | None:
        """Reason for the end of reading; None before the end, or if `end_offset` ended it."""
        return self._batches.stop

    @property
    def damaged_at(self) -> tuple[Segment, int] | None:
        """Segment and position of the damage that ended the reading; None at the end of a log."""
        return self._batches.damaged_at

    @property
    def ended_by(self) -> Finding | None:
        """Finding about the fault that ended reading early; None if reading did not end early."""
        if self._ended_by is None and self.damaged_at is not None and not self._skips:
            return self.findings[-1]
        return self._ended_by

    @property
    def open_transaction(self) -> str | None:
        """Sentence about the open transaction at which `read_committed` ends early, as on a broker; None if there is
        none.
        """
        return self._view.open_transaction

    def _end_by(self, finding: Finding) -> None:
        self._ended_by = finding
        self.findings.append(finding)

    @property
    def segment(self) -> Segment | None:
        """Segment of the latest record; None before the first."""
        return self._batches.segment

    def __iter__(self) -> Iterator[Record]:
        if self._all or not kernel_is_worth_it(self._batches.size):
            for _batch, records in self.by_batch():
                yield from records
            return
        for item in self._read(_ObjectsOfRuns(self._limits), after=_ONE_BY_ONE_BYTES):
            yield from item[1] if isinstance(item, tuple) else item

    def by_batch(self) -> Iterator[OfBatch]:
        """Yield the wanted records batch by batch, as pairs of a batch and its records. Batches without wanted records
        are left out. Iterating raises `StorageError`, and `FormatError` at damage if the reader raises it.
        """
        for item in self._read(None):
            if isinstance(item, tuple):
                yield item

    def by_run(self, take: TakeRun[T]) -> Iterator[T | OfBatch]:
        """Pass runs of ordinary batches to `take` and yield its results (see `TakeRun`), if there are enough bytes for
        that; yield all other batches as `by_batch` does, in order.
        """
        return self._read(take)

    def _read(self, take: TakeRun[T] | None, *, after: int = 0) -> Iterator[T | OfBatch]:
        self.findings.extend(self._passed)
        if self._all:
            yield from self._everything()
            return
        if self._passed and not self._skips:  # wanted records may lie in that damage
            self._ended_by = self._passed[0]
            if self._raises:
                raise raised(self._ended_by)
            return
        self.findings.extend(self._view.findings)
        selection = BatchSelection(self._view, include_control=self._control)
        self._is_damaged = has_batches = False
        if take is not None and not kernel_is_worth_it(self._batches.size):
            take = None
        runs: Iterable[AnyRun] = self._batches.by_one() if take is None else self._batches.by_run(after=after)
        for run in () if selection.is_over else runs:
            has_batches = True
            columns = run.columns()
            if columns is not None and take is not None:
                yield from self._run(columns, selection, take)
            else:
                yield from self._judged(run.batch(0), selection)
            if selection.is_over or self._is_damaged:
                break
        if not has_batches:
            self._nothing_met()
        if self._view.undecided is not None and not self._is_damaged and self.damaged_at is None:
            self._end_by(self._view.undecided)
        if self._raises and self.ended_by is not None:
            raise raised(self.ended_by)

    def _judged(self, batch: RecordBatch, selection: BatchSelection) -> Iterator[OfBatch]:
        """Yield the batch with its wanted records; nothing if it has none. With `on_damage="skip"`, yield nothing for a
        batch that the scan has already reported as damage. Yield nothing for a batch of an undecided transaction, and
        add the finding about that transaction to `findings` once. A fault inside the batch is handled as in `_one`.
        """
        if self._skips and self._batches.is_passed(batch):
            return
        low = selection.low_of(batch)
        if low is not None:
            yield from self._one(batch, low, selection.end_offset)
        elif selection.held_back is not None and selection.held_back.finding not in self._held_back:
            self._held_back.append(selection.held_back.finding)
            self.findings.append(selection.held_back.finding)

    def _run(self, run: BatchRun, selection: BatchSelection, take: TakeRun[T]) -> Iterator[T | OfBatch]:
        high = selection.end_offset
        for part in selection.parts(run):
            if isinstance(part, RecordBatch):
                yield from self._judged(part, selection)
            else:
                yield from self._part(*part, high, take)
            if self._is_damaged:
                return

    def _part(self, run: BatchRun, lows: npt.NDArray[np.int64], high: int, take: TakeRun[T]) -> Iterator[T | OfBatch]:
        for result in take(run, lows, high):
            if not isinstance(result, HandedBack):
                yield result
                continue
            for number in result:
                yield from self._one(run.batch(number), int(lows[number]), high)
                if self._is_damaged:
                    return

    def _one(self, batch: RecordBatch, low: int, high: int) -> Iterator[OfBatch]:
        """Decode a batch. Yield it with its records from offset `low` to `high` (exclusive), or nothing if there are
        none. Then report a fault inside the batch. With `on_damage="skip"` the finding is added to `findings`.
        Otherwise it is recorded as the end of the scan, and `_is_damaged` is set; the caller then stops, except with
        `all_records`. An unknown compression is reported once: the finding from the header is removed.
        """
        decoded = decode_batch(batch, limits=self._limits)
        records = _between(decoded.records, low, high)
        if records:
            yield batch, records
        if decoded.finding is not None:
            segment = self._batches.segment
            finding = decoded.finding if segment is None else decoded.finding.in_file(segment.path)
            if finding.code is FindingCode.CODEC_UNKNOWN:
                self._forget_header_of(finding)
            if self._skips:
                self.findings.append(finding)
                return
            self._batches.stop_at(finding, batch)
            self._is_damaged = True

    def _forget_header_of(self, finding: Finding) -> None:
        """Remove the earlier finding with the place and code of `finding`, a fault inside the latest batch. Does
        nothing if there is none.
        """
        for number in range(len(self.findings) - 1, -1, -1):
            earlier = self.findings[number]
            if (earlier.file, earlier.position) != (finding.file, finding.position):
                return
            if earlier.code is finding.code:
                del self.findings[number]
                return

    def _everything(self) -> Iterator[OfBatch]:
        view = self._view
        for batch in self._batches:
            if view.batches is None or view.batches.accepts(batch.header):
                yield from self._one(batch, view.start_offset, view.end_offset)

    def _nothing_met(self) -> None:
        """If the log start offset is above the log end offset and so hides all records, end with the finding about
        it.
        """
        finding = nothing_to_read(self._partition, self._limits)
        if finding is not None:
            self._end_by(finding)


def _between(records: tuple[Record, ...], low: int, high: int) -> Sequence[Record]:
    """Return the records with offsets from `low` (inclusive) to `high` (exclusive), in their order in the batch. Each
    offset is compared, because a valid checksum does not guarantee increasing offsets.
    """
    if not records:
        return records
    offsets = [record.offset for record in records]
    if min(offsets) >= low and max(offsets) < high:
        return records
    return [record for record in records if low <= record.offset < high]
