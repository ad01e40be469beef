"""Convert the records of runs (consecutive v2 batches in one window of a file) without an Arrow batch: to objects, or
lines of JSON or text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from kafkalog.codec.columnar.builder import RecordBatchBuilder
from kafkalog.codec.columnar.run_decoder import RunDecoder
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.common.limits import MIB, Limits
from kafkalog.codec.native.handed_back import HandedBack
from kafkalog.codec.native.tables import ArrowBuffer, Filled

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["OfRuns"]

Piece = TypeVar("Piece")
_ROWS, _BYTES = 8 * 1024, MIB


class OfRuns(ABC, Generic[Piece]):
    """Converter of runs (consecutive batches of one partition) to pieces, such as lists or text. It makes one piece for
    every few thousand records.
    """

    columns: Sequence[str]
    """columns that `make` needs"""

    def __init__(self, limits: Limits) -> None:
        self.builder = RecordBatchBuilder(record_schema(self.columns), None, None, _ROWS, _BYTES)
        self.decoder = RunDecoder(self.builder, limits, _ROWS, _BYTES)

    @abstractmethod
    def make(self) -> Piece | None:
        """Return a piece made of the decoder's buffers; None if it must be made in Python."""

    def pieces(self, run: BatchRun, low: npt.NDArray[np.int64], high: int) -> Iterator[Piece | HandedBack]:
        """Yield the pieces with the wanted records of a run in order. Records with offsets from `low` (one bound for
        each batch) to `high` (exclusive) are wanted. Yield a `HandedBack` (range of batch numbers) in place of batches
        that compiled code did not decode. Yield one also in place of a piece if one of its timestamps is beyond Arrow's
        range or `make` returned None; its range has all batches of the piece.
        """
        begin = 0
        for handed in self.decoder.decode_run(run, low, high):
            if handed is None:
                yield from self._of(begin, self.decoder.reached)
                begin = self.decoder.reached
            else:
                yield from self._of(begin, handed.start)
                yield handed
                begin = handed.stop
        yield from self._of(begin, len(run))

    def _of(self, begin: int, end: int) -> Iterator[Piece | HandedBack]:
        if self.decoder.is_empty:
            return
        # a null timestamp is a number that Arrow cannot hold
        piece = self.make() if self.builder.buffers.count(Filled.TIMESTAMP_NULLS) == 0 else None
        self.decoder.drop()
        yield HandedBack(begin, end) if piece is None else piece

    # -- what the buffers hold ---------------------------------------------------------------------------------------

    def data_of(self, name: str) -> bytes:
        """Return the bytes of the field `name` of all rows, one after another. Fields are `KEY`, `VALUE`, `HEADER_KEY`
        and `HEADER_VALUE`; for the last two, here and below, each header is a row.
        """
        buffers = self.builder.buffers
        return buffers.view(ArrowBuffer[name], np.uint8, buffers.count(Filled[name])).tobytes()

    def ends_of(self, name: str, rows: int) -> list[int]:
        """Return the start of the first row's bytes, followed by the end of each row's."""
        ends: list[int] = self.builder.buffers.view(ArrowBuffer[f"{name}_ENDS"], np.int32, rows + 1).tolist()
        return ends

    def nulls_of(self, name: str, rows: int) -> list[int]:
        """Return the indexes of the rows in which the field `name` is null, in ascending order; empty if none is."""
        buffers, nulls = self.builder.buffers, f"{name}_NULLS"
        if nulls not in Filled.__members__ or buffers.count(Filled[nulls]) == 0:
            return []
        null_rows: list[int] = np.flatnonzero(buffers.view(ArrowBuffer[f"{name}_VALID"], np.uint8, rows) == 0).tolist()
        return null_rows

    def bytes_of(self, name: str, rows: int) -> list[bytes | None]:
        """Return the values of the field `name` in each of the `rows` rows, as bytes; None for a null."""
        data = self.data_of(name)
        values: list[bytes | None] = [data[start:end] for start, end in pairwise(self.ends_of(name, rows))]
        for row in self.nulls_of(name, rows):
            values[row] = None
        return values
