"""The rules of `codec.rules` over a run of batches: how many have nothing wrong with them, in one go."""

from __future__ import annotations

from kafkalog.codec.framing import BATCH_MAGIC
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import CODEC_MASK, LAST_CODEC
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET, Continuity

__all__ = ["sound_prefix"]


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
    if continuity.last_offset is not None:
        before = continuity.last_offset
        sound[0] &= bool(first[0] > before if gaps else first[0] == before + 1)
    sound[1:] &= first[1:] > last[:-1] if gaps else first[1:] == last[:-1] + 1
    sound[0] &= bool(epochs[0] >= continuity.leader_epoch)
    sound[1:] &= epochs[1:] >= epochs[:-1]
    count = len(run) if sound.all() else int(sound.argmin())
    if count:
        continuity.last_offset = int(last[count - 1])
        continuity.leader_epoch = max(continuity.leader_epoch, int(epochs[count - 1]))
    return count
