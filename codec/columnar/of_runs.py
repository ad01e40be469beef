"""Something made of the records of runs without an Arrow batch: objects, lines of JSON or of text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from kafkalog.codec.columnar.builder import RecordBatchBuilder
from kafkalog.codec.columnar.run_decoder import RunDecoder
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.handed_back import HandedBack
from kafkalog.codec.limits import MIB, Limits
from kafkalog.codec.native.tables import ArrowBuffer, Filled

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["OfRuns"]

Piece = TypeVar("Piece")
_ROWS, _BYTES = 8 * 1024, MIB


class OfRuns(ABC, Generic[Piece]):
    """Decodes runs of one partition and makes a piece of each few thousand records."""

    columns: Sequence[str]
    """that `make` needs"""

    def __init__(self, limits: Limits) -> None:
        self.builder = RecordBatchBuilder(record_schema(self.columns), None, None, _ROWS, _BYTES)
        self.decoder = RunDecoder(self.builder, limits, _ROWS, _BYTES)

    @abstractmethod
    def make(self) -> Piece | None:
        """A piece of what the decoder's buffers hold; None where the readable way has to make it."""

    def pieces(self, run: BatchRun, low: npt.NDArray[np.int64], high: int) -> Iterator[Piece | HandedBack]:
        """The records of each batch from `low` up to `high`, and what is handed back."""
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
        made = self.make() if self.builder.buffers.count(Filled.TIMESTAMP_NULLS) == 0 else None
        self.decoder.drop()
        yield HandedBack(begin, end) if made is None else made

    # -- what the buffers hold ---------------------------------------------------------------------------------------

    def data_of(self, name: str) -> bytes:
        """All bytes of a field: `KEY`, `VALUE`, `HEADER_KEY` or `HEADER_VALUE`."""
        buffers = self.builder.buffers
        return buffers.view(ArrowBuffer[name], np.uint8, buffers.count(Filled[name])).tobytes()

    def ends_of(self, name: str, rows: int) -> list[int]:
        """Where the bytes of each row end, behind where those of the first begin."""
        ends: list[int] = self.builder.buffers.view(ArrowBuffer[f"{name}_ENDS"], np.int32, rows + 1).tolist()
        return ends

    def nulls_of(self, name: str, rows: int) -> list[int]:
        """Rows in which a field is null."""
        buffers, nulls = self.builder.buffers, f"{name}_NULLS"
        if nulls not in Filled.__members__ or buffers.count(Filled[nulls]) == 0:
            return []
        found: list[int] = np.flatnonzero(buffers.view(ArrowBuffer[f"{name}_VALID"], np.uint8, rows) == 0).tolist()
        return found

    def bytes_of(self, name: str, rows: int) -> list[bytes | None]:
        """A field of each row."""
        data = self.data_of(name)
        found: list[bytes | None] = [data[start:end] for start, end in pairwise(self.ends_of(name, rows))]
        for row in self.nulls_of(name, rows):
            found[row] = None
        return found
