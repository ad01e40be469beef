"""Whether index entries describe a run of batches, in one go: for the checks of `recovery.checks.indexes`.

Batches come in order, their offsets increasing; `before` is the largest offset that is before the first of them.  Keys
and offsets of entries count from `base`.
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
    """For each batch the largest offset that is before it."""
    found = np.empty(len(run), np.int64)
    found[0], found[1:] = before, run.last_offsets[:-1]
    return np.maximum(found, before)


def first_wrong_position(
    run: HeaderRun, before: int, keys: Sequence[int], positions: Sequence[int], *, base: int
) -> tuple[int, int | None] | None:
    """The first entry that does not name the start of a batch, or one whose key is at or below the offsets before it.

    All positions are at or below that of the run's last batch.  Gives the entry's number, and the largest offset before
    the batch if one begins there; None if there is no such entry.
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
    """The first batch at or before the offset of an entry that is later than the entry's timestamp says.

    Entries after the first have increasing offsets.  Gives the entry's number and that of the batch.
    """
    if len(offsets) == 0:
        return None
    at = np.array(offsets, np.int64) + base
    entries = at.searchsorted(_offsets_before(run, before), "right")
    is_there = entries < len(at)
    entries = np.minimum(entries, len(at) - 1)
    wrong = is_there & (run.last_offsets <= at[entries])
    wrong &= run["max_timestamp"] > np.array(timestamps, np.int64)[entries]
    if not wrong.any():
        return None
    batch = int(wrong.argmax())
    return int(entries[batch]), batch
