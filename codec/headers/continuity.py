"""The rules of `codec.rules` over a run of batches: how many have nothing wrong with them, in one go."""

from __future__ import annotations

import ctypes

from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.native import functions
from kafkalog.codec.native.tables import UNKNOWN, ContinuityState
from kafkalog.codec.rules import NO_OFFSET_LIMIT, Continuity

__all__ = ["in_place", "sound_prefix"]

_State = ctypes.c_int64 * len(ContinuityState)


def in_place(run: BatchRun, base_offset: int) -> int:
    """How many batches of a run, from the first on, are not `out_of_place` in a segment; their magics are known."""
    first, last = run["base_offset"], run.last_offsets
    fine = (last >= first) & (first >= 0) & (last >= base_offset) & (last < NO_OFFSET_LIMIT)
    return len(run) if fine.all() else int(fine.argmin())


def sound_prefix(continuity: Continuity, run: BatchRun, *, gaps: bool) -> int:
    """How many batches of a run, from the first on, `continuity` has no finding for; they count as checked by it.

    With `gaps` those may have offsets missing before them, which is no more than information.
    """
    state = _State(
        _known(continuity.base_offset), _known(continuity.next_segment), _known(continuity.expected),
        _known(continuity.last_offset), continuity.leader_epoch,
    )  # fmt: skip
    count = functions.sound_prefix(run.cells, state, gaps)
    if count:
        continuity.took(state[ContinuityState.LAST_OFFSET])
        continuity.leader_epoch = state[ContinuityState.LEADER_EPOCH]
    return count


def _known(offset: int | None) -> int:
    return UNKNOWN if offset is None else offset
