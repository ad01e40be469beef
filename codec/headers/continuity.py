"""The rules of `codec.rules` over a run of batches: how many have nothing wrong with them, in one go."""

from __future__ import annotations

import numpy as np

from kafkalog.codec.framing import BATCH_MAGIC
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import CODEC_MASK, LAST_CODEC
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET, NO_OFFSET_LIMIT, Continuity

__all__ = ["in_place", "sound_prefix"]


def in_place(run: BatchRun, base_offset: int) -> int:
    """How many batches of a run, from the first on, are not `out_of_place` in a segment; their magics are known."""
    first, last = run["base_offset"], run.last_offsets
    fine = (last >= first) & (first >= 0) & (last >= base_offset) & (last < NO_OFFSET_LIMIT)
    return len(run) if fine.all() else int(fine.argmin())


def sound_prefix(continuity: Continuity, run: BatchRun, *, gaps: bool) -> int:
    """How many batches of a run, from the first on, `continuity` has no finding for; they count as checked by it.

    With `gaps` those may have offsets missing before them, which is no more than information.
    """
    first, last = run["base_offset"], run.last_offsets
    deltas, counts, epochs = run["last_offset_delta"], run["records_count"], run["partition_leader_epoch"]
    sound = (run["magic"] == BATCH_MAGIC) & (run["attributes"] & CODEC_MASK <= LAST_CODEC)
    sound &= (first >= 0) & (deltas >= 0)
    sound &= (counts >= 0) & (counts <= deltas + 1) & (last >= first)
    if continuity.base_offset is not None:
        sound &= (first >= continuity.base_offset) & (last - continuity.base_offset <= MAX_RELATIVE_OFFSET)
    if continuity.next_segment is not None:
        sound &= last < continuity.next_segment
    expected = int(first[0]) if continuity.expected is None else continuity.expected
    if not gaps and continuity.last_offset not in (None, expected - 1):
        return 0  # behind a repeat: what comes is another one, or leaves a gap
    starts = np.concatenate([[expected], last[:-1] + 1])
    continues = first == starts
    if not gaps:
        sound[1:] &= continues[1:]
        sound[0] &= bool(continues[0]) or continuity.last_offset is None
    # behind a gap the next one tells whether an offset was raised; that the last one of a run does not have
    sound &= first >= starts
    sound[:-1] &= continues[:-1] | (first[1:] > last[:-1])
    sound[-1] &= bool(continues[-1])
    sound[0] &= bool(epochs[0] >= continuity.leader_epoch)
    sound[1:] &= epochs[1:] >= epochs[:-1]
    count = len(run) if sound.all() else int(sound.argmin())
    if count:
        continuity.took(int(last[count - 1]))
        continuity.leader_epoch = max(continuity.leader_epoch, int(epochs[count - 1]))
    return count
