"""Write the segment that the log cleaner makes from one or more old ones. Long ranges of unchanged batches are copied
directly between the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.common.limits import KIB, MIB
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.native.tables import RunFacts
from kafkalog.log.storage.java import OffsetOverflowError
from kafkalog.log.storage.log_file import LogBatch
from kafkalog.log.storage.segment import AnyBatch, LogSegment

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["STRETCH", "CleanedOutput"]

STRETCH = 64 * KIB
"""Least bytes of consecutive unchanged batches that are copied as a range of the old file."""
_PIECE = MIB
"""Bytes held at once."""


class CleanedOutput:
    """Buffer of the batches that the cleaner keeps. It appends them to the new segment `target` in pieces of about 1
    MiB. Batches must be added in the order of the log; `finish` appends the rest. All methods raise `StorageError` if a
    file on a real disk cannot be written.
    """

    def __init__(self, target: LogSegment) -> None:
        self._target = target
        self._source: LogSegment | None = None
        self._stretch: list[LogBatch] = []
        self._stretch_bytes = 0
        self._piece = bytearray()
        self._batches: list[Sequence[AnyBatch] | BatchRun] = []
        """batches of the piece"""

    def put(self, kept: LogBatch | RecordBatch | None, source: LogSegment) -> None:
        """Add a kept batch after those added before; None adds nothing. `kept` is an unchanged batch of `source`
        (`LogBatch`) or a rewritten one (`RecordBatch`). It is written later, at the latest by `finish`.

        Raises `OffsetOverflowError` if its last offset does not fit the indexes of the new segment. Batches that were
        added before may be written now; then raises `FullIndexError` or `InvalidOffsetError` if one cannot be indexed.
        """
        if isinstance(kept, RecordBatch):
            self._check(kept.last_offset)
            self._end_stretch()
            self._add(kept)
        elif kept is not None:
            self._keep(kept, source)

    def _keep(self, batch: LogBatch, source: LogSegment) -> None:
        self._check(batch.last_offset)
        last = self._stretch[-1] if self._stretch else None
        follows = last is not None and source is self._source and last.position + last.size == batch.position
        if not follows or self._stretch_bytes >= _PIECE:
            self._end_stretch()
        self._source = source
        self._stretch.append(batch)
        self._stretch_bytes += batch.size

    def keep_run(self, run: BatchRun, source: LogSegment) -> None:
        """Write everything that was added before, and then append a run of unchanged batches of `source` to the new
        segment. The bytes are copied from the log file of `source`, which is only worthwhile if the run has at least
        `STRETCH` bytes.

        Raises `OffsetOverflowError` if an offset does not fit the indexes of the new segment, `FullIndexError` or
        `InvalidOffsetError` if a batch cannot be indexed.
        """
        self._check_run(run)
        self._end_stretch()
        self._end_piece()
        self._target.open_indexes()
        self._target.append_from(source, run)

    def put_run(self, run: BatchRun) -> None:
        """Add a run of consecutive batches whose bytes are in memory (`run.window`). A run of 1 MiB or more is written
        at once. The bytes of a smaller one are copied, and written later, at the latest by `finish`. The headers of
        `run` must not change until then.

        Raises `OffsetOverflowError` if an offset does not fit the indexes of the new segment, `FullIndexError` or
        `InvalidOffsetError` if a batch cannot be indexed.
        """
        self._check_run(run)
        self._end_stretch()
        if len(run.window) >= _PIECE:  # large enough to be appended alone
            self._end_piece()
            self._target.open_indexes()
            self._target.append_rewritten(bytes(run.window), [run])
            return
        self._piece += run.window
        self._batches.append(run)
        if len(self._piece) >= _PIECE:
            self._end_piece()

    def finish(self) -> None:
        """Append all batches that are still collected to the new segment. Raises `FullIndexError` or
        `InvalidOffsetError` if one cannot be indexed.
        """
        self._end_stretch()
        self._end_piece()

    def _check(self, last_offset: int) -> None:
        if not self._target.can_hold(last_offset):
            raise OffsetOverflowError(self._target, last_offset)

    def _check_run(self, run: BatchRun) -> None:
        self._check(run.fact(RunFacts.LEAST_LAST_OFFSET))
        self._check(run.fact(RunFacts.LARGEST_LAST_OFFSET))

    def _add(self, batch: RecordBatch | LogBatch) -> None:
        self._piece += batch.data
        self._batches.append((batch,))
        if len(self._piece) >= _PIECE:
            self._end_piece()

    def _end_stretch(self) -> None:
        stretch, self._stretch = self._stretch, []
        if self._stretch_bytes >= STRETCH and self._source is not None:
            self._end_piece()
            self._target.open_indexes()
            self._target.append_from(self._source, stretch)
        else:
            for batch in stretch:
                self._add(batch)
        self._stretch_bytes = 0

    def _end_piece(self) -> None:
        if self._piece:
            self._target.open_indexes()
            self._target.append_rewritten(bytes(self._piece), self._batches)
            self._piece, self._batches = bytearray(), []
