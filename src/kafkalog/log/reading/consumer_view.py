"""What a consumer is given of a partition, whatever is made of it: records, columns, lines or rows of a query.

From the log start offset on, control records left out; with `read_committed` also without aborted transactions, and
nothing from the earliest open transaction on.  Decided by the consumer's `CompletedFetch` and the broker's
`UnifiedLog`.  A `ConsumerView` says what is wanted, a `BatchSelection` tells it for the batches of a walk.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.finding_codes import Trait, codes_with
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import (
    CONTROL_FLAG,
    NO_END,
    TRANSACTIONAL_FLAG,
    AbortedTransaction,
    BatchHeader,
    RecordBatch,
)
from kafkalog.codec.native.functions import consecutive_batches, consecutive_messages
from kafkalog.log.reading.readable import (
    ISOLATION_LEVELS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ReadablePartition,
    Reset,
    check_isolation_level,
)
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.log.reading.transactions import AbortedFilter, Transactions, Undecided
from kafkalog.log.walk.batch_filter import BatchFilter
from kafkalog.log.walk.cursor import Cursor

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.headers.message_runs import MessageRun
    from kafkalog.codec.headers.runs import BatchRun

    AnyRun = BatchRun | MessageRun

Run = TypeVar("Run", bound="BatchRun | MessageRun")

__all__ = [
    "ISOLATION_LEVELS",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "REPORTED_AND_READ",
    "BatchSelection",
    "ConsumerView",
    "Reset",
    "Telling",
    "check_isolation_level",
    "consumer_view",
    "nothing_to_read",
    "wanted_offsets",
]


REPORTED_AND_READ = codes_with(Trait.READ_PAST)
"""What may be wrong with a header without ending a consumer's reading, and is worth telling."""


class ConsumerView(Struct, frozen=True, kw_only=True):
    """Which offsets of a partition are wanted, and which batches that hold them are not."""

    start_offset: int
    """records below are not wanted"""
    end_offset: int = NO_END
    """records from here on are not wanted"""
    aborted: tuple[AbortedTransaction, ...] = ()
    """whose records are not wanted"""
    batches: BatchFilter | None = None
    """what it does not accept is not opened"""
    findings: tuple[Finding, ...] = ()
    """markers that cannot be read"""
    undecided: Finding | None = None
    """why it ends before what was asked for, where that is because of damage"""
    open_transaction: str | None = None
    """the same, where a transaction is open"""

    def committed(
        self,
        aborted: Iterable[AbortedTransaction],
        open_first_offsets: Iterable[int],
        findings: Iterable[Finding] = (),
        undecided: Iterable[Undecided] = (),
    ) -> ConsumerView:
        """The view for `read_committed`, given the aborted transactions and where those begin that are undecided.

        It does not end at the last stable offset, which is at damage where there is some: reading has to meet that.
        """
        end = min([self.end_offset, *open_first_offsets])
        why = next((each.finding for each in undecided if each.first_offset == end < self.end_offset), None)
        return replace(self, end_offset=end, aborted=tuple(aborted), findings=tuple(findings), undecided=why)


