"""Collect leader epochs from the batches of one copy, and decide which of them to trust.

A batch's epoch lies outside its checksum. In a log epochs never decrease, so if one does, it or the one before is
wrong. If the broker has an epoch checkpoint, that takes precedence.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.copies.common_history import Lineage
from kafkalog.copies.stretches import Stretch

__all__ = ["BatchEpochs", "EpochRun", "trusted_lineage"]

_MOST_EPOCHS = 100_000
"""Most leader epochs that are collected from the batches of one copy."""
_ENOUGH = 2
"""Consecutive batches with an epoch that no list has: one may be damaged, several are not damaged alike."""


class EpochRun(Struct, kw_only=True):
    """Consecutive batches of one leader epoch."""

    epoch: int
    start_offset: int
    end_offset: int
    """offset after the last of them"""
    batches: int


class BatchEpochs:
    """Leader epochs of a log that is walked once, in order; `runs` are strictly increasing in epoch and offset."""

    def __init__(self) -> None:
        self.runs: list[EpochRun] = []

    def note(self, stretch: Stretch) -> None:
        """Add the batches of the next stretch; stretches must be passed in the order of the log. If an epoch decreases,
        the run with fewer batches is dropped, the earlier one if both have as many.
        """
        for epoch, start, end, batches in stretch.epoch_runs():
            self._add(EpochRun(epoch=epoch, start_offset=start, end_offset=end, batches=batches))

    def _add(self, run: EpochRun) -> None:
        runs = self.runs
        while runs and runs[-1].epoch > run.epoch:
            if runs[-1].batches > run.batches:
                return  # fewer batches say something else than more before them
            runs.pop()
        if runs and runs[-1].epoch == run.epoch:
            runs[-1].batches += run.batches
            runs[-1].end_offset = max(runs[-1].end_offset, run.end_offset)
        elif len(runs) < _MOST_EPOCHS:
            runs.append(run)


def trusted_lineage(
    listed: Sequence[LeaderEpoch], runs: Sequence[EpochRun], known: Collection[int], end_offset: int
) -> Lineage:
    """Return the leader epochs of a copy as a `Lineage`: the list in its leader-epoch-checkpoint (`listed`), then the
    higher epochs of its batches (`runs`). `known` are the epochs in the lists of all copies, `end_offset` is the copy's
    log end offset.

    If the copy has no list, all epochs of its batches count. If it has one, a higher epoch counts only if another
    copy's list has it, or at least two batches do: a single batch may be damaged, as no checksum covers the epoch.
    """
    latest = listed[-1].epoch if listed else -1
    later = (run for run in runs if run.epoch > latest)
    believed = (
        LeaderEpoch(run.epoch, run.start_offset)
        for run in later
        if not listed or run.epoch in known or run.batches >= _ENOUGH
    )
    return Lineage.of((*listed, *believed), end_offset)
