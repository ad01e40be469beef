"""Tables of batch headers that a scan with checksums confirmed, one for each log file. The model of the broker, the
search for sound batches and the verification examine the same segments. With a table the file is read once. If the
tables are full, it is read again; for small work there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalog.codec.common.limits import KIB, MIB
from kafkalog.codec.native.thresholds import headers_are_worth_it

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["HeaderTables"]

_SMALLEST_FILE = 64 * KIB
"""Smallest file for which a table saves time."""
_KEPT_BYTES = 32 * MIB
"""Most bytes of columns over all files: enough for 300,000 batches."""


class HeaderTables:
    """Header tables by path of the log file. `work_bytes` is the size of all logs together; `batch_bytes` returns the
    approximate size of their batches.
    """

    def __init__(self, work_bytes: int, batch_bytes: Callable[[], int]) -> None:
        self._is_worthwhile = headers_are_worth_it(work_bytes, batch_bytes)
        self._tables: dict[str, HeaderTable] = {}
        if self._is_worthwhile:
            from kafkalog.codec.headers.table import MemoryBudget

            self._room = MemoryBudget(_KEPT_BYTES)

    @property
    def is_worthwhile(self) -> bool:
        """Whether the work is large enough for tables."""
        return self._is_worthwhile

    def of(self, path: str, size: int) -> HeaderTable | None:
        """Return the table for the headers in at least the first `size` bytes of the log file `path`; None if a table
        would not save time, because the work or the file is small. It is made at the first call, without reading the
        file, and a table that covers less is replaced by a new one.
        """
        if not self._is_worthwhile or size < _SMALLEST_FILE:
            return None
        from kafkalog.codec.headers.table import HeaderTable

        table = self._tables.get(path)
        if table is None or table.size < size:
            table = self._tables[path] = HeaderTable(size, self._room)
        return table
