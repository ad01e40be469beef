"""Which transactions the log itself says were aborted, and which are still open.

Derived from data batches and markers as `ProducerStateManager` does while it rebuilds its state: a producer's first
transactional batch opens a transaction, its next COMMIT or ABORT marker ends it.  A `.txnindex` says the same, but may
be missing, old or foreign; the log decides.  A batch that compaction has emptied opens its transaction like any other:
the cleaner keeps the marker for as long as it keeps such a batch (`CleanedTransactionMetadata.onControlBatchRead`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kafkalog.codec.control import end_transaction_marker
from kafkalog.codec.errors import FormatError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.index_files import ABORTED_TRANSACTION_VERSION
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import (
    CONTROL_FLAG,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    AbortedTransaction,
    BatchHeader,
    ControlType,
    RecordBatch,
)
from kafkalog.codec.records import decode_batch
from kafkalog.log.storage.producer_state import Marker

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["AbortedFilter", "TransactionTracker", "Transactions", "marker_of"]


def marker_of(batch: RecordBatch, limits: Limits = DEFAULT_LIMITS, *, whole: bool = False) -> Marker | None:
    """The COMMIT or ABORT marker that a control batch begins with; None in another one, and in an empty one.

    Raises `FormatError` if it cannot be read; with `whole` also for whatever else is wrong with the batch.
    """
    decoded = decode_batch(batch, limits=limits)
    if decoded.finding is not None and (whole or not decoded.records):
        raise FormatError(decoded.finding.detail, position=batch.position, code=decoded.finding.code)
    marker = end_transaction_marker(decoded.records[0]) if decoded.records else None
    return None if marker is None else Marker(marker, decoded.records[0].timestamp)


@dataclass(frozen=True, slots=True)
class Transactions:
    """The result of a complete walk; `aborted` in the order of the markers, as the `.txnindex` files list them."""

    aborted: tuple[AbortedTransaction, ...]
    open_first_offsets: dict[int, int]
    """producer id -> first offset of its transaction without a marker"""
    log_end_offset: int
    findings: tuple[Finding, ...] = ()
    """markers that cannot be read"""

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction, else the log end offset."""
        return min(self.open_first_offsets.values(), default=self.log_end_offset)

    def why_it_ends(self) -> str | None:
        """What somebody who reads committed data is to know; None where no transaction is open."""
        if not self.open_first_offsets:
            return None
        producer_id, first = min(self.open_first_offsets.items(), key=lambda pair: pair[1])
        return (
            f"read_committed ends at offset {first}, where a transaction of producer {producer_id} is open; of the "
            f"offsets from there up to {self.log_end_offset - 1} nothing is read, records of other producers included"
        )


class TransactionTracker:
    """Fed with the batches of a partition in order; memory grows with open and aborted transactions only."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._open: dict[int, int] = {}
        self._earliest: list[tuple[int, int]] = []
        self.aborted: list[AbortedTransaction] = []
        self.findings: list[Finding] = []

    @property
    def open_first_offsets(self) -> dict[int, int]:
        """Producer id -> first offset of its open transaction."""
        return dict(self._open)

    def feed(self, batch: RecordBatch, file: str | None = None) -> None:
        """Take note of one batch; `file` is named in findings."""
        header = batch.header
        if not isinstance(header, BatchHeader) or not header.has_producer_id:
            return
        if not header.is_control:
            if header.is_transactional and header.producer_id not in self._open:
                self._open[header.producer_id] = header.base_offset
                heapq.heappush(self._earliest, (header.base_offset, header.producer_id))
            return
        try:
            found = marker_of(batch, self._limits)
        except FormatError as error:
            detail = f"a transaction marker cannot be read: {error.message}"
            code = FindingCode.CONTROL_RECORD_INVALID
            self.findings.append(Finding(code, Severity.ERROR, batch.position, header.base_offset, detail, file))
            return
        first = None if found is None else self._open.pop(header.producer_id, None)
        if first is not None and found is not None and found.marker.type is ControlType.ABORT:
            last = header.base_offset
            stable = self._earliest_open(last + 1)
            entry = AbortedTransaction(ABORTED_TRANSACTION_VERSION, header.producer_id, first, last, stable)
            self.aborted.append(entry)

    def _earliest_open(self, default: int) -> int:
        while self._earliest:
            first, producer_id = self._earliest[0]
            if self._open.get(producer_id) == first:
                return first
            heapq.heappop(self._earliest)
        return default


class AbortedFilter:
    """Tells for batch after batch whether it belongs to an aborted transaction (`CompletedFetch`, the consumer's).

    `rejected` tells it for a run of batches at a time; both ways may follow each other.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._all = sorted((txn.first_offset, txn.last_offset, txn.producer_id) for txn in aborted)
        self._waiting = self._all[::-1]
        self._aborting: dict[int, int] = {}

    @cached_property
    def _columns(self) -> _AbortedColumns:
        return _AbortedColumns(self._all)

    def rejected(self, run: BatchRun) -> npt.NDArray[np.bool_]:
        """What `rejects` says of each batch of a run, whose offsets increase and are above all before."""
        found, behind = self._columns.rejected(run)
        ids = run["producer_id"]
        highest = int(run.last_offsets[ids > NO_PRODUCER_ID].max(initial=-1))
        while self._waiting and self._waiting[-1][0] <= highest:
            _, last, producer_id = self._waiting.pop()
            self._aborting[producer_id] = last
        for producer_id, last in behind:
            if self._aborting.get(producer_id) == last:
                del self._aborting[producer_id]
        return found

    def rejects(self, batch: RecordBatch) -> bool:
        """Whether a consumer that reads committed data skips this batch."""
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
    """Aborted transactions as columns, to be looked up by producer and offset."""

    def __init__(self, aborted: Sequence[tuple[int, int, int]]) -> None:
        import numpy as np

        self._first, self._last, producers = np.array(aborted, np.int64).reshape(-1, 3).T
        self._producers, numbers = np.unique(producers, return_inverse=True)
        # by producer, then in the order in which they begin
        keys = numbers * (len(aborted) + 1) + np.arange(len(aborted))
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def rejected(self, run: BatchRun) -> tuple[npt.NDArray[np.bool_], list[tuple[int, int]]]:
        """Which batches belong to aborted transactions; and producers, with the last offset of the latest one of
        theirs, that have written after it.
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
