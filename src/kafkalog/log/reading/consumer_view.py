"""Decide which records of a partition a consumer gets, for all outputs: records, columns, lines or rows of a query. A
consumer reads from the log start offset on and gets no control records. With `read_committed` it also gets no records
of aborted transactions, and nothing from the earliest open transaction on. The rules are those of the consumer's
`CompletedFetch` and the broker's `UnifiedLog`. A `ConsumerView` has the wanted offsets; a `BatchSelection` applies it
to the batches of a scan.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import (
    CONTROL_FLAG,
    NO_END,
    NO_PARTITION_LEADER_EPOCH,
    TRANSACTIONAL_FLAG,
    AbortedTransaction,
    BatchHeader,
    RecordBatch,
)
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
    "hiding",
    "nothing_to_read",
    "wanted_offsets",
]


REPORTED_AND_READ = codes_with(Trait.READ_PAST)
"""Codes of findings about a header that do not end a consumer's reading, but should be reported."""
_READ_ON = codes_with(Trait.READ_PAST | Trait.LISTED)


class ConsumerView(Struct, frozen=True, kw_only=True):
    """Offsets of a partition that a consumer wants, and the transactions and batches that it does not get."""

    start_offset: int
    """lower offsets are not wanted"""
    end_offset: int = NO_END
    """end of the wanted offsets, exclusive"""
    decided_end: int = NO_END
    """with `read_committed`, the offset after the last batch in which transactions were looked for. Later batches were
    appended since, and are not wanted
    """
    aborted: tuple[AbortedTransaction, ...] = ()
    """transactions whose records are not wanted"""
    batches: BatchFilter | None = None
    """batches that it does not accept are not decoded; None: it accepts all"""
    findings: tuple[Finding, ...] = ()
    """findings about markers that cannot be read"""
    undecided: Finding | None = None
    """finding that makes the view end before the requested end, if that is damage; otherwise None"""
    open_transaction: str | None = None
    """sentence about the open transaction that makes the view end before the requested end; None if none does"""

    def committed(
        self,
        aborted: Iterable[AbortedTransaction],
        open_first_offsets: Iterable[int],
        findings: Iterable[Finding] = (),
        undecided: Iterable[Undecided] = (),
    ) -> ConsumerView:
        """Return the view for `read_committed`. It excludes the `aborted` transactions. It ends at the lowest of
        `open_first_offsets`, if that is below its end. The new view has these `findings`. If it ends at the first
        offset of a transaction in `undecided`, its `undecided` is the finding about that transaction, otherwise None.

        The view does not end at the last stable offset. In a damaged log the damage begins there, and a reader must
        reach the damage.
        """
        end = min([self.end_offset, *open_first_offsets])
        why = next(
            (transaction.finding for transaction in undecided if transaction.first_offset == end < self.end_offset),
            None,
        )
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
    """Return the view of a consumer that reads from `start_offset` (None: the log start offset) up to `end_offset`
    (exclusive; None: no bound). A start below the log start offset becomes the log start offset. `batches` excludes
    more batches by their headers.

    For `read_committed` the log is read to find transactions, and the view ends at the first open one. Without
    `through_damage`, this reading ends at the first damage, unless the start is after it: then, and with
    `through_damage`, it continues after damage. With `through_damage`, a transaction whose marker may be in damage is
    excluded like an aborted one, and does not end the view. Raises `UsageError` for an unknown isolation level,
    `StorageError` if files cannot be read.
    """
    check_isolation_level(isolation_level)
    start = max(partition.log_start_offset, start_offset or 0)
    view = ConsumerView(start_offset=start, end_offset=NO_END if end_offset is None else end_offset, batches=batches)
    if isolation_level == READ_UNCOMMITTED:
        return view
    transactions = partition.transactions(through_damage=through_damage, limits=limits)
    if not through_damage and start > transactions.log_end_offset:
        transactions = _behind_damage(partition.transactions(through_damage=True, limits=limits), start)
    view = replace(view, decided_end=transactions.log_end_offset)
    if through_damage:
        held_back = [*transactions.aborted, *transactions.undecided]
        committed = view.committed(held_back, transactions.open_first_offsets.values(), transactions.findings)
        return committed if committed.end_offset == view.end_offset else replace(
            committed, open_transaction=transactions.why_it_ends()
        )  # fmt: skip
    committed = view.committed(
        transactions.aborted, transactions.open_first_offsets.values(), transactions.findings, transactions.undecided
    )
    if committed.end_offset == view.end_offset or committed.undecided is not None:
        return committed
    return replace(committed, open_transaction=transactions.why_it_ends())


