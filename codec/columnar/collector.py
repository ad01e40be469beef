"""What compiled code fills where no Arrow batch is wanted: buffers, and nothing that headers say."""

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
    """Has the buffers that are wanted, for about so many rows and bytes."""

    def __init__(self, wanted: Iterable[ArrowBuffer], rows: int, most_bytes: int) -> None:
        self.buffers = ColumnBuffers(wanted, rows, most_bytes)

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self.buffers.count(Filled.ROWS)

    def add_headers(self, headers: Table, rows: npt.NDArray[np.int64], window_start: int = 0) -> None:
        """Note what columns need of the headers of batches that were decoded, and how many rows each has.

        Their positions count from `window_start`.
        """

    def reset(self) -> None:
        """Start over."""
        self.buffers.reset()
