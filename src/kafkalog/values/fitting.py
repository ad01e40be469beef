"""Conversion of values to a column of one type. Values that do not fit become null; the others are not affected."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["ARROW_MISFITS", "fitting"]

ARROW_MISFITS: tuple[type[Exception], ...] = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)
"""Errors that Arrow raises if a value does not fit a type, or a type cannot be converted to another."""


def fitting(
    values: Sequence[Any],
    make: Callable[[Any], pa.Array],
    type: pa.DataType,
    misfits: tuple[builtins.type[Exception], ...] = ARROW_MISFITS,
) -> tuple[pa.Array, list[int]]:
    """Convert values to one array of the type `type`. A value that does not fit becomes null. Return the array, and the
    row numbers of these values in ascending order. `make` converts a sequence of values to an array. If it raises one
    of `misfits`, the values are split in halves and converted separately, down to single values. Other errors of `make`
    are passed on.
    """
    try:
        return make(values), []
    except misfits:
        if len(values) <= 1:
            return pa.nulls(len(values), type), [*range(len(values))]
    half = len(values) // 2
    first, lost = fitting(values[:half], make, type, misfits)
    second, more = fitting(values[half:], make, type, misfits)
    return pa.concat_arrays([first, second]), [*lost, *(half + each for each in more)]
