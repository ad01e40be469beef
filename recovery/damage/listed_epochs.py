"""Compare the leader epochs of batches with those that an epoch checkpoint lists."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.native.functions import other_epochs
from kafkalog.codec.native.tables import HeaderColumn

if TYPE_CHECKING:
    from kafkalog.codec.headers.one_batch import AnyRun

__all__ = ["ListedEpochs"]


class ListedEpochs:
    """Leader epochs by offset, according to the entries of an epoch checkpoint."""

    def __init__(self, entries: Sequence[LeaderEpoch]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry.start_offset)
        self._starts = [entry.start_offset for entry in self._entries]

    def at(self, offset: int) -> int | None:
        """Return the listed epoch of an offset; None if it lies below the first entry."""
        number = bisect.bisect_right(self._starts, offset) - 1
        return None if number < 0 else self._entries[number].epoch

    def disagreeing(self, run: AnyRun) -> Iterator[int]:
        """Yield the numbers of the batches in `run` whose leader epoch disagrees with the list; numbers begin at 0 and
        are yielded in order. The epoch disagrees if it is neither the one listed for the batch's base offset nor
        unknown (-1). Batches below the first entry are skipped. Base offsets must increase within the run.
        """
        columns = run.columns()
        if columns is None:
            header = run.header(0)
            expected = self.at(header.first_offset)
            if expected is not None and header.partition_leader_epoch not in (expected, -1):
                yield 0
            return
        first = max(bisect.bisect_right(self._starts, columns.first_offset) - 1, 0)
        behind = bisect.bisect_right(self._starts, columns.row(HeaderColumn.BASE_OFFSET)[-1])
        for number in range(first, behind):
            begin = columns.beginning_below(self._starts[number])
            end = columns.beginning_below(self._starts[number + 1]) if number + 1 < behind else len(run)
            epoch = self._entries[number].epoch
            yield from (begin + wrong for wrong in other_epochs(columns.part(begin, end).cells, epoch))
