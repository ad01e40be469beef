"""The entries of an index as columns of numpy: for a walk whose batches are columns, where numpy is loaded already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.index_files import bytes_by_piece
from kafkalog.codec.source import Source
from kafkalog.recovery.checks.index_entries import Entries

__all__ = ["EntryArrays", "arrays_by_piece"]


def arrays_by_piece(index: Source, layout: FixedLayout, *, end: int) -> Iterator[tuple[int, Any]]:
    """As `slots_by_piece`, each piece an array of structures of two fields."""
    kind = layout.dtype()
    for number, piece in bytes_by_piece(index, layout.size, end=end):
        yield number, np.frombuffer(piece, kind)


class EntryArrays(Entries):
    """Entries of an index whose pieces are arrays, as `arrays_by_piece` gives them."""

    def _columns(self, entries: Any) -> tuple[Any, Any]:
        first, second = entries.dtype.names
        return self._with_last(self._firsts, entries[first]), self._with_last(self._seconds, entries[second])

    @staticmethod
    def _with_last(before: Sequence[int], column: Any) -> Any:
        found = np.empty(len(column) + 1, np.int64)
        found[0], found[1:] = before[-1], column
        return found

    def _increasing(self, firsts: Any, seconds: Any) -> int:
        increase = firsts[1:] > firsts[:-1]
        increase &= seconds[1:] >= seconds[:-1] if self._order.may_repeat else seconds[1:] > seconds[:-1]
        if self._order.never is not None:
            first, second = self._order.never
            increase &= (firsts[1:] != first) | (seconds[1:] != second)
        return len(increase) if increase.all() else int(increase.argmin())

    def _joined(self, parts: list[Sequence[int]]) -> Any:
        return np.concatenate(parts) if parts else np.empty(0, np.int64)
