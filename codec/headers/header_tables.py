"""Tables of what a walk with checksums proved, one for each log file and shared by everything that examines it.

The model of the broker, the search for what is sound and verification examine the same segments several times.  With a
table the file is read once; where its columns find no room they are read again.  Small work does without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalog.codec.limits import KIB, MIB
from kafkalog.codec.thresholds import headers_are_worth_it

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["HeaderTables"]

_SMALLEST_FILE = 64 * KIB
"""Below, columns cost more than they save."""
_KEPT_BYTES = 32 * MIB
"""Of columns, over all files: those of 300,000 batches."""


class HeaderTables:
    """The tables of log files, by their paths.

    `work_bytes` are those of all the logs, `batch_bytes` tells about how large their batches are.
    """

    def __init__(self, work_bytes: int, batch_bytes: Callable[[], int]) -> None:
        self._is_worthwhile = headers_are_worth_it(work_bytes, batch_bytes)
        self._tables: dict[str, HeaderTable] = {}
        if self._is_worthwhile:
            from kafkalog.codec.headers.table import MemoryBudget

            self._room = MemoryBudget(_KEPT_BYTES)

    @property
    def is_worthwhile(self) -> bool:
        """Whether tables are used at all."""
        return self._is_worthwhile

    def of(self, path: str, size: int) -> HeaderTable | None:
        """The table of the first `size` bytes of a file or of more; None where there had better be none."""
        if not self._is_worthwhile or size < _SMALLEST_FILE:
            return None
        from kafkalog.codec.headers.table import HeaderTable

        table = self._tables.get(path)
        if table is None or table.size < size:
            table = self._tables[path] = HeaderTable(size, self._room)
        return table
