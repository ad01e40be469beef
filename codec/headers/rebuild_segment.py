"""Rebuilding of a segment's indexes, leader epochs and producer state from runs of headers.

`native/rebuild.c` does the work; callers of this module need not know its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from kafkalog.codec.derive import DerivationError
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.headers.index_columns import packed_columns
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.native.cells import Cells, column_of, zeros
from kafkalog.codec.native.functions import batches_by_producer, recover_batches
from kafkalog.codec.native.tables import Appended, IndexEntry, Recovered, RunFacts, names

if TYPE_CHECKING:
    from kafkalog.codec.derive import FixedLayout

__all__ = ["IndexLimits", "ProducerBatches", "ProducersOfRun", "Progress", "RecoveredRun", "recover_run"]


class IndexLimits(NamedTuple):
    """Parameters for a segment's index entries: its base offset, least bytes of log between two entries, and capacity
    of each index.
    """

    base_offset: int
    interval_bytes: int
    offset_entries: int
    time_entries: int


class Progress(NamedTuple):
    """State while a segment is rebuilt, which is passed from run to run. Fields about the last entry of an index are
    valid only if that index has entries.
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


_ROWS = {
    (OFFSET_ENTRY, "relative_offset"): IndexEntry.RELATIVE_OFFSET,
    (OFFSET_ENTRY, "position"): IndexEntry.POSITION,
    (TIME_ENTRY, "timestamp"): IndexEntry.TIMESTAMP,
    (TIME_ENTRY, "relative_offset"): IndexEntry.TIMESTAMP_RELATIVE_OFFSET,
}
"""Row with the values of a declared field, by layout and the field's name."""


class RecoveredRun(Struct, frozen=True, kw_only=True):
    """Result of rebuilding from some batches of a run; the entries are only the new ones."""

    stopped: int
    """number of the first batch that was not processed"""
    progress: Progress
    offset_entries: bytes
    time_entries: bytes
    epochs: list[tuple[int, int]]
    """leader epochs that begin in these batches, each with its first offset"""


def recover_run(run: BatchRun, first: int, end: int, progress: Progress, limits: IndexLimits) -> RecoveredRun:
    """Rebuild index entries and leader epochs from batches `first` to `end` (exclusive) of a run. Stop before a batch
    that may be invalid, or for which an index has no room. The result has the new entries in the format of the index
    files, the new epochs and the progress after them. It also has the number of the batch at which it stopped, which is
    `end` if it did not stop earlier. `progress` is not changed.
    """
    count = end - first
    state = column_of([*progress, 0])
    entries, epochs, starts = Cells(IndexEntry, count), zeros(count), zeros(count)
    stopped = recover_batches(run.cells, first, end, column_of(limits), state, entries, epochs, starts)
    *values, changes = state.tolist()
    new = Progress(*values)
    return RecoveredRun(
        stopped=stopped,
        progress=new,
        offset_entries=_packed(OFFSET_ENTRY, entries.part(0, new.offsets - progress.offsets)),
        time_entries=_packed(TIME_ENTRY, entries.part(0, new.times - progress.times)),
        epochs=list(zip(epochs[:changes], starts[:changes], strict=True)),
    )


def _packed(layout: FixedLayout, entries: Cells) -> bytes:
    """Encode entries in the format of the index files with this layout; empty bytes for no entries."""
    if not entries.columns:
        return b""
    first, second = (entries.row(_ROWS[layout, name]) for name in layout.names)
    return packed_columns(first, second, layout)


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
    """Groups of the batches of a run by producer, from one control batch to the next."""

    def __init__(self, run: BatchRun) -> None:
        self._run = run
        self._has_producers = run.fact(RunFacts.OF_PRODUCERS) > 0
        self._slots: memoryview | None = None
        self._producers = Cells(Appended, 0)

    def next(self, first: int, end: int) -> tuple[int, list[ProducerBatches]]:
        """Group by producer the data batches from number `first` to `end` (exclusive), or to the first control batch
        that has a producer. Return the number of that control batch, or `end` if there is none, and one
        `ProducerBatches` for each producer, in the order of their first batches. Batches without a producer are left
        out.
        """
        if not self._has_producers or first == end:
            return end, []
        if self._slots is None:
            self._slots = _slots(len(self._run))
            self._producers = Cells(Appended, len(self._run))
        stopped, count = batches_by_producer(self._run.cells, first, end, self._slots, self._producers)
        return stopped, [ProducerBatches(*self._producers.column(number)) for number in range(count)]


def _slots(batches: int) -> memoryview:
    """Return the working memory of `batches_by_producer` for a run of `batches` batches."""
    slots = zeros(1 << (2 * batches).bit_length())
    slots.cast("B")[:] = b"\xff" * slots.nbytes
    return slots
