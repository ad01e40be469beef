"""Files of records that are not what their names say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.log.writing.record_files import read_record_file
from kafkalog.replay.offset_map import read_parquet


def test_damage_inside_a_parquet_file_is_an_error_of_its_format(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    numbers = list(range(5_000))
    columns = {"topic": ["t"] * 5_000, "partition": [0] * 5_000, "offset": numbers, "target_offset": numbers}
    pq.write_table(pa.table(columns), path, compression="gzip", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(FormatError, match="not what its name says"):
        list(read_record_file(path))
    with pytest.raises(UsageError, match="is not the map of a replay"):
        read_parquet(str(path), [("t", 0)])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows", ".jsonl"])
def test_a_directory_in_place_of_a_file_is_an_error_of_the_disk(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"records{suffix}"
    path.mkdir()
    with pytest.raises(StorageError, match="directory"):
        list(read_record_file(path))
    with pytest.raises(StorageError, match="directory"):
        read_parquet(str(path), [("t", 0)])


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "\ud800"}, {"headers": [{"key": "a", "value": "b"}]}, {"headers": {"ab": "c"}}, {"headers": ["ab"]},
        {"headers": [["a"]]}, {"headers": [[None, "b"]]}, {"headers": 5}, {"partition": 2**31}, {"offset": "1"},
    ],
)  # fmt: skip
def test_a_line_with_a_field_of_another_form_is_no_record(fields: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps({"topic": "t", "value": "x", **fields}) + "\n")
    with pytest.raises(FormatError, match="line 1 is not a record of dump --json"):
        list(read_record_file(path))
