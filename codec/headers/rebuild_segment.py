"""Recovery's work on runs of headers: index entries as bytes, leader epochs, and what producers are left with.

The columns' side of it, for those who know no columns; `native/rebuild.c` does the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafkalog.codec.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.native.functions import batches_by_producer, recover_batches
from kafkalog.codec.native.tables import Appended, IndexEntry, Recovered, empty_table, names

if TYPE_CHECKING:
    from kafkalog.codec.derive import DerivationError, FixedLayout
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.headers.table import HeaderRun

__all__ = ["IndexLimits", "ProducerBatches", "ProducersOfRun", "Progress", "RecoveredRun", "recover_run"]



class IndexLimits(NamedTuple):
    """What decides index entries of a segment: bytes of log between two, and how many each index can hold."""

    base_offset: int
    interval_bytes: int
    offset_entries: int
    time_entries: int


class Progress(NamedTuple):
    """How far a segment is taken in; the last entry of an index counts only if it has one."""

    valid_bytes: int
    last_indexed: int
    """position of the batch of the last entry"""
    timestamp: int
    """the largest so far, ms"""
    timestamp_offset: int
    offsets: int
    """entries in the offset index"""
    last_offset: int
    times: int
    """entries in the time index"""
    last_timestamp: int
    last_timestamp_offset: int
    epoch: int
    """the highest leader epoch, -1 for none"""


if (*Progress._fields, "epochs") != names(Recovered):
    raise DerivationError("progress is not what the kernel carries from batch to batch")


class RecoveredRun(NamedTuple):
    """What some batches changed."""

    stopped: int
    """number of the first batch that was not taken in"""
    progress: Progress
    offset_entries: bytes
    time_entries: bytes
    epochs: list[tuple[int, int]]
    """leader epochs that begin, with the offset where they do"""


def recover_run(run: BatchRun, first: int, end: int, progress: Progress, limits: IndexLimits) -> RecoveredRun:
    """Take in the batches from number `first` up to `end`, or to one with which something is wrong."""
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
    """Entries as an index file holds them, from one column for each field."""
    rows = [*columns]
    packed = np.empty(len(rows[0]), layout.dtype())
    for name, column in zip(layout.names, rows, strict=True):
        packed[name] = column
    return packed.tobytes()


class ProducerBatches(NamedTuple):
    """The batches of one producer between two control batches; numbers of batches, -1 for none."""

    producer_id: int
    first: int
    last: int
    first_transactional: int
    first_plain: int
    """the first that is not part of a transaction"""
    plain_behind_transactional: int


class ProducersOfRun:
    """Whose the batches of a run are, from one control batch to the next."""

    def __init__(self, run: HeaderRun) -> None:
        self._run = run
        self._has_producers = run.has_producers(0, len(run))
        self._slots: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self._found = np.empty((0, 0), np.int64)

    def next(self, first: int, end: int) -> tuple[int, list[ProducerBatches]]:
        """Producers of the batches from number `first` up to a control batch or `end`, and where that is."""
        if not self._has_producers or first == end:
            return end, []
        if self._slots is None:
            self._slots = np.full(1 << (2 * len(self._run)).bit_length(), -1, np.int64)
            self._found = empty_table(Appended, len(self._run))
        stopped, count = batches_by_producer(self._run.table, first, end, self._slots, self._found)
        return int(stopped), [ProducerBatches(*column) for column in self._found[:, :count].T.tolist()]
