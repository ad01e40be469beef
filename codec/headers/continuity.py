"""The rules of `codec.rules.batches`, applied to a whole run (consecutive v2 batches) at once: number of batches at its
start that have no finding.
"""

from __future__ import annotations

import ctypes

from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.native import functions
from kafkalog.codec.native.tables import UNKNOWN, ContinuityState
from kafkalog.codec.rules.batches import NO_OFFSET_LIMIT, Continuity

__all__ = ["in_place", "sound_prefix"]

_State = ctypes.c_int64 * len(ContinuityState)


def in_place(run: BatchRun, base_offset: int) -> int:
    """Return the number of batches at the start of a run whose offsets are possible in the segment with this base
    offset, by the rule of `out_of_place`. Their magic must be known.
    """
    return functions.in_place(run.cells, base_offset, NO_OFFSET_LIMIT)


def sound_prefix(continuity: Continuity, run: BatchRun, *, gaps: bool) -> int:
    """Return the number of batches at the start of a run for which `continuity` certainly has no finding; the next one
    must be examined in Python. Also advance `continuity` past them; it is unchanged if the number is 0.

    Missing offsets before a batch are a finding of severity INFO, which ends the count. With `gaps` the batch after the
    gap is counted nevertheless if the run has another batch after it, which begins above its last offset.
    """
    if continuity.expected is not None and continuity.expected > NO_OFFSET_LIMIT:
        return 0  # no batch can come next, and compiled code has no number for that offset
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
