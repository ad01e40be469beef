"""The files of one partition, whichever Arrow batches its rows come in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kafkalog.tables.data_files import DataFile, PartitionFiles

DAY_US = 86_400_000_000


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_files_have_the_same_numbers_however_rows_are_divided(rows: int, tmp_path: Path) -> None:
    times = pa.array([3 * DAY_US, None, 5, 3 * DAY_US + 1, -1, None, 6], pa.timestamp("us", "UTC"))
    whole = pa.RecordBatch.from_arrays([pa.array(range(7), pa.int64()), times], ["offset", "timestamp"])
    numbers: dict[int | None, int] = {}

    def place(file: DataFile, number: int) -> str:
        numbers[file.day] = number
        return str(tmp_path / f"{number}.parquet")

    files = PartitionFiles(0, place, whole.schema, {}, by_day=True)
    for start in range(0, 7, rows):
        files.add(whole.slice(start, rows))
    assert sum(file.rows for file in files.finish()) == 7
    assert numbers == {3: 0, None: 1, 0: 2, -1: 3}
