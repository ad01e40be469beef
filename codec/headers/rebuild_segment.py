"""Rebuild a segment's indexes, leader epochs and producer state from runs of headers. `native/rebuild.c` does the work;
callers here need not know its columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafkalog.codec.derive import DerivationError
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.headers.table import HeaderRun
from kafkalog.codec.native.functions import batches_by_producer, recover_batches
from kafkalog.codec.native.tables import Appended, IndexEntry, Recovered, empty_table, names

if TYPE_CHECKING:
    from kafkalog.codec.derive import FixedLayout

__all__ = ["IndexLimits", "ProducerBatches", "ProducersOfRun", "Progress", "RecoveredRun", "recover_run"]


class IndexLimits(NamedTuple):
    """Bounds for a segment's index entries: its base offset, least bytes of log between two entries, and capacity of
    each index.
    """

    base_offset: int
    interval_bytes: int
    offset_entries: int
    time_entries: int


class Progress(NamedTuple):
    """State of rebuilding a segment, passed on from run to run. Fields about the last entry of an index are valid only
    if that index has entries.
    """

    valid_bytes: int
    last_indexed: int
    """position of the batch to which the last index entry refers"""
    timestamp: int
    """largest timestamp so far, in ms since 1970"""
    timestamp_offset: int
    offsets: int
    """number of entries in the offset index"""
    last_offset: int
    times: int
    """number of entries in the time index"""
    last_timestamp: int
    last_timestamp_offset: int
    epoch: int
    """highest leader epoch, -1 for none"""


if (*Progress._fields, "epochs") != names(Recovered):
    raise DerivationError("progress is not what the kernel carries from batch to batch")


class RecoveredRun(NamedTuple):
    """Result of rebuilding from some batches of a run."""

    stopped: int
    """number of the first batch that was not processed"""
    progress: Progress
    offset_entries: bytes
    time_entries: bytes
    epochs: list[tuple[int, int]]
    """leader epochs that begin in these batches, each with its first offset"""


def recover_run(run: BatchRun, first: int, end: int, progress: Progress, limits: IndexLimits) -> RecoveredRun:
    """Rebuild index entries, leader epochs and progress from the batches of a run with numbers `first` to `end`
    (exclusive), up to the first invalid one. Return the state after them and only the new entries, in the format of the
    index files; `progress` is not changed.
    """
    count = end - first
    state = np.array([*progress, 0], np.int64)
    entries, epochs = empty_table(IndexEntry, count), np.empty((2, count), np.int64)
    bounds = np.array(limits, np.int64)
    stopped = recover_batches(run.table, first, end, bounds, state, entries, epochs[0], epochs[1])
    *values, changes = state.tolist()
    new = Progress(*values)
    return RecoveredRun(
        stopped,
        new,
        _packed(OFFSET_ENTRY, entries[: IndexEntry.TIMESTAMP, : new.offsets - progress.offsets]),
        _packed(TIME_ENTRY, entries[IndexEntry.TIMESTAMP :, : new.times - progress.times]),
        list(map(tuple, epochs[:, :changes].T.tolist())),
    )


def _packed(layout: FixedLayout, columns: Iterable[Any]) -> bytes:
    """Return entries as bytes in the format of an index file. `columns` has one column for each field of `layout`, in
    order.
    """
    rows = [*columns]
    packed = np.empty(len(rows[0]), layout.dtype())
    for name, column in zip(layout.names, rows, strict=True):
        packed[name] = column
    return packed.tobytes()


class ProducerBatches(NamedTuple):
    """Batches of one producer between two control batches. The fields are numbers of batches in the run, -1 for
    none.
    """

    producer_id: int
    first: int
    last: int
    first_transactional: int
    first_plain: int
    """first that is not part of a transaction"""
    plain_behind_transactional: int


class ProducersOfRun:
    """Group the batches of a run by producer, from one control batch to the next."""

    def __init__(self, run: HeaderRun) -> None:
        self._run = run
        self._has_producers = run.are_of_producers(0, len(run))
        self._slots: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self._found = np.empty((0, 0), np.int64)

    def next(self, first: int, end: int) -> tuple[int, list[ProducerBatches]]:
        """Return the number of the first control batch of a producer from number `first`, or `end` (exclusive) if there
        is none, and a list with one `ProducerBatches` for each producer of the data batches before it. The result is
        (`end`, []) if no batch of the run has a producer.
        """
        if not self._has_producers or first == end:
            return end, []
        if self._slots is None:
            self._slots = np.full(1 << (2 * len(self._run)).bit_length(), -1, np.int64)
            self._found = empty_table(Appended, len(self._run))
        stopped, count = batches_by_producer(self._run.table, first, end, self._slots, self._found)
        return int(stopped), [ProducerBatches(*column) for column in self._found[:, :count].T.tolist()]
