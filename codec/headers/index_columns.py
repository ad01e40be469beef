"""The entries of an index as columns, for checks beside batches that are columns too.  Needs numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.index_files import bytes_by_piece
from kafkalog.codec.source import Source

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["arrays_by_piece", "continued", "increasing", "joined"]

Int64s: TypeAlias = "npt.NDArray[np.int64]"


def arrays_by_piece(index: Source, layout: FixedLayout, *, end: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """As `slots_by_piece`, each piece an array of structures."""
    kind = layout.dtype()
    for number, piece in bytes_by_piece(index, layout.size, end=end):
        yield number, np.frombuffer(piece, kind)


def continued(before: Sequence[int], column: npt.NDArray[Any]) -> Int64s:
    """A column, and in front of it the last number of the one before."""
    found = np.empty(len(column) + 1, np.int64)
    found[0], found[1:] = before[-1], column
    return found


def increasing(firsts: Int64s, seconds: Int64s, *, may_repeat: bool, never: tuple[int, int] | None) -> int:
    """How many entries after the first one increase from it on; the second field may repeat, one entry counts never."""
    increase = firsts[1:] > firsts[:-1]
    increase &= seconds[1:] >= seconds[:-1] if may_repeat else seconds[1:] > seconds[:-1]
    if never is not None:
        increase &= (firsts[1:] != never[0]) | (seconds[1:] != never[1])
    return len(increase) if increase.all() else int(increase.argmin())


def joined(parts: list[Int64s]) -> Int64s:
    """Parts of a column as one."""
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
