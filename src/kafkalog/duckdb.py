"""Kafka's log directories as a table for DuckDB, which passes the wanted columns and filters down.

import duckdb, kafkalog.duckdb
orders = kafkalog.duckdb.dataset(kafkalog.TableScan(topics="orders"), "data")
duckdb.sql("select count(*) from orders where partition = 0")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.disk.files import PathLike
from kafkalog.values.table_scan import TableScan
from kafkalog.values.tables import KafkaTable

__all__ = ["dataset"]


class _Dataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """The part of a dataset that DuckDB uses: its schema, and a scanner of some columns and rows."""

    def __init__(self, table: KafkaTable) -> None:
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        """All columns, in the order of every reader."""
        return self._table.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **options: Any) -> ds.Scanner:
        """Return a scanner of the named columns (None: all) and of exactly the rows that pass the filter (None: all
        rows), because DuckDB does not apply the filter again. Files are read as the scanner is read. Other options are
        ignored.
        """
        names = [name for name in self._table.schema.names if columns is None or name in columns]
        needed = self._table.schema.names if filter is not None else names
        if filter is not None:
            needed = [each for each in needed if each in names or _mentions(filter, each)]
        reader = self._table.reader(needed, filter)
        return ds.Scanner.from_batches(reader, columns=self.schema.names if columns is None else columns, filter=filter)


def _mentions(filter: Any, name: str) -> bool:
    """Whether a filter may need a column; its text has every name that it uses."""
    return name in str(filter)


def dataset(
    request: TableScan | PathLike,
    *paths: PathLike,
    findings: list[Finding] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ds.Dataset:
    """A dataset that `duckdb.sql` takes by its variable's name. Arguments and errors are those of
    `kafkalog.KafkaTable`.
    """
    return _Dataset(KafkaTable(request, *paths, findings=findings, limits=limits))
