"""Kafka's log directories as a LazyFrame of Polars, which passes columns, filters and the number of rows down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from polars.io.plugins import register_io_source

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.disk.files import PathLike
from kafkalog.values.table_scan import TableScan
from kafkalog.values.tables import KafkaTable

__all__ = ["scan"]

_COMPARED = {"Eq": "__eq__", "Lt": "__lt__", "LtEq": "__le__", "Gt": "__gt__", "GtEq": "__ge__"}
_MIRRORED = {"Eq": "Eq", "Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_CLOSED = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}
"""the two comparisons of `is_between` for each value of its argument `closed`"""
_PLACES = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
"""columns whose comparisons say where rows can be, with those of `timestamp`"""
_MICROSECONDS = {"Milliseconds": 1000, "Microseconds": 1, "Nanoseconds": 0}


def scan(
    request: TableScan | PathLike,
    *paths: PathLike,
    findings: list[Finding] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> pl.LazyFrame:
    """Return the records as a LazyFrame. `request` is a `TableScan` (which records, in which columns) or the first of
    the paths: log directories, partitions or segments. Records are read only when the frame is collected, and the list
    `findings` is extended then; directories are opened, and `UsageError` raised, at once. Opening raises `StorageError`
    if a file cannot be read; collecting raises that too, and `FormatError` at damage.

    Comparisons of `topic`, `partition`, `offset` and `timestamp` can reduce what is read; every filter is applied.
    """
    table = KafkaTable(request, *paths, findings=findings, limits=limits)

    def batches(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        needed = None if columns is None else {*columns, *(() if predicate is None else predicate.meta.root_names())}
        names = [name for name in table.schema.names if needed is None or name in needed]
        left = rows  # Polars counts rows before it filters them, so that none may be passed over
        for batch in table.read(names, None if predicate is None or rows is not None else _places(predicate)):
            if left is not None and left <= 0:
                return
            found = pl.DataFrame(pl.from_arrow(batch))
            if left is not None:
                found = found.head(left)
                left -= len(found)
            if predicate is not None:
                found = found.filter(predicate)
            yield found if columns is None else found.select(columns)

    empty = pl.DataFrame(pl.from_arrow(table.schema.empty_table()))
    return register_io_source(batches, schema=empty.schema, is_pure=True)


def _places(predicate: pl.Expr) -> Any:
    """Condition on the position of rows that a filter implies, for pyarrow; None if it implies none that is understood.

    Terms joined by "and" that are not understood are left out: then more rows are read.
    """
    try:
        return _term(json.loads(predicate.meta.serialize(format="json")))
    except (pl.exceptions.PolarsError, ValueError, TypeError, KeyError, AttributeError, ImportError):
        return None


def _term(term: Any) -> Any:
    if not isinstance(term, dict):
        return None
    if "Function" in term:
        return _between(term["Function"])
    if "BinaryExpr" not in term:
        return None
    inner = term["BinaryExpr"]
    left, operator, right = inner["left"], inner["op"], inner["right"]
    if operator in ("And", "LogicalAnd"):
        return _joined(_term(left), _term(right))
    return _comparison(left, operator, right)


def _joined(left: Any, right: Any) -> Any:
    """Return a condition that rows of both conditions pass; None for one of them means that it is not known."""
    found = [each for each in (left, right) if each is not None]
    return found[0] & found[1] if len(found) == 2 else (found[0] if found else None)


def _between(function: Any) -> Any:
    """Return the condition of an `is_between` expression. If only one of its bounds is understood, return the condition
    of this bound. Return None if neither is, and for any other function.
    """
    match function:
        case {"input": [column, low, high], "function": {"Boolean": {"IsBetween": {"closed": closed}}}}:
            lower, upper = _CLOSED[closed]
            return _joined(_comparison(column, lower, low), _comparison(column, upper, high))
    return None


def _comparison(left: Any, operator: str, right: Any) -> Any:
    if operator not in _COMPARED:
        return None
    if "Column" in right:
        left, operator, right = right, _MIRRORED[operator], left
    if "Column" not in left or "Literal" not in right:
        return None
    value = _literal(right["Literal"], left["Column"])
    return None if value is None else getattr(ds.field(left["Column"]), _COMPARED[operator])(value)


def _literal(literal: Any, name: str) -> pa.Scalar | None:
    ((kind, value),) = literal.items()
    if kind in ("Scalar", "Dyn"):
        ((kind, value),) = value.items()
    if name == "key":
        return pa.scalar(bytes(value), pa.binary()) if kind == "Binary" else None
    if name == "timestamp" and kind.startswith("Datetime"):
        number, unit, *_ = value
        return pa.scalar(number * _MICROSECONDS[unit], pa.timestamp("us", "UTC")) if _MICROSECONDS[unit] else None
    if name in _PLACES and isinstance(value, str if name == "topic" else int) and not isinstance(value, bool):
        return pa.scalar(value, _PLACES[name])
    return None
