"""Search for the batches in a run (consecutive v2 batches) that can contradict the entries of a producer snapshot."""

from __future__ import annotations

from collections.abc import Collection

from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import ProducerEntry
from kafkalog.codec.native.cells import Cells, column_of
from kafkalog.codec.native.functions import doubtful_batches
from kafkalog.codec.native.tables import ListedProducer

__all__ = ["ListedProducers"]


class ListedProducers:
    """Entries of a producer snapshot, at least one, as columns in ascending order of their producer ids."""

    def __init__(self, entries: Collection[ProducerEntry]) -> None:
        rows = sorted(
            (entry.producer_id, entry.last_offset, entry.current_txn_first_offset, entry.producer_epoch)
            for entry in entries
        )
        self._listed = Cells(ListedProducer, len(rows))
        for field, values in zip(ListedProducer, zip(*rows, strict=True), strict=True):
            self._listed.row(field)[:] = column_of(values)
        self._last_offsets = column_of(sorted(self._listed.row(ListedProducer.LAST_OFFSET)))

    def doubtful(self, run: BatchRun) -> list[int]:
        """Return the numbers, in ascending order, of the batches that can contradict the snapshot.

        These are batches that have the last offset of any entry; data batches after the last offset of their producer's
        entry, with its epoch or a later one; and control batches after the start of their producer's open transaction.
        """
        return doubtful_batches(run.cells, self._listed, self._last_offsets)
