"""Bounds for reading, derived from a filter. Arrow is asked whether rows with a guarantee, such as a range of offsets,
can pass it.

Therefore no filter is analyzed here. If Arrow cannot decide, more rows are read than necessary.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from msgspec import Struct
from pyarrow.fs import LocalFileSystem

from kafkalog.codec.model import NO_END

__all__ = ["Reach"]

_FORMAT, _NOWHERE = ds.IpcFileFormat(), LocalFileSystem()
_HEXADECIMAL, _MOST_VALUES = re.compile(r"\b[0-9A-F]*\b"), 1000
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000, 253_402_300_800_000
"""ms since 1970 of the years 1 and 10000"""


class Reach(Struct, frozen=True):
    """The rows of a table that a pyarrow filter can let through; all rows if `filter` is None."""

    filter: Any
    schema: pa.Schema

    def may_pass(self, guarantee: Any) -> bool:
        """Return whether a row for which the pyarrow expression `guarantee` is true can pass the filter. Return True if
        that is unknown, or if there is no filter. Raises `pyarrow.ArrowException` for a filter with an unknown column
        or a comparison of types that Arrow does not compare.
        """
        if self.filter is None:
            return True
        fragment = _FORMAT.make_fragment("none", _NOWHERE, partition_expression=guarantee)
        dataset = ds.FileSystemDataset([fragment], self.schema, _FORMAT, _NOWHERE)
        return any(True for _ in dataset.get_fragments(filter=self.filter))

    def holds(self, name: str, value: str | int | None) -> bool:
        """Whether rows with this value in the column `name` can pass the filter; `value` None means null."""
        column = ds.field(name)
        return self.may_pass(
            column.is_null() if value is None else column == pa.scalar(value, self.schema.field(name).type)
        )

    def only_values(self, name: str) -> list[bytes] | None:
        """Return all values of the binary column `name` with which a row can pass the filter, in ascending order; empty
        if no row passes. Return None if there is no filter, or if its text has too many candidates. Return None also if
        the values cannot be determined, for example because null or a range of values passes.

        The text of a filter shows bytes as hexadecimal digits. All such texts are tried as values, and Arrow decides
        whether any value between them passes.
        """
        candidates = sorted({
            bytes.fromhex(text) for text in _HEXADECIMAL.findall(str(self.filter)) if not len(text) % 2
        })  # fmt: skip
        if len(candidates) > _MOST_VALUES or self.filter is None or self.may_pass(ds.field(name).is_null()):
            return None
        column, scalars = ds.field(name), [pa.scalar(each, pa.binary()) for each in candidates]
        between = [(column > low) & (column < high) for low, high in pairwise(scalars)]
        outside = [column < scalars[0], column > scalars[-1]] if scalars else [column.is_valid()]
        if any(self.may_pass(each) for each in (*between, *outside)):
            return None
        return [each for each in candidates if self.may_pass(column == pa.scalar(each, pa.binary()))]

    def start_offset(self) -> int:
        """Return the largest offset below which no row passes the filter: 0 if rows of any offset can pass, `NO_END` if
        none can.
        """
        return _least(0, NO_END, lambda end: self.may_pass(ds.field("offset") < pa.scalar(end, pa.int64())))

    def end_offset(self) -> int:
        """Return the smallest offset from which on no row passes the filter: `NO_END` if rows of any offset can pass, 0
        if none can.
        """
        return _least(0, NO_END, lambda begin: not self.may_pass(ds.field("offset") >= pa.scalar(begin, pa.int64())), 0)

    def start_timestamp(self) -> int | None:
        """Return a timestamp (ms since 1970) such that no earlier row can pass the filter, as large as possible;
        `_LAST_TIME` if no row can pass. Return None if rows before `_FIRST_TIME` or without a timestamp can pass.
        """

        def may_pass(end: int) -> bool:
            return self.may_pass(ds.field("timestamp") < pa.scalar(end * 1000, pa.timestamp("us", "UTC")))

        if may_pass(_FIRST_TIME) or self.may_pass(ds.field("timestamp").is_null()):
            return None
        return _least(_FIRST_TIME, _LAST_TIME, may_pass)


def _least(low: int, high: int, is_true: Callable[[int], bool], back: int = 1) -> int:
    """Return the smallest number from `low` to `high` (inclusive) for which `is_true` returns True, minus `back`, but
    at least `low`. If there is no such number, return `high`. This is a binary search: if `is_true` returns True for a
    number, it must do so for all larger ones.
    """
    if not is_true(high):
        return high
    begin, end = low, high
    while begin < end:
        middle = (begin + end) // 2
        if is_true(middle):
            end = middle
        else:
            begin = middle + 1
    return max(begin - back, low)
