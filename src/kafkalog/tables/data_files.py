"""Data files of a table: one per partition and day, sorted by offset, so that readers can prune by offset and by time.

Row groups are filled as far as memory allows. If several days are open at once, they share the memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import MIB
from kafkalog.log.disk import fs
from kafkalog.log.writing.columns_file import ColumnsFile

__all__ = ["DATE", "NO_DATE", "DataFile", "PartitionFiles", "made_directories"]

DATE = pa.field("date", pa.date32())
"""column with the day, whose name is also that of its folders; null for rows without a day"""
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""folder name that Hive, and every reader of its folders, takes for null"""
_ROWS_OF_A_GROUP = 128 * 1024
_BYTES_OF_A_GROUP = 32 * MIB
_BYTES_WAITING = 64 * MIB
"""bytes of rows that wait for full row groups, in all files of a partition together"""
_MOST_OPEN = 16
_MOST_FILES = 10_000
_MICROSECONDS = 86_400_000_000
_FIRST_DAY = date(1970, 1, 1)
_FIRST, _LAST = date.min.toordinal() - _FIRST_DAY.toordinal(), date.max.toordinal() - _FIRST_DAY.toordinal()

Day = int | None
"""days since 1970; None for rows without a time"""


class DataFile(Struct, kw_only=True):
    """A data file that was written completely."""

    path: str
    partition: int
    day: Day
    rows: int = 0
    size: int = 0
    first_offset: int = 0
    last_offset: int = 0
    times: tuple[int, int] | None = None
    """earliest and latest timestamp in microseconds"""
    untimed: int = 0
    """number of rows without a timestamp"""
    metadata: list[Any] = field(default_factory=list)
    """the file's own Parquet metadata, as a list with one element"""

    @property
    def date(self) -> str | None:
        """Day as `YYYY-MM-DD`, as in folder names; None for rows without a time, and for years that do not have four
        digits.
        """
        return None if self.day is None or not _FIRST <= self.day <= _LAST else str(_FIRST_DAY + timedelta(self.day))


class _Open:
    """A file that is being written, with the rows that wait for a full row group."""

    def __init__(self, file: DataFile, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        self.file = file
        self._columns = ColumnsFile(
            file.path, schema, parquet=True, anywhere=True, options={**options, "metadata_collector": file.metadata}
        )
        self._columns.__enter__()
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_rows = self.waiting_bytes = 0

    def add(self, batch: pa.RecordBatch, offsets: pa.Array, times: pa.Array) -> None:
        file = self.file
        if not file.rows:
            file.first_offset = offsets[0].as_py()
        file.last_offset = offsets[-1].as_py()
        file.rows += batch.num_rows
        file.untimed += times.null_count
        bounds = pc.min_max(times.cast(pa.int64())).as_py()
        if bounds["min"] is not None:
            low, high = file.times or (bounds["min"], bounds["max"])
            file.times = min(low, bounds["min"]), max(high, bounds["max"])
        self._waiting.append(batch)
        self.waiting_rows += batch.num_rows
        self.waiting_bytes += batch.nbytes
        if self.waiting_rows >= _ROWS_OF_A_GROUP or self.waiting_bytes >= _BYTES_OF_A_GROUP:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._columns.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0

    def finish(self) -> DataFile:
        self.flush()
        self._columns.__exit__(None, None, None)
        self.file.size = self._columns.size
        return self.file

    def give_up(self) -> None:
        self._columns.__exit__(KeyboardInterrupt, None, None)


class PartitionFiles:
    """Writer of the Parquet files of one partition in one round. In a round, an export writes files of all partitions
    and then commits them to the table in one step.

    `place` returns the path of a new file; it is called with the file and its number, from 0. `schema` is the schema of
    the files, without the columns that the folder names contain; `options` are passed to pyarrow's `ParquetWriter`.
    """

    def __init__(
        self, partition: int, place: Callable[[DataFile, int], str], schema: pa.Schema, options: Mapping[str, Any],
        *, by_day: bool,
    ) -> None:  # fmt: skip
        self._partition, self._place, self._schema, self._by_day = partition, place, schema, by_day
        self._options = {"write_page_index": True, **options}
        self._open: dict[Day, _Open] = {}
        self.finished: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows, which must be in offset order, to the file of their day (UTC). Rows without a time have their own
        file, and without `by_day` there is only one file. Files are created as necessary; rows are kept in memory up to
        a limit.

        Raises `UsageError` if the times change between days so often that too many files are needed. Raises
        `StorageError` if a file cannot be written.
        """
        days = _days(batch.column("timestamp")) if self._by_day else None
        if days is None:
            self._add(None, batch)
            return
        # in the order of their rows: files then have the same numbers however the rows are divided into batches
        met = days.unique().to_pylist()
        if len(met) == 1:
            self._add(met[0], batch)
            return
        for day in met:
            self._add(day, batch.filter(days.is_null() if day is None else pc.equal(days, day)))

    def _add(self, day: Day, batch: pa.RecordBatch) -> None:
        open_file = self._open.pop(day, None)
        if open_file is None:
            open_file = self._begin(day)
        self._open[day] = open_file  # the one that was used last is the last
        columns = pa.RecordBatch.from_arrays(
            [
                _dates(open_file.file, each.type, batch.num_rows) if each.name == DATE.name
                else batch.column(each.name).cast(each.type)
                for each in self._schema
            ],
            schema=self._schema,
        )  # fmt: skip
        open_file.add(columns, batch.column("offset"), batch.column("timestamp"))
        if sum(each.waiting_bytes for each in self._open.values()) >= _BYTES_WAITING:
            for each in self._open.values():
                each.flush()

    def _begin(self, day: Day) -> _Open:
        if len(self.finished) + len(self._open) >= _MOST_FILES:
            raise UsageError(
                f"the times of partition {self._partition} go from day to day and back so often that they need more "
                f"than {_MOST_FILES} files: export it without dates"
            )
        if len(self._open) >= _MOST_OPEN:
            self.finished.append(self._open.pop(next(iter(self._open))).finish())
        file = DataFile(path="", partition=self._partition, day=day)
        file.path = self._place(file, len(self.finished) + len(self._open))
        return _Open(file, self._schema, self._options)

    def finish(self) -> list[DataFile]:
        """Close all files, rename them to their final names, and return all files of the round, in the order in which
        they were finished. Raises `StorageError` if a file cannot be written or renamed.
        """
        while self._open:
            self.finished.append(self._open.pop(next(iter(self._open))).finish())
        return self.finished

    def give_up(self) -> None:
        """Remove all files of the round, finished or not."""
        for each in self._open.values():
            each.give_up()
        for file in self.finished:
            fs.remove(file.path)


def _dates(file: DataFile, type: pa.DataType, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(None if file.date is None else file.day, pa.int32()).cast(type), rows)


def _days(timestamps: pa.Array) -> pa.Array:
    whole = timestamps.cast(pa.int64())
    days = np.floor_divide(pc.fill_null(whole, 0).to_numpy(zero_copy_only=False), _MICROSECONDS)
    return pa.array(days, pa.int64(), mask=np.asarray(whole.is_null()))


def made_directories(root: str, *names: str) -> str:
    """Create the directories `names` below `root`, which must exist, each inside the one before; existing ones are
    kept. Return the path of the last one. Raises `StorageError` if one cannot be created.
    """
    path = root
    for name in names:
        path = os.path.join(path, name)
        if not os.path.isdir(path):
            fs.make_directory(path)
    return path
