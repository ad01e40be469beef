"""Transactions of a log for consumers of committed data, derived batch by batch from the log."""

from __future__ import annotations

import time
from bisect import bisect_left
from threading import Lock

from msgspec import Struct, field

from kafkalog.codec.common.limits import Limits
from kafkalog.codec.model import AbortedTransaction, AnyHeader, BatchHeader
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading.known_ends import known_transactions
from kafkalog.log.reading.opened_below import opened_below_start, start_of_state
from kafkalog.log.reading.transactions import KnownTransactions, Transactions, TransactionTracker, Undecided
from kafkalog.log.walk.on_damage import SKIP

__all__ = ["Committed", "CommittedWalk"]

_SLICE_S = 0.1
"""Duration of a slice of a walk over a log. Each slice begins with an index lookup."""


class Committed(Struct, frozen=True, kw_only=True):
    """Transactions of a log up to the log end `end`, for consumers with `read_committed`."""

    end: int
    """log end for which this was found"""
    last_stable_offset: int
    aborted: tuple[AbortedTransaction, ...]
    """by the offsets of their markers"""
    markers: tuple[int, ...]
    why_it_ends: str | None = None
    """why the last stable offset is below the log end; None if no transaction is open"""
    undecided: dict[int, list[Undecided]] = field(default_factory=dict)
    """transactions by producer whose end is hidden by damage"""

    @property
    def ended_by(self) -> Undecided | None:
        """The transaction that sets the last stable offset because damage hides its end. None if no such transaction
        sets it.
        """
        found = (undecided for some in self.undecided.values() for undecided in some)
        return next((each for each in found if each.first_offset == self.last_stable_offset < self.end), None)

    def holds_back(self, header: AnyHeader) -> bool:
        """Whether a batch with this header belongs to a transaction whose end is hidden by damage, so that it is
        unknown whether it was committed. False for control batches and for batches outside transactions.
        """
        if not isinstance(header, BatchHeader) or not header.is_transactional or header.is_control:
            return False
        return any(undecided.holds(header) for undecided in self.undecided.get(header.producer_id, ()))

    def between(self, offset: int, upper: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a consumer needs for a fetch of offsets from `offset` up to `upper`
        (exclusive). They are in the order of their markers (`UnifiedLog.collectAbortedTransactions`); empty if there
        are none.
        """
        aborted_transactions = []
        for aborted_transaction in self.aborted[bisect_left(self.markers, offset) :]:
            if aborted_transaction.first_offset < upper:
                aborted_transactions.append(aborted_transaction)
            if aborted_transaction.last_stable_offset >= upper:
                break
        return aborted_transactions


class CommittedWalk:
    """Finds the transactions of a log by reading its batches; later calls read only batches that were added.

    A transaction whose end is hidden by damage limits the last stable offset, unless `goes_on` is set.
    """

    def __init__(self, limits: Limits, *, goes_on: bool = False) -> None:
        self._goes_on = goes_on
        self.lock = Lock()
        self._limits = limits
        self._begin(None)

    def _begin(self, known: KnownTransactions | None) -> None:
        self._tracker, self._next, self._known = TransactionTracker(self._limits), 0, known
        self._is_compared = known is not None
        """whether the files beside the log were asked for what they know"""

    def go(self, partition: Partition, log_end: int) -> Committed | None:
        """Read batches for about 0.1 s. Return the transactions if the log end offset `log_end` is reached. Otherwise
        return None; the next call continues. Damaged batches are skipped. The caller must hold `lock`.

        If `log_end` is below the offset reached before, reading starts over. When `log_end` is reached for the first
        time, the snapshots and transaction indexes beside the log are compared. If they show transactions that the
        batches do not show, reading starts over with these, and None is returned. Raises `StorageError` if a file
        cannot be read.
        """
        if log_end < self._next:
            self._begin(None)
        if self._next == 0:
            self._tracker.begin(opened_below_start(partition, self._limits), self._known)
            self._next = start_of_state(partition) or 0
        until = time.monotonic() + _SLICE_S
        reader = partition.batches(start_offset=self._next, on_damage=SKIP, limits=self._limits)
        for found in self._tracker.follow(reader, end=log_end):
            self._next = max(self._next, min(found.next_offset, log_end))
            if time.monotonic() > until and self._next < log_end:
                return None
        self._next = log_end
        if not self._is_compared:
            self._is_compared = True
            opened = self._tracker.open_first_offsets
            known = known_transactions(partition, self._tracker.aborted, opened, self._limits)
            if known is not None:
                self._begin(known)
                return None
        aborted = tuple(self._tracker.aborted)
        found_all = Transactions(
            aborted=aborted,
            open_first_offsets=self._tracker.open_first_offsets,
            log_end_offset=log_end,
            log_start_offset=partition.log_start_offset,
        )
        undecided: dict[int, list[Undecided]] = {}
        stable = found_all.last_stable_offset
        for each in self._tracker.undecided:
            undecided.setdefault(each.producer_id, []).append(each)
            stable = stable if self._goes_on else min(stable, each.first_offset)
        markers = tuple(aborted_transaction.last_offset for aborted_transaction in aborted)
        return Committed(
            end=log_end,
            last_stable_offset=stable,
            aborted=aborted,
            markers=markers,
            why_it_ends=found_all.why_it_ends(),
            undecided=undecided,
        )
