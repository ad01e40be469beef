"""Buffers that compiled code fills when no Arrow batch is wanted. The headers of batches are ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkalog.codec.columnar.buffers import ColumnBuffers
from kafkalog.codec.native.tables import ArrowBuffer, Filled

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.native.tables import Table

__all__ = ["Collector"]


class Collector:
    """Buffers for the wanted columns, at first large enough for about `rows` rows and `most_bytes` bytes."""

    def __init__(self, wanted: Iterable[ArrowBuffer], rows: int, most_bytes: int) -> None:
        self.buffers = ColumnBuffers(wanted, rows, most_bytes)

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return self.buffers.count(Filled.ROWS)

    def add_headers(self, headers: Table, rows: npt.NDArray[np.int64], window_start: int = 0) -> None:
        """Do nothing. A subclass remembers values of the headers of decoded batches; `rows` has the number of rows of
        each batch, and positions in `headers` count from `window_start`.
        """

    def reset(self) -> None:
        """Forget all rows."""
        self.buffers.reset()