def consumer_view(
    partition: ReadablePartition,
    start_offset: int | None = None,
    end_offset: int | None = None,
    *,
    isolation_level: str = READ_UNCOMMITTED,
    batches: BatchFilter | None = None,
    through_damage: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> ConsumerView:
    """What a consumer is given between two offsets; for `read_committed` the whole log is walked over.

    With `through_damage` that walk goes on behind damage; a transaction whose end may lie in it is then held back as an
    aborted one, and does not end the view.  Without, it ends at the first damage that is not before the start.

    Raises `UsageError` for an unknown isolation level, `StorageError` where files cannot be read.
    """
    check_isolation_level(isolation_level)
    start = max(partition.log_start_offset, start_offset or 0)
    view = ConsumerView(start_offset=start, end_offset=NO_END if end_offset is None else end_offset, batches=batches)
    if isolation_level == READ_UNCOMMITTED:
        return view
    found = partition.transactions(through_damage=through_damage, limits=limits)
    if through_damage:
        held_back = [*found.aborted, *found.undecided]
        committed = view.committed(held_back, found.open_first_offsets.values(), found.findings)
        return committed if committed.end_offset == view.end_offset else replace(
            committed, open_transaction=found.why_it_ends()
        )  # fmt: skip
    if start > found.log_end_offset:
        found = _behind_damage(partition.transactions(through_damage=True, limits=limits), start)
    committed = view.committed(found.aborted, found.open_first_offsets.values(), found.findings, found.undecided)
    if committed.end_offset == view.end_offset or committed.undecided is not None:
        return committed
    return replace(committed, open_transaction=found.why_it_ends())


def _behind_damage(found: Transactions, start: int) -> Transactions:
    """For reading from an offset behind damage: undecided are those alone of which something may lie there."""
    undecided = tuple(each for each in found.undecided if each.last_offset >= start)
    first_offsets = dict(found.open_first_offsets)
    for each in undecided:
        earlier = first_offsets.get(each.producer_id, each.first_offset)
        first_offsets[each.producer_id] = min(earlier, each.first_offset)
    return replace(found, open_first_offsets=first_offsets, undecided=undecided)


def wanted_offsets(
    partition: ReadablePartition, filter: RecordFilter, passed: list[Finding], limits: Limits
) -> tuple[int | None, int | None]:
    """First offset and offset after the last one that a filter asks for; None if it sets no bound.

    `passed` gets the damage before the first offset in which an earlier record may lie that is wanted by its time.
    """
    low, high = filter.start_offset, filter.end_offset
    if filter.start_timestamp is not None:
        findings: list[Finding] = []
        first = partition.offset_for_timestamp(
            filter.start_timestamp, findings=findings, through_damage=True, limits=limits
        )
        passed += [
            each for each in findings
            if each.severity is Severity.ERROR and each.code not in REPORTED_AND_READ
            and (each.offset is None or each.offset >= (low or 0))
        ]  # fmt: skip
        low = max(low or 0, NO_END if first is None else first.offset)
    if filter.end_timestamp is not None:  # damage before it is met by who reads
        end = partition.offset_for_timestamp(filter.end_timestamp, through_damage=True, limits=limits)
        high = min(NO_END if high is None else high, NO_END if end is None else end.offset)
    return low, high


def nothing_to_read(partition: ReadablePartition, limits: Limits) -> Finding | None:
    """Why a consumer reads nothing of a log that is not empty: its log start offset is beyond its end; else None."""
    if not any(segment.size for segment in partition.segments):
        return None
    start = partition.log_start_offset
    if start <= partition.segments[-1].base_offset:
        return None  # the end is at or behind it, whatever the last segment holds
    end = partition.log_end_offset(limits=limits)
    if end >= start:
        return None
    detail = f"the log start offset {start} lies above the log end offset {end}: a consumer reads nothing"
    return Finding.of(FindingCode.LOG_END_BELOW_LOG_START, None, end, detail, partition.path)


class BatchSelection:
    """Asked about the batches of a log in their order, one by one (`low_of`), in runs (`parts`) or both in turn.

    `next_offset` is the one after what was asked about.  A batch that ends below repeats what was there: it is opened
    for what is wrong inside, and for records beyond the end that its header claims, as the consumer does
    (`CompletedFetch`), unless it ends below `opens_from`, by default the start of the view.
    """

    def __init__(self, view: ConsumerView, *, include_control: bool = False, opens_from: int | None = None) -> None:
        self.next_offset = view.start_offset
        self.end_offset = view.end_offset
        self._control = include_control
        self._opens_from = view.start_offset if opens_from is None else opens_from
        self.held_back: Undecided | None = None
        """why nothing is wanted of the batch that was asked about last, if nobody can tell whether it is"""
        self._filter = view.batches
        self._aborted = AbortedFilter(view.aborted) if view.aborted else None

    @property
    def is_over(self) -> bool:
        """Nothing is wanted any more."""
        return self.next_offset >= self.end_offset

    @property
    def takes_windows(self) -> bool:
        """Whether only offsets and `flags` decide, so that a kernel may go from batch to batch by itself."""
        return self._filter is None

    @property
    def flags(self) -> int:
        """Bits of the attributes of batches that a kernel must leave to `low_of` and `parts`."""
        return CONTROL_FLAG if self._aborted is None else CONTROL_FLAG | TRANSACTIONAL_FLAG

    def low_of(self, batch: RecordBatch) -> int | None:
        """The first offset that is wanted of the next batch; None if nothing of it is."""
        header = batch.header
        self.held_back = None
        if header.last_offset < self._opens_from:
            return None
        if isinstance(header, BatchHeader) and header.base_offset >= self.end_offset:
            self.next_offset = self.end_offset
            return None
        low, self.next_offset = self.next_offset, max(self.next_offset, header.next_offset)
        if header.is_control and not self._control:
            return None
        if self._aborted is not None and self._aborted.rejects(batch):
            self.held_back = self._aborted.undecided(batch)
            return None
        return low if self._filter is None or self._filter.accepts(header) else None

    def parts(
        self, run: Run, cursor: Cursor | None = None
    ) -> Iterator[tuple[Run, npt.NDArray[np.int64]] | RecordBatch]:
        """What is wanted of the next batches, of the segment that a cursor is in if they are still to be judged.

        In order: parts of the run, with the first wanted offset of each of their batches, valid until the next part is
        asked for; and batches that are not ordinary, each still to be judged and asked about.
        """
        return cast("Iterator[tuple[Run, npt.NDArray[np.int64]] | RecordBatch]", self._parts(run, cursor))

    def is_in_order(self, cursor: Cursor) -> bool:
        """What is wanted next is what should come next, so that headers beyond doubt need no look at each."""
        return cursor.expected == self.next_offset

    def _parts(
        self, run: AnyRun, cursor: Cursor | None
    ) -> Iterator[tuple[AnyRun, npt.NDArray[np.int64]] | RecordBatch]:
        import numpy as np

        from kafkalog.codec.headers.runs import BatchRun

        lows = np.empty(len(run), np.int64)
        first = True
        while len(run) and (first or not self.is_over):
            first = False
            highest = NO_END if cursor is None else cursor.highest
            singly = self._aborted is not None and isinstance(run, BatchRun) and self._aborted.holds_back_of(run)
            if cursor is not None and not self.is_in_order(cursor):
                singly = True
            count = 0 if singly else self._consecutive(run, highest, lows)
            if count == len(run) and cursor is not None and not isinstance(run, BatchRun):
                count -= _is_in_doubt(run.batch(count - 1), cursor)
            if count == 0:
                yield run.batch(0)
                run = run.part(1, len(run))
                continue
            part, run = (run, run.part(0, 0)) if count == len(run) else (run.part(0, count), run.part(count, len(run)))
            self.next_offset = int(part.last_offsets[-1]) + 1
            if cursor is not None:
                cursor.took(self.next_offset)
            low = lows[:count]
            if self._aborted is not None and isinstance(part, BatchRun):
                committed = ~self._aborted.rejected(part)
                part, low = part.where(committed), low[committed]
            if self._filter is not None:
                chosen = self._filter.chosen(part)
                part, low = part.where(chosen), low[chosen]
            if len(part):
                yield part, low

    def _consecutive(self, run: AnyRun, highest: int, lows: Any) -> int:
        """How many batches from the first on need no look at each, and what is wanted of them."""
        from kafkalog.codec.headers.runs import BatchRun

        if isinstance(run, BatchRun):
            return int(consecutive_batches(run.table, self.next_offset, highest, self.end_offset, CONTROL_FLAG, lows))
        return int(consecutive_messages(run.table, self.next_offset, highest, self.end_offset, lows))


def _is_in_doubt(entry: RecordBatch, cursor: Cursor) -> bool:
    """Whether the entry behind one of magic 0 or 1 lies below its end, so that its offset may be wrong."""
    header = entry.header
    following, _ = cursor.behind(header, entry.position + entry.size)
    return following is not None and following <= header.last_offset


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=2)


class Telling:
    """Tells of what is wrong with a header, where it ends no consumer's reading and nobody takes findings.

    Of each kind the first, by a warning unless otherwise told; of what is information, nothing.
    """

    def __init__(self, tell: Callable[[str], None] = _warn) -> None:
        self._tell = tell
        self._told: set[FindingCode] = set()

    def __call__(self, finding: Finding) -> None:
        """Tell of another finding of a reader."""
        if finding.code in self._told or finding.code not in REPORTED_AND_READ or finding.severity is Severity.INFO:
            return
        self._told.add(finding.code)
        self._tell(f"{finding}; a consumer reads on, and so is the rest given; `kafkalog verify` tells all there is")
