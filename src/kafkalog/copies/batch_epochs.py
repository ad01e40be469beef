"""Leader epochs as the batches of one copy tell them, and which of them are believed.

A batch's epoch lies outside its checksum.  In a log epochs never go back, so that one that does is wrong, or the one
before it is; and where a broker has a list of its own, that is asked first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from kafkalog.codec.text import LeaderEpoch
from kafkalog.copies.common_history import Lineage
from kafkalog.copies.stretches import Stretch

__all__ = ["BatchEpochs", "EpochRun", "trusted_lineage"]

_MOST_EPOCHS = 100_000
"""Leader epochs that are taken from the batches of one copy, at most."""
_ENOUGH = 2
"""Batches in a row that carry an epoch which no list knows: one may be damaged, several are not in the same way."""


class EpochRun(Struct, kw_only=True):
    """Batches of one leader epoch that follow each other."""

    epoch: int
    start_offset: int
    end_offset: int
    """after the last of them"""
    batches: int


class BatchEpochs:
    """The leader epochs of a log that is walked once, in order; `runs` are strictly increasing in both numbers."""

    def __init__(self) -> None:
        self.runs: list[EpochRun] = []

    def note(self, stretch: Stretch) -> None:
        """Take in the batches that come next."""
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
    """The leader epochs of a copy: its broker's own list, and what its log goes on with.

    `known` are the epochs of all lists of any copy.  Without a list of its own, what the batches say is all there is.
    With one, an epoch after the last that is listed counts if another list knows it, or several batches carry it.
    """
    latest = listed[-1].epoch if listed else -1
    later = (run for run in runs if run.epoch > latest)
    believed = (
        LeaderEpoch(run.epoch, run.start_offset)
        for run in later
        if not listed or run.epoch in known or run.batches >= _ENOUGH
    )
    return Lineage.of((*listed, *believed), end_offset)
