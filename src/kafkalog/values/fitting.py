"""Convert values to a column of one type: values that do not fit become null, without effect on the others."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["ARROW_MISFITS", "fitting"]

ARROW_MISFITS: tuple[type[Exception], ...] = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)
"""What Arrow raises where a value has no place in a type, or one type none in another."""


def fitting(
    values: Sequence[Any],
    make: Callable[[Any], pa.Array],
    type: pa.DataType,
    misfits: tuple[builtins.type[Exception], ...] = ARROW_MISFITS,
) -> tuple[pa.Array, list[int]]:
    """Convert values by `make`, which returns an array for a sequence of values. If it raises one of `misfits`, the
    values are split in halves, down to single ones that become null. Return one array of the type `type`, and the
    numbers of the rows that became null, in ascending order.
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
