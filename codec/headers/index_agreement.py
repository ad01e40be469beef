"""Compare index entries with a run of batches at once, for `recovery.checks.indexes`. Batches are in file order, with
increasing offsets; `before` is the largest offset before the first of them. Keys and offsets of index entries are
relative to `base`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.table import HeaderRun

__all__ = ["first_later_batch", "first_wrong_position"]


def _offsets_before(run: HeaderRun, before: int) -> npt.NDArray[np.int64]:
    """Return the largest offset before each batch."""
    offsets = np.empty(len(run), np.int64)
    offsets[0], offsets[1:] = before, run.last_offsets[:-1]
    return np.maximum(offsets, before)


def first_wrong_position(
    run: HeaderRun, before: int, keys: Sequence[int], positions: Sequence[int], *, base: int
) -> tuple[int, int | None] | None:
    """Find the first wrong index entry: its position is not the start of a batch, or its key is not above all offsets
    before that batch. `before` is the largest offset before the run; keys are relative to `base`, and positions must
    not be above that of the run's last batch. Return the entry's index and the largest offset before the batch (None if
    no batch begins there); None if no entry is wrong.
    """
    wanted = np.array(positions, np.int64)
    batches = run.positions.searchsorted(wanted)
    offsets = _offsets_before(run, before)[batches]
    begins = run.positions[batches] == wanted
    wrong = ~begins | (np.array(keys, np.int64) + base <= offsets)
    if not wrong.any():
        return None
    number = int(wrong.argmax())
    return number, int(offsets[number]) if begins[number] else None


def first_later_batch(
    run: HeaderRun, before: int, timestamps: Sequence[int], offsets: Sequence[int], *, base: int
) -> tuple[int, int] | None:
    """Find the first batch whose largest timestamp is above that of the time index entry that covers it. `before` is
    the largest offset before the run; the entries' `offsets` are relative to `base` and must increase after the first.
    Return the entry's index and the batch's number; None if there is no such batch or no entry.
    """
    if len(offsets) == 0:
        return None
    entry_offsets = np.array(offsets, np.int64) + base
    entries = entry_offsets.searchsorted(_offsets_before(run, before), "right")
    is_there = entries < len(entry_offsets)
    entries = np.minimum(entries, len(entry_offsets) - 1)
    wrong = is_there & (run.last_offsets <= entry_offsets[entries])
    wrong &= run["max_timestamp"] > np.array(timestamps, np.int64)[entries]
    if not wrong.any():
        return None
    batch = int(wrong.argmax())
    return int(entries[batch]), batch