def _behind_damage(transactions: Transactions, start: int) -> Transactions:
    """Return a copy of `transactions`, the result of a reading through damage, for a consumer that starts at `start`,
    after the damage. It has only the undecided transactions that end at or above `start`. They are also open in it:
    from their first offset on, or from that of another open transaction of the same producer if that is lower.
    """
    undecided = tuple(transaction for transaction in transactions.undecided if transaction.last_offset >= start)
    first_offsets = dict(transactions.open_first_offsets)
    for transaction in undecided:
        earlier = first_offsets.get(transaction.producer_id, transaction.first_offset)
        first_offsets[transaction.producer_id] = min(earlier, transaction.first_offset)
    return replace(transactions, open_first_offsets=first_offsets, undecided=undecided)


def wanted_offsets(
    partition: ReadablePartition, filter: RecordFilter, passed: list[Finding], limits: Limits
) -> tuple[int | None, int | None]:
    """Return the offset of the first record to read and the offset after the last one. They follow from the filter's
    bounds by offset and timestamp. Each is None if the filter has no such bound. If no record has the start timestamp
    or a later one, the first is `NO_END`. If no record has the end timestamp or a later one, the second is the filter's
    end offset, or `NO_END` if it has none.

    To find a timestamp, the log is read, also after damage. Damage that may hide an earlier record that the filter
    accepts is appended to `passed`. Raises `StorageError` if files cannot be read.
    """
    low, high = filter.start_offset, filter.end_offset
    if filter.start_timestamp is not None:
        findings: list[Finding] = []
        first = partition.offset_for_timestamp(
            filter.start_timestamp, findings=findings, through_damage=True, limits=limits
        )
        passed += [finding for finding in hiding(findings) if finding.offset is None or finding.offset >= (low or 0)]
        low = max(low or 0, NO_END if first is None else first.offset)
    if filter.end_timestamp is not None:  # the reader reports damage before it
        end = partition.offset_for_timestamp(filter.end_timestamp, through_damage=True, limits=limits)
        high = min(NO_END if high is None else high, NO_END if end is None else end.offset)
    return low, high


