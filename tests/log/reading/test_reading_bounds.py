"""Columns of some offsets ask for little more of the log than these: from the index to the index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkalog import Log, LogConfig, NewRecord, RecordFilter, open_partition
from kafkalog.log.disk.files import FileSource

RECORDS, IN_A_BATCH, BYTES = 60_000, 100, 150
LITTLE, FOR_TIMES = 320 << 10, 512 << 10
"""what two proofs and two ends of a window may take, and what looking for two times takes beside that"""


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bounded") / "t-0"
    values, clock = np.random.default_rng(7), 1_700_000_000_000
    with Log.open(path, LogConfig(segment_bytes=1 << 30)) as log:
        for base in range(0, RECORDS, IN_A_BATCH):
            batch = [
                NewRecord(values.bytes(BYTES), b"%d" % (base + number), timestamp=clock + base + number)
                for number in range(IN_A_BATCH)
            ]
            log.append(batch)
    return path


BOUNDS: list[dict[str, Any]] = [
    {"start_offset": 30_050, "end_offset": 31_070},
    {"start_timestamp": 1_700_000_030_050, "end_timestamp": 1_700_000_031_070},
    {"start_offset": 0, "end_offset": 1020},
    {"start_offset": 59_100},
]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_what_is_not_wanted_is_not_read(
    partition: Path, bounds: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, asked = open_partition(partition), 0
    read, read_into = FileSource.read, FileSource.read_into

    def counting(source: FileSource, position: int, size: int) -> bytes | memoryview:
        nonlocal asked
        found = read(source, position, size)
        asked += len(found)
        return found

    def counting_into(source: FileSource, position: int, target: memoryview) -> int:
        nonlocal asked
        found = read_into(source, position, target)
        asked += found
        return found

    monkeypatch.setattr(FileSource, "read", counting)
    monkeypatch.setattr(FileSource, "read_into", counting_into)
    table = opened.to_arrow(["offset", "value"], RecordFilter(**bounds), threads=1).read_all()
    low = bounds.get("start_offset", 30_050)
    high = bounds.get("end_offset", 31_070 if "end_timestamp" in bounds else RECORDS)
    assert table["offset"].to_pylist() == list(range(low, high))
    whole = opened.size
    assert whole > 9 << 20
    little = LITTLE + (FOR_TIMES if "start_timestamp" in bounds else 0)
    assert asked < (high - low) * whole // RECORDS + little
