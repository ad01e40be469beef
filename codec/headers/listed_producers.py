"""Find the batches in a run (consecutive v2 batches) that can contradict the entries of a producer snapshot."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.codec.model import CONTROL_FLAG, ProducerEntry

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["ListedProducers"]


class ListedProducers:
    """Entries of a producer snapshot, at least one, as columns in the order of their producer ids."""

    def __init__(self, entries: Collection[ProducerEntry]) -> None:
        rows = sorted(
            (entry.producer_id, entry.last_offset, entry.current_txn_first_offset, entry.producer_epoch)
            for entry in entries
        )
        self._ids, self._last_offsets, self._opened, self._epochs = np.array(rows, np.int64).T
        self._listed = np.sort(self._last_offsets)

    def doubtful(self, run: BatchRun) -> list[int]:
        """Return the numbers, in ascending order, of the batches that can contradict the snapshot: those that hold the
        last offset of any entry; data batches after the last offset of their producer's entry, with its epoch or a
        later one; and control batches after the start of their producer's open transaction.
        """
        producers, offsets = run["producer_id"], run["base_offset"]
        places = np.minimum(self._ids.searchsorted(producers), len(self._ids) - 1)
        is_later = (offsets > self._last_offsets[places]) & (run["producer_epoch"] >= self._epochs[places])
        is_ended = (self._opened[places] >= 0) & (offsets > self._opened[places])
        is_control = run["attributes"] & CONTROL_FLAG != 0
        is_doubtful = (self._ids[places] == producers) & np.where(is_control, is_ended, is_later)
        is_listed = self._listed.searchsorted(offsets) != self._listed.searchsorted(run.last_offsets, side="right")
        doubtful: list[int] = (is_doubtful | is_listed).nonzero()[0].tolist()
        return doubtful