def hiding(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return an iterator over the findings of a search that show that records could not be read: errors, except faults
    that do not end a consumer's reading.
    """
    return (
        finding
        for finding in findings
        if finding.severity is Severity.ERROR and finding.code not in _READ_ON
    )


def nothing_to_read(partition: ReadablePartition, limits: Limits) -> Finding | None:
    """Return the finding LOG_END_BELOW_LOG_START if the log has bytes and its log start offset is above its log end
    offset; otherwise None. A consumer gets none of its records then. The last segment is read for the end offset if
    necessary. Raises `StorageError` if it cannot be read.
    """
    if not any(segment.size for segment in partition.segments):
        return None
    start = partition.log_start_offset
    if start <= partition.segments[-1].base_offset:
        return None  # the log end offset is at least the base offset of the last segment
    end = partition.log_end_offset(limits=limits)
    if end >= start:
        return None
    detail = f"the log start offset {start} lies above the log end offset {end}: a consumer reads nothing"
    return Finding.of(FindingCode.LOG_END_BELOW_LOG_START, None, end, detail, partition.path)


class BatchSelection:
    """Selection of the batches of a log that a `ConsumerView` wants. All batches must be passed to it in order: one by
    one (`low_of`) or in runs of consecutive batches (`parts`). `next_offset` is the offset after the batches so far,
    `end_offset` the lower of the view's `end_offset` and `decided_end`. A batch that ends below it repeats offsets.
    Such a batch is still decoded, as by the consumer (`CompletedFetch`), for faults inside and for records beyond the
    end that its header claims, unless it ends below `opens_from` (default: the start of the view).
    """

    def __init__(self, view: ConsumerView, *, include_control: bool = False, opens_from: int | None = None) -> None:
        self.next_offset = view.start_offset
        self.end_offset = min(view.end_offset, view.decided_end)
        self._view_end = view.end_offset
        self._control = include_control
        self._opens_from = view.start_offset if opens_from is None else opens_from
        self.held_back: Undecided | None = None
        """undecided transaction because of which the last batch is not wanted; None if there is another reason or it is
        wanted
        """
        self._filter = view.batches
        self._aborted = AbortedFilter(view.aborted) if view.aborted else None

    @property
    def is_over(self) -> bool:
        """Whether no further offset is wanted."""
        return self.next_offset >= self._view_end

    @property
    def takes_windows(self) -> bool:
        """Whether offsets and `flags` alone decide which batches are wanted, so that compiled code can select them."""
        return self._filter is None

    @property
    def flags(self) -> int:
        """Attribute bits of batches that compiled code must leave to `low_of` and `parts`."""
        return CONTROL_FLAG if self._aborted is None else CONTROL_FLAG | TRANSACTIONAL_FLAG

    def low_of(self, batch: RecordBatch) -> int | None:
        """Return the lowest offset that is wanted from this batch on; it is above the batch's last offset if the batch
        only repeats offsets. Return None if the whole batch is excluded:

        * it ends below `opens_from`, or its magic is 2 and it begins at or after `end_offset`
        * it is a control batch, and these are not wanted
        * it belongs to an aborted or undecided transaction
        * the batch filter rejects it

        Advances `next_offset`: not for a batch that ends below `opens_from`, and to the view's end for one that begins
        at or after `end_offset`. Sets `held_back` to the undecided transaction of this batch, or to None.
        """
        header = batch.header
        self.held_back = None
        if header.last_offset < self._opens_from:
            return None
        if isinstance(header, BatchHeader) and header.base_offset >= self.end_offset:
            self.next_offset = self._view_end
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
        """Yield the wanted parts of a run, in order. An item is either a part of the run with an array of the first
        wanted offset of each of its batches, which is valid until the next item is requested; or a single batch, which
        the caller must judge and pass to `low_of`. `cursor` is the scan's state if the batches were not judged yet,
        otherwise None. Advances `next_offset`, and the cursor.
        """
        return cast("Iterator[tuple[Run, npt.NDArray[np.int64]] | RecordBatch]", self._parts(run, cursor))

    def is_in_order(self, cursor: Cursor) -> bool:
        """Whether the next wanted offset is also the scan's next expected offset: then headers of batches in order need
        not be examined one by one.
        """
        return cursor.expected == self.next_offset

    def _parts(
        self, run: AnyRun, cursor: Cursor | None
    ) -> Iterator[tuple[AnyRun, npt.NDArray[np.int64]] | RecordBatch]:
        import numpy as np

        lows = np.empty(len(run), np.int64)
        first = True
        while len(run) and (first or not self.is_over):
            first = False
            highest = NO_END if cursor is None else cursor.highest
            epoch = NO_PARTITION_LEADER_EPOCH if cursor is None else cursor.continuity.leader_epoch
            singly = self._aborted is not None and self._aborted.holds_back_of(run)
            if cursor is not None and (not self.is_in_order(cursor) or (not run.has_producers and cursor.is_at_base)):
                singly = True
            count = 0 if singly else run.consecutive(self.next_offset, highest, self.end_offset, epoch, lows)
            if count == len(run) and cursor is not None and not run.has_producers:
                count -= _is_in_doubt(run.batch(count - 1), cursor)
            if count == 0:
                yield run.batch(0)
                run = run.part(1, len(run))
                continue
            part, run = (run, run.part(0, 0)) if count == len(run) else (run.part(0, count), run.part(count, len(run)))
            self.next_offset = int(part.last_offsets[-1]) + 1
            if cursor is not None:
                cursor.took(self.next_offset, part.final_epoch)
            low = lows[:count]
            if self._aborted is not None and part.has_producers:
                committed = ~self._aborted.rejected(part)
                part, low = part.chosen(np.flatnonzero(committed).tolist()), low[committed]
            if self._filter is not None:
                numbers = self._filter.numbers(part)
                if len(numbers) < len(part):
                    part, low = part.chosen(numbers), low[np.array(numbers, np.intp)]
            if len(part):
                yield part, low


def _is_in_doubt(entry: RecordBatch, cursor: Cursor) -> bool:
    """Whether the entry after this v0 or v1 entry has an offset at or below this one's last offset, so that one of the
    two offsets may be wrong.
    """
    header = entry.header
    following, _ = cursor.behind(header, entry.position + entry.size)
    return following is not None and following <= header.last_offset


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=2)


class Telling:
    """Reporter of faults of headers that do not end a consumer's reading, for callers that pass no list of findings.
    The first fault of each code is reported with `tell`, by default as a warning; INFO findings are ignored.
    """

    def __init__(self, tell: Callable[[str], None] = _warn) -> None:
        self._tell = tell
        self._told: set[FindingCode] = set()

    def __call__(self, finding: Finding) -> None:
        """Report a finding of a reader with `tell`. Does nothing if a finding of the same code was reported, the fault
        ends reading, or the severity is INFO.
        """
        if finding.code in self._told or finding.code not in REPORTED_AND_READ or finding.severity is Severity.INFO:
            return
        self._told.add(finding.code)
        self._tell(f"{finding}; a consumer reads on, and so is the rest given; `kafkalog verify` tells all there is")
