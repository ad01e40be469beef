"""The new segment that the cleaner writes: batches that stay as they are are not copied piece by piece."""

from __future__ import annotations

from kafkalog.codec.limits import KIB, MIB
from kafkalog.codec.model import RecordBatch
from kafkalog.log.storage.java import OffsetOverflowError
from kafkalog.log.storage.log_file import LogBatch
from kafkalog.log.storage.segment import AnyBatch, LogSegment

__all__ = ["CleanedOutput"]

_STRETCH = 64 * KIB
"""From how many bytes on batches that follow each other are taken over as a part of the old file."""
_PIECE = MIB
"""What is held at a time."""


class CleanedOutput:
    """Gathers what is kept of several segments, in order, and appends it to the new one in large pieces."""

    def __init__(self, target: LogSegment) -> None:
        self._target = target
        self._source: LogSegment | None = None
        self._stretch: list[LogBatch] = []
        self._stretch_bytes = 0
        self._piece = bytearray()
        self._batches: list[AnyBatch] = []

    def keep(self, batch: LogBatch, source: LogSegment) -> None:
        """A batch stays as it is."""
        self._check(batch)
        last = self._stretch[-1] if self._stretch else None
        follows = last is not None and source is self._source and last.position + last.size == batch.position
        if not follows or self._stretch_bytes >= _PIECE:
            self._end_stretch()
        self._source = source
        self._stretch.append(batch)
        self._stretch_bytes += batch.size

    def write(self, batch: RecordBatch) -> None:
        """A batch that was rewritten."""
        self._check(batch)
        self._end_stretch()
        self._add(batch)

    def finish(self) -> None:
        """Append what is left."""
        self._end_stretch()
        self._end_piece()

    def _check(self, batch: AnyBatch) -> None:
        if not self._target.can_hold(batch.last_offset):
            raise OffsetOverflowError(self._target, batch.last_offset)

    def _add(self, batch: RecordBatch | LogBatch) -> None:
        self._piece += batch.data
        self._batches.append(batch)
        if len(self._piece) >= _PIECE:
            self._end_piece()

    def _end_stretch(self) -> None:
        stretch, self._stretch = self._stretch, []
        if self._stretch_bytes >= _STRETCH and self._source is not None:
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
