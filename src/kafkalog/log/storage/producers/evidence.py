"""Judge what a producer snapshot and transaction indexes tell about transactions whose end markers are lost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import AbortedTransaction, ProducerEntry, RecordBatch
from kafkalog.log.storage.producers.snapshot_check import OpenWithoutGap, SnapshotCheck

__all__ = ["Evidence", "are_same", "ended_since", "lost_markers", "opened_of"]


def opened_of(entries: Iterable[ProducerEntry]) -> dict[int, int]:
    """Return the first offset of each open transaction, by producer id."""
    firsts = {entry.producer_id: entry.current_txn_first_offset for entry in entries}
    return {producer_id: first for producer_id, first in firsts.items() if first >= 0}


def ended_since(opened: Mapping[int, int], entries: Iterable[ProducerEntry], end: int) -> bool:
    """Whether some of the `opened` transactions that began below offset `end`, as first offsets by producer id, are not
    open in the snapshot of these entries at `end`. A producer that is not listed has expired.
    """
    still_open = opened_of(entries)
    return any(still_open.get(producer_id) != first for producer_id, first in opened.items() if first < end)


def are_same(derived: Iterable[AbortedTransaction], listed: Iterable[AbortedTransaction]) -> bool:
    """Whether both have the same producers, first offsets and markers."""
    in_log, in_indexes = (
        {(entry.producer_id, entry.first_offset, entry.last_offset) for entry in some} for some in (derived, listed)
    )
    return in_log == in_indexes


def lost_markers(derived: Iterable[AbortedTransaction], listed: Iterable[AbortedTransaction]) -> list[int] | None:
    """Return the offsets of markers that indexes list and that are not derived from the batches; None if some of the
    derived ones are not listed.
    """
    in_log, in_indexes = ({(entry.producer_id, entry.last_offset) for entry in some} for some in (derived, listed))
    return [offset for _producer_id, offset in in_indexes - in_log] if in_log <= in_indexes else None


class Evidence:
    """Comparison of the entries of a producer snapshot at offset `end`, and of the offsets of markers that only the
    transaction indexes have, with the batches below `end`.
    """

    def __init__(self, entries: Sequence[ProducerEntry], end: int, lost_markers: Iterable[int] = ()) -> None:
        self._end = end
        self._still_open = opened_of(entries).keys()
        self._lost = sorted(lost_markers)
        self._check = SnapshotCheck(entries, end)
        self._writing = OpenWithoutGap()
        self._is_contradicted = False
        self.is_a_segment_short = False
        """whether the last batches of a segment are missing: another segment, with an index of its own, may have
        followed it"""

    def holds_in(self, batches: Iterable[tuple[int, BatchRun | RecordBatch]]) -> bool:
        """Whether the batches reach `end`, confirm the snapshot, and none contradicts it or the indexes. They come in
        the order of the log, each with the base offset of its segment.
        """
        before: int | None = None
        expected = 0
        for base, found in batches:
            first, behind = _offsets(found)
            if before not in (None, base) and expected < min(base, self._end):
                self.is_a_segment_short = True
            if first >= self._end:
                break
            before, expected = base, behind
            if isinstance(found, BatchRun) and behind <= self._end:
                self._run(found)
            else:
                for batch in found if isinstance(found, BatchRun) else (found,):
                    self._batch(batch)
        self._is_contradicted |= expected < self._end or not self._writing.producers <= self._still_open
        return self._check.is_confirmed and not self.is_contradicted

    @property
    def is_contradicted(self) -> bool:
        """Whether a batch that `holds_in` was given contradicts the snapshot or the indexes, or there were too few."""
        return self._is_contradicted or self._check.problem is not None

    def _run(self, run: BatchRun) -> None:
        self._check.run(run)
        self._writing.run(run)
        if self._has_lost(*_offsets(run)):
            self._is_contradicted |= any(self._has_lost(*_offsets(batch)) for batch in run)

    def _batch(self, batch: RecordBatch) -> None:
        header = batch.header
        if header.first_offset >= self._end:
            return
        self._check.batch(header)
        self._writing.batch(header)
        self._is_contradicted |= self._has_lost(*_offsets(batch))

    def _has_lost(self, first: int, behind: int) -> bool:
        return bisect_left(self._lost, first) < bisect_left(self._lost, behind)


def _offsets(found: BatchRun | RecordBatch) -> tuple[int, int]:
    """Return the first offset, and the offset after the last one."""
    if isinstance(found, RecordBatch):
        return found.header.first_offset, found.header.next_offset
    return int(found["base_offset"][0]), found.next_offset
