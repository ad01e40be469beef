"""Entries of an index as numpy columns, for checks against batches in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kafkalog.codec.common.source import Source
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import bytes_by_piece

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["arrays_by_piece", "continued", "increasing", "joined"]

Int64s: TypeAlias = "npt.NDArray[np.int64]"


def arrays_by_piece(index: Source, layout: FixedLayout, *, end: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Read an index as `slots_by_piece` does, up to byte `end` (exclusive); yield the number of a piece's first entry
    and all its entries as an array of structures.
    """
    kind = layout.dtype()
    for number, piece in bytes_by_piece(index, layout.size, end=end):
        yield number, np.frombuffer(piece, kind)


def continued(before: Sequence[int], column: npt.NDArray[Any]) -> Int64s:
    """Return the column with the last number of the previous piece in front."""
    joined_column = np.empty(len(column) + 1, np.int64)
    joined_column[0], joined_column[1:] = before[-1], column
    return joined_column


def increasing(firsts: Int64s, seconds: Int64s, *, may_repeat: bool, never: tuple[int, int] | None) -> int:
    """Return the number of entries after the first that increase without interruption (0 for one entry). The first
    field must increase; the second must increase too, or not decrease if `may_repeat`. An entry equal to `never`, such
    as an empty slot, counts as not increasing.
    """
    increase = firsts[1:] > firsts[:-1]
    increase &= seconds[1:] >= seconds[:-1] if may_repeat else seconds[1:] > seconds[:-1]
    if never is not None:
        increase &= (firsts[1:] != never[0]) | (seconds[1:] != never[1])
    return len(increase) if increase.all() else int(increase.argmin())


def joined(parts: list[Int64s]) -> Int64s:
    """Return the parts of a column as one array; an empty one for no parts."""
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
