"""Tables of batch headers that a scan with checksums has confirmed, one for each log file.

The broker model, the search for sound batches and the verification examine the same segments. With a table, the file is
read only once. When the tables have used their memory, a file is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.codec.common.limits import MIB
from kafkalog.codec.native.library import is_there

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable

__all__ = ["HeaderTables"]

_KEPT_BYTES = 32 * MIB
"""Most bytes of columns over all files: enough for 300,000 batches."""


class HeaderTables:
    """Header tables by path of the log file. Without compiled code there are none."""

    def __init__(self) -> None:
        self._tables: dict[str, HeaderTable] = {}
        if is_there():
            from kafkalog.codec.headers.table import MemoryBudget

            self._room = MemoryBudget(_KEPT_BYTES)

    def of(self, path: str, size: int) -> HeaderTable | None:
        """Return the table for the headers in at least the first `size` bytes of the log file `path`; None without
        compiled code.

        The table is created at the first call, without reading the file. A table that covers fewer bytes is replaced by
        a new one.
        """
        if not is_there():
            return None
        from kafkalog.codec.headers.table import HeaderTable

        table = self._tables.get(path)
        if table is None or table.size < size:
            table = self._tables[path] = HeaderTable(size, self._room)
        return table
