"""Find the aborted and the open transactions of a log from its batches. They follow from data batches and markers, as
in `ProducerStateManager`: a producer's first transactional batch opens a transaction, and its next COMMIT or ABORT
marker ends it. A `.txnindex` lists the same, but may be missing, old or foreign; the log decides. A batch that
compaction emptied opens its transaction like any other: the cleaner keeps the marker as long as such a batch
(`CleanedTransactionMetadata.onControlBatchRead`).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION, ABORTED_TRANSACTION_VERSION, each_slot
from kafkalog.codec.model import (
    BATCH,
    CONTROL_FLAG,
    NO_END,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    AbortedTransaction,
    AnyHeader,
    BatchHeader,
    ControlType,
    RecordBatch,
)
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.control import end_transaction_marker
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.producers.state import Marker
from kafkalog.log.walk.segment import Segment

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.headers.message_runs import MessageRun
    from kafkalog.codec.headers.one_batch import AnyRun
    from kafkalog.codec.headers.runs import BatchRun
    from kafkalog.log.walk.batches import BatchReader, Passed

__all__ = [
    "AbortedFilter", "KnownTransactions", "StaysOpen", "TransactionTracker", "Transactions", "Undecided", "marker_of",
    "why_it_ends",
]  # fmt: skip

_PATIENCE_NS = 60_000_000_000
"""Time after which a coordinator ends a transaction, in ns (`transaction.timeout.ms`)."""


def marker_of(batch: RecordBatch, limits: Limits = DEFAULT_LIMITS, *, whole: bool = False) -> Marker | None:
    """Return the COMMIT or ABORT marker in the first record of a control batch, with its timestamp in ms. None if that
    record has another control type, or the batch has no records. Raises `FormatError` if the record or its marker
    cannot be decoded; with `whole=True` also if anything after it in the batch cannot be decoded.
    """
    decoded = decode_batch(batch, limits=limits)
    if decoded.finding is not None and (whole or not decoded.records):
        raise FormatError(decoded.finding.detail, position=batch.position, code=decoded.finding.code)
    marker = end_transaction_marker(decoded.records[0]) if decoded.records else None
    return None if marker is None else Marker(marker, decoded.records[0].timestamp)


class Undecided(AbortedTransaction, frozen=True, kw_only=True):
    """A transaction whose end marker may be in damage. Its records up to `last_offset` are excluded like those of an
    aborted transaction, and it is reported. A transaction that is merely open is not reported: a broker withholds its
    records too.
    """

    finding: Finding

    def holds(self, header: AnyHeader) -> bool:
        """Whether a batch of the transaction's producer belongs to the transaction, by its last offset."""
        return self.first_offset <= header.last_offset <= self.last_offset


