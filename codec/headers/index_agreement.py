"""Comparison of index entries with a run of batches at once, for `recovery.checks.indexes`.

Batches are in file order, with increasing offsets; `before` is the highest offset before the first of them. Keys and
offsets of index entries are relative to `base`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.native.cells import column_of
from kafkalog.codec.native.functions import later_batch, wrong_position

__all__ = ["first_later_batch", "first_wrong_position"]


def first_wrong_position(
    run: BatchRun, before: int, keys: Sequence[int], positions: Sequence[int], *, base: int
) -> tuple[int, int | None] | None:
    """Return the first wrong index entry as a pair: the number of the entry, and the highest offset before its batch.
    Return None if no entry is wrong. An entry is wrong if no batch begins at its position; the second value is then
    None. It is also wrong if its key is not above all offsets before that batch.

    `before` is the highest offset before the run. Keys are relative to `base`. Positions must not be above the position
    of the run's last batch.
    """
    wrong = wrong_position(run.cells, run.window_start, before, base, column_of(keys), column_of(positions))
    if wrong is None:
        return None
    entry, offset, begins = wrong
    return entry, offset if begins else None


def first_later_batch(
    run: BatchRun, before: int, timestamps: Sequence[int], offsets: Sequence[int], *, base: int
) -> tuple[int, int] | None:
    """Return the first batch whose largest timestamp is above the timestamp of the time index entry that covers it, as
    (number of the entry, number of the batch). None if there is no such batch or no entry.

    `before` is the highest offset before the run; the entries' `offsets` are relative to `base` and must increase after
    the first.
    """
    return later_batch(run.cells, before, base, column_of(timestamps), column_of(offsets))
