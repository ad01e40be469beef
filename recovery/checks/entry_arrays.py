"""Read the entries of an index as arrays, for checks that have loaded numpy already."""

from __future__ import annotations

from typing import Any

from kafkalog.codec.headers.index_columns import continued, increasing, joined
from kafkalog.recovery.checks.index_entries import Entries

__all__ = ["EntryArrays"]


class EntryArrays(Entries):
    """Entries of an index whose pieces are arrays, as `arrays_by_piece` yields them."""

    def _columns(self, entries: Any) -> tuple[Any, Any]:
        first, second = entries.dtype.names
        return continued(self._firsts, entries[first]), continued(self._seconds, entries[second])

    def _increasing(self, firsts: Any, seconds: Any) -> int:
        return increasing(firsts, seconds, may_repeat=self._order.may_repeat, never=self._order.never)

    def _joined(self, parts: Any) -> Any:
        return joined(parts)