class Transactions(Struct, frozen=True, kw_only=True):
    """Aborted and open transactions of a log after a complete scan. `aborted` is in the order of the markers, as in the
    `.txnindex` files.
    """

    aborted: tuple[AbortedTransaction, ...]
    open_first_offsets: dict[int, int]
    """first offset of the transaction without a marker, by producer id"""
    log_end_offset: int
    findings: tuple[Finding, ...] = ()
    """findings about markers that cannot be read"""
    undecided: tuple[Undecided, ...] = ()
    """transactions whose marker may be in damage"""
    log_start_offset: int = 0

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction, but at least the log start offset; the log end offset if none
        is open.
        """
        return max(min(self.open_first_offsets.values(), default=self.log_end_offset), self.log_start_offset)

    def why_it_ends(self) -> str | None:
        """Return a sentence for readers of committed data about the earliest open transaction, at which they stop; None
        if none is open.
        """
        return why_it_ends(self.open_first_offsets, self.log_end_offset, self.log_start_offset)


def why_it_ends(open_first_offsets: Mapping[int, int], log_end_offset: int, log_start_offset: int = 0) -> str | None:
    """Return a sentence for the user about the earliest open transaction, at which reading with `read_committed` ends;
    None if none is open. `open_first_offsets` has first offsets by producer id. For a transaction that began below the
    log start offset, the sentence says that nothing is read.
    """
    if not open_first_offsets:
        return None
    producer_id, first = min(open_first_offsets.items(), key=lambda pair: pair[1])
    if first < log_start_offset:
        return (
            f"read_committed ends at offset {log_start_offset}, the log's start: a transaction of producer "
            f"{producer_id} is open since offset {first} before it; of the offsets up to {log_end_offset - 1} nothing "
            "is read, records of other producers included"
        )
    return (
        f"read_committed ends at offset {first}, where a transaction of producer {producer_id} is open; of the "
        f"offsets from there up to {log_end_offset - 1} nothing is read, records of other producers included"
    )


class StaysOpen:
    """Reporter of open transactions to repeated readers of committed data, each only once. While a log is written,
    transactions open and end. So a patient reader is told of an open transaction only if nobody has written to the log
    for 60 seconds: by then a coordinator should have ended it.
    """

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def news(
        self, name: str, segments: Iterable[Segment], first_offset: int, why: str | None, *, patient: bool = True
    ) -> str | None:
        """Return the sentence `name: why` if it should be reported now; otherwise None. `why` explains why the
        committed data of the log called `name` ends at `first_offset`; None if it does not end early. A first offset is
        not reported again until the log has had another one. With `patient`, nothing is reported while one of the log's
        files was modified within the last 60 seconds.
        """
        if why is None or self._told.get(name) == first_offset:
            return None
        written = max((segment.modified_ns for segment in segments), default=0)
        if patient and written > time.time_ns() - _PATIENCE_NS:
            return None
        self._told[name] = first_offset
        return f"{name}: {why}"


class KnownTransactions(Struct, frozen=True):
    """State of the transactions of a log at `offset`, from files beside the log; below it end markers are lost, see
    `known_ends`.
    """

    offset: int
    aborted: tuple[AbortedTransaction, ...]
    """in the order of their markers"""
    opened: dict[int, int]
    """first offset by producer id"""


class TransactionTracker:
    """State of the transactions of a partition while its batches are passed in order. Memory grows only with open and
    aborted transactions.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._open: dict[int, int] = {}
        self._earliest: list[tuple[int, int]] = []
        self._reached = 0
        self._known: KnownTransactions | None = None
        self.aborted: list[AbortedTransaction] = []
        self.undecided: list[Undecided] = []
        self.findings: list[Finding] = []

    def begin(self, opened: Mapping[int, int], known: KnownTransactions | None = None) -> None:
        """Add transactions that were open before the first batch, as first offsets by producer id. When the offset of
        `known` is reached, its state replaces the state that follows from the batches below.
        """
        self._known = known
        self._set_open({**self._open, **opened})

    def _set_open(self, opened: Mapping[int, int]) -> None:
        self._open = dict(opened)
        self._earliest = [(first, producer_id) for producer_id, first in opened.items()]
        heapq.heapify(self._earliest)

    def _load(self, known: KnownTransactions) -> None:
        self._known = None
        self.aborted = list(known.aborted)
        self._set_open(known.opened)

    def follow(self, reader: BatchReader, *, end: int = NO_END) -> Iterator[AnyRun]:
        """Yield every run of the reader after the state was updated from it. Batches that begin at offset `end` or
        later do not change the state. All damage that the reader skips is passed to `damaged`; a damaged batch is
        yielded too, but counts only as damage. The reader's errors are passed on: `StorageError`, and `FormatError` if
        the reader raises damage.
        """
        passed = 0
        for run in reader.by_run():
            segment = reader.segment
            for damage in reader.passed[passed:]:
                self.damaged(damage)
            is_damage = len(reader.passed) > passed and (
                reader.passed[-1].position, reader.passed[-1].segment
            ) == (run.position(0), segment)  # fmt: skip
            passed = len(reader.passed)
            if not is_damage:
                self.take(run, segment, end=end)
            yield run
        for damage in reader.passed[passed:]:
            self.damaged(damage)

    def take(self, run: AnyRun, segment: Segment | None = None, *, end: int = NO_END) -> None:
        """Update the state from a run of batches. Batches that begin at `end` or later are ignored, and so are batches
        that end below an offset already reached, because they repeat offsets. `segment` is the file in findings about
        unreadable markers.

        If `begin` was called with a known state, this state replaces the one derived so far when its offset is reached.
        """
        for part in (run,) if self._known is None else run.split_at_offset(self._known.offset):
            for batch in part.of_transactions():
                if self._reached <= batch.last_offset and batch.header.first_offset < end:
                    self.feed(batch, segment)
            self._reached = max(self._reached, min(part.next_offset, end))
            if self._known is not None and self._reached >= self._known.offset:
                self._load(self._known)

    def damaged(self, passed: Passed) -> None:
        """End every open transaction, because its marker may be in this damage. If the damaged bytes have the header of
        its marker, and the segment's transaction index lists it, the transaction becomes aborted. Otherwise it becomes
        undecided, with its records up to the end of the damage.
        """
        claimed = None
        if len(passed.head) == BATCH.size:
            header = BatchHeader(*BATCH.struct.unpack(passed.head))
            claimed = header.producer_id, header.base_offset
        for producer_id in [*self._open]:
            self._ends_unread(producer_id, passed.next_offset - 1, passed.finding, passed.segment, claimed)

    def _ends_unread(
        self, producer_id: int, last: int, finding: Finding, segment: Segment | None, claimed: tuple[int, int] | None
    ) -> None:
        """End the open transaction of a producer, because its marker may be in damage; do nothing if there is none.
        `claimed` are producer id and base offset in the header of the damaged batch, None if there is no whole header.

        The transaction becomes aborted if `claimed` has this producer and the `.txnindex` lists the transaction. The
        entry must have its first offset, and a marker at the claimed offset. Otherwise the transaction is added to
        `undecided` with its records up to offset `last` (inclusive). A missing entry does not prove a commit, because
        the index may be missing or older.
        """
        first = self._open.pop(producer_id, None)
        if first is None:
            return
        if claimed is not None and claimed[0] == producer_id and _is_listed(segment, producer_id, first, claimed[1]):
            self._abort(producer_id, first, claimed[1])
            return
        what = f"the transaction of producer {producer_id} from offset {first} on"
        undecided = Finding.of(
            FindingCode.TRANSACTION_UNDECIDED, finding.position, first,
            f"whether {what} was committed cannot be told: {finding.detail}", finding.file,
        )  # fmt: skip
        self.undecided.append(
            Undecided(
                version=ABORTED_TRANSACTION_VERSION,
                producer_id=producer_id,
                first_offset=first,
                last_offset=last,
                last_stable_offset=first,
                finding=undecided,
            )
        )

    def _abort(self, producer_id: int, first: int, last: int) -> None:
        stable = self._earliest_open(last + 1)
        self.aborted.append(AbortedTransaction(ABORTED_TRANSACTION_VERSION, producer_id, first, last, stable))

    @property
    def open_first_offsets(self) -> dict[int, int]:
        """First offset of the open transaction, by producer id."""
        return dict(self._open)

    def feed(self, batch: RecordBatch, segment: Segment | None = None) -> None:
        """Update the state from one batch: a transactional data batch opens its producer's transaction, a COMMIT or
        ABORT marker ends it, and ABORT adds it to `aborted`. Batches without a producer id or of magic 0 or 1 change
        nothing. A marker that cannot be read adds a finding to `findings`, which names the file of `segment`. It ends
        the producer's open transaction, if there is one, as undecided, or as aborted if the transaction index lists it.
        """
        header = batch.header
        if not isinstance(header, BatchHeader) or not header.has_producer_id:
            return
        if not header.is_control:
            if header.is_transactional and header.producer_id not in self._open:
                self._open[header.producer_id] = header.base_offset
                heapq.heappush(self._earliest, (header.base_offset, header.producer_id))
            return
        try:
            marker = marker_of(batch, self._limits)
        except FormatError as error:
            detail = f"a transaction marker cannot be read: {error.message}"
            code = FindingCode.CONTROL_RECORD_INVALID
            file = None if segment is None else segment.path
            finding = Finding(code, Severity.ERROR, batch.position, header.base_offset, detail, file)
            self.findings.append(finding)
            claimed = header.producer_id, header.base_offset
            self._ends_unread(header.producer_id, header.base_offset - 1, finding, segment, claimed)
            return
        first = None if marker is None else self._open.pop(header.producer_id, None)
        if first is not None and marker is not None and marker.marker.type is ControlType.ABORT:
            self._abort(header.producer_id, first, header.base_offset)

    def _earliest_open(self, default: int) -> int:
        while self._earliest:
            first, producer_id = self._earliest[0]
            if self._open.get(producer_id) == first:
                return first
            heapq.heappop(self._earliest)
        return default


