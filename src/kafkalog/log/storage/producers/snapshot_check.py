"""Compare a producer snapshot with the batches before it.

A snapshot may list fewer producers than the log, because some expired, and more than the log, because batches were
compacted, deleted or lost. Only an entry that batches in the log disprove is a contradiction. A producer with an open
transaction never expires (`ProducerStateManager.isProducerExpired`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from kafkalog.codec.model import AnyHeader, BatchHeader, ProducerEntry
from kafkalog.codec.rules.framing import BATCH_MAGIC

if TYPE_CHECKING:
    from kafkalog.codec.headers.listed_producers import ListedProducers
    from kafkalog.codec.headers.one_batch import AnyRun

__all__ = ["OpenWithoutGap", "SnapshotCheck"]


class SnapshotCheck:
    """Comparison of a snapshot's entries with the batches below its offset `end`, which may be passed in any order.
    `problem` is a sentence about the first contradiction; None if there is none so far. `is_confirmed` becomes True
    when a batch agrees with the last batch of a listed producer.
    """

    def __init__(self, entries: Iterable[ProducerEntry], end: int) -> None:
        self.end = end
        self.is_confirmed = False
        self._by_id = {entry.producer_id: entry for entry in entries}
        self._by_last = sorted(
            (entry for entry in self._by_id.values() if entry.last_offset >= 0), key=lambda entry: entry.last_offset
        )
        self.problem: str | None = next(
            (
                f"producer {entry.producer_id} with offset {offset}, which is not before the snapshot"
                for entry in self._by_id.values()
                for offset in (entry.last_offset, entry.current_txn_first_offset)
                if offset >= end
            ),
            None,
        )

    @property
    def producers(self) -> set[int]:
        """Ids of all listed producers. Empty if the snapshot is empty, which a start of Kafka writes if it found no
        snapshot after a clean stop.
        """
        return set(self._by_id)

    @property
    def open_producers(self) -> set[int]:
        """Ids of the producers that are listed with an open transaction."""
        return {entry.producer_id for entry in self._by_id.values() if entry.current_txn_first_offset >= 0}

    def batch(self, header: AnyHeader) -> None:
        """Compare the entries with one batch: set `problem` if it contradicts them, `is_confirmed` if it is the last
        batch of a listed producer. Does nothing after a problem, for batches at or above offset `end`, and for v0 or v1
        entries.
        """
        if self.problem is not None or not isinstance(header, BatchHeader):
            return
        if header.magic != BATCH_MAGIC or header.base_offset >= self.end:
            return
        if not header.is_control:
            self._last_batch(header)
        if header.has_producer_id and (entry := self._by_id.get(header.producer_id)) is not None:
            self._later(header, entry)

    def _last_batch(self, header: BatchHeader) -> None:
        """Compare the snapshot entries whose last offset lies within this batch with its last offset, producer and last
        sequence number. An entry that agrees sets `is_confirmed`; the first one that differs sets `problem` and ends
        the comparison.
        """
        first = bisect_left(self._by_last, header.base_offset, key=lambda entry: entry.last_offset)
        for entry in islice(self._by_last, first, None):
            if entry.last_offset > header.last_offset:
                break
            listed = entry.last_offset, entry.producer_id, entry.last_sequence
            if listed != (header.last_offset, header.producer_id, header.last_sequence):
                self.problem = (
                    f"a batch of producer {entry.producer_id} is listed that ends with offset {entry.last_offset} and "
                    f"sequence {entry.last_sequence}; in the log is one of producer {header.producer_id} that ends "
                    f"with offset {header.last_offset} and sequence {header.last_sequence}"
                )
                break
            self.is_confirmed = True

    def _later(self, header: BatchHeader, entry: ProducerEntry) -> None:
        if not header.is_control:
            if header.base_offset > entry.last_offset and header.producer_epoch >= entry.producer_epoch:
                self.problem = (
                    f"producer {entry.producer_id} is listed with offset {entry.last_offset}, and has written offset "
                    f"{header.base_offset} to the log"
                )
        elif header.records_count and 0 <= entry.current_txn_first_offset < header.base_offset:
            self.problem = (
                f"producer {entry.producer_id} is listed with a transaction that is open from offset "
                f"{entry.current_txn_first_offset} on, and offset {header.base_offset} ends it"
            )

    def run(self, run: AnyRun) -> None:
        """Compare the entries with a run of batches with increasing offsets; sets `problem` and `is_confirmed` like
        `batch`. Does nothing if `problem` is set or the snapshot has no entries.
        """
        if self.problem is not None or not self._by_id:
            return
        columns = run.columns()
        for number in range(len(run)) if columns is None else self._listed.doubtful(columns):
            self.batch(run.header(number))

    @cached_property
    def _listed(self) -> ListedProducers:
        from kafkalog.codec.headers.listed_producers import ListedProducers

        return ListedProducers(self._by_id.values())


class OpenWithoutGap:
    """First offsets of the transactions that are open at the end of the batches so far, by producer id (`opened`). If
    offsets are missing, all producers seen before the gap are dropped, because their end markers may be missing there.
    """

    def __init__(self) -> None:
        self.opened: dict[int, int] = {}
        self._next_offset: int | None = None

    def run(self, run: AnyRun) -> None:
        """Process the next run of batches, which must have increasing offsets. Adds to `opened` the
        producers with a transactional batch, and removes those with a marker after it. If offsets are missing before or
        within the run, the producers seen before the last gap are removed.
        """
        first = run.behind_last_gap()
        if first or run.first_offset != self._next_offset:
            self.opened.clear()
        self._next_offset = run.next_offset
        for number in run.transaction_numbers(first):
            self._add(run.header(number))

    def _add(self, header: AnyHeader) -> None:
        if header.is_control and header.has_producer_id:
            self.opened.pop(header.producer_id, None)
        elif header.is_transactional:
            self.opened.setdefault(header.producer_id, header.first_offset)