def _is_listed(segment: Segment | None, producer_id: int, first: int, marker: int) -> bool:
    """Whether the transaction index of a segment has an entry with this producer id, first offset and marker offset.
    False if the segment or its index is missing, or the index cannot be read.
    """
    path = None if segment is None else segment.files.get(FileKind.TRANSACTION_INDEX)
    if path is None:
        return False
    try:
        with FileSource(path) as source:
            return any(
                fields[:4] == (ABORTED_TRANSACTION_VERSION, producer_id, first, marker)
                for _, fields in each_slot(source, ABORTED_TRANSACTION)
            )
    except (FileNotFoundError, StorageError):
        return False


class AbortedFilter:
    """Filter of the batches of aborted transactions (`CompletedFetch` of the consumer). All batches must be passed to
    it in order: batch by batch to `rejects`, or a run of consecutive batches to `rejected`.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._all = sorted((txn.first_offset, txn.last_offset, txn.producer_id) for txn in aborted)
        self._waiting = self._all[::-1]
        self._undecided = [txn for txn in aborted if isinstance(txn, Undecided)]
        self._aborting: dict[int, int] = {}

    @cached_property
    def _columns(self) -> _AbortedColumns:
        return _AbortedColumns(self._all)

    def rejected(self, run: BatchRun | MessageRun) -> npt.NDArray[np.bool_]:
        """Return a boolean mask with one element for each batch of the run. It is True if `rejects` would return True
        for the batch. The offsets of the run must increase and be above all earlier ones. Advances the filter to the
        end of the run.
        """
        mask, behind = self._columns.rejected(run)
        ids = run["producer_id"]
        highest = int(run.last_offsets[ids > NO_PRODUCER_ID].max(initial=-1))
        while self._waiting and self._waiting[-1][0] <= highest:
            _, last, producer_id = self._waiting.pop()
            self._aborting[producer_id] = last
        for producer_id, last in behind:
            if self._aborting.get(producer_id) == last:
                del self._aborting[producer_id]
        return mask

    def undecided(self, batch: RecordBatch) -> Undecided | None:
        """Return the undecided transaction to which a rejected batch belongs; None if it belongs to an aborted one."""
        header = batch.header
        return next(
            (
                transaction
                for transaction in self._undecided
                if transaction.producer_id == header.producer_id and transaction.holds(header)
            ),
            None,
        )

    def holds_back_of(self, run: BatchRun | MessageRun) -> bool:
        """Whether a batch of a run may belong to an undecided transaction. If so, the batches must be examined one by
        one.
        """
        if not self._undecided or not run.has_producers:
            return False
        first, last = int(run["base_offset"].min()), int(run.last_offsets.max())  # they may not be judged yet
        return any(undecided.first_offset <= last and undecided.last_offset >= first for undecided in self._undecided)

    def rejects(self, batch: RecordBatch) -> bool:
        """Return whether a batch is a transactional data batch of an aborted transaction; a consumer with
        `read_committed` skips it. Control batches and batches without a producer id are never rejected. Advances the
        filter to this batch. A transaction ends with the first batch of its producer after the transaction's last
        offset.
        """
        header = batch.header
        if not header.has_producer_id:
            return False
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            _, last, producer_id = self._waiting.pop()
            self._aborting[producer_id] = last
        marker = self._aborting.get(header.producer_id)
        if marker is None:
            return False
        if header.last_offset > marker:
            del self._aborting[header.producer_id]
            return False
        return header.is_transactional and not header.is_control


class _AbortedColumns:
    """Aborted transactions as columns, for look-ups by producer and offset."""

    def __init__(self, aborted: Sequence[tuple[int, int, int]]) -> None:
        import numpy as np

        # of an undecided transaction it may be a header's, above all offsets of 64 bits
        bounded = [(first, min(last, NO_END), producer_id) for first, last, producer_id in aborted]
        self._first, self._last, producers = np.array(bounded, np.int64).reshape(-1, 3).T
        self._producers, numbers = np.unique(producers, return_inverse=True)
        # by producer, then in the order in which they begin
        keys = numbers * (len(aborted) + 1) + np.arange(len(aborted))
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def rejected(self, run: BatchRun | MessageRun) -> tuple[npt.NDArray[np.bool_], list[tuple[int, int]]]:
        """Return two results for a run of batches. The first is a boolean mask: True for each transactional data batch
        of an aborted transaction. The second is a sorted list of (producer id, last offset) pairs. It names each
        aborted transaction that is over: the run has a batch of its producer after it and before the producer's next
        aborted transaction.
        """
        import numpy as np

        ids, last = run["producer_id"], run.last_offsets
        if len(self._producers) == 0:
            return np.zeros(len(run), np.bool_), []
        number = np.minimum(self._producers.searchsorted(ids), len(self._producers) - 1)
        begun = self._first.searchsorted(last, "right")
        width = len(self._first) + 1
        latest = self._keys.searchsorted(number * width + begun) - 1
        is_theirs = (self._producers[number] == ids) & (self._keys[latest] // width == number) & (latest >= 0)
        end = self._last[self._order[latest]]
        is_data = run["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG) == TRANSACTIONAL_FLAG
        behind = is_theirs & (last > end)
        pairs = set(zip(ids[behind].tolist(), end[behind].tolist(), strict=True))
        return is_theirs & is_data & (last <= end), sorted(pairs)
