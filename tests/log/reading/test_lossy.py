"""What tables cannot hold of records is never left out without a word: times, and names of headers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.time_units import unit_of
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Header, Record, TimestampType
from kafkalog.log import open_partition
from testkit.running.command import kafkalog as command

NOW_S = 1_764_000_000


def log_of(path: Path, times: list[int], names: list[str] | None = None) -> Path:
    directory = path / "t-0"
    directory.mkdir(parents=True)
    records = [
        Record(n, time, TimestampType.CREATE_TIME, b"k", b"v", () if names is None else (Header(names[n], b"x"),))
        for n, time in enumerate(times)
    ]
    (directory / f"{0:020}.log").write_bytes(build_batch(records))
    return directory


@pytest.mark.parametrize("time", [NOW_S * 10**9, 2**63 - 1, 2**62])
def test_a_time_that_no_table_can_hold_fails_unless_a_caller_says_otherwise(time: int, tmp_path: Path) -> None:
    partition = open_partition(log_of(tmp_path, [1000, time]))
    with pytest.raises(FormatError, match="beyond what a table can hold") as raised:
        partition.to_arrow().read_all()
    assert raised.value.finding is not None
    assert (raised.value.finding.code, raised.value.finding.offset) == (FindingCode.TIMESTAMP_OUT_OF_RANGE, 1)
    findings: list[Finding] = []
    table = partition.to_arrow(findings=findings, on_damage="stop").read_all()
    assert table["timestamp"].null_count == 1
    assert [each.code for each in findings] == [FindingCode.TIMESTAMP_OUT_OF_RANGE]
    assert [each.timestamp for each in partition.records()] == [1000, time]
    assert partition.to_arrow(["offset", "value"]).read_all().num_rows == 2


@pytest.mark.parametrize(
    ("time", "unit"),
    [
        (NOW_S, "seconds"), (NOW_S * 1000, None), (NOW_S * 10**6, "microseconds"), (NOW_S * 10**9, "nanoseconds"),
        (-1, None), (0, None), (1000, None), (2**63 - 1, None),
    ],
)  # fmt: skip
def test_the_unit_that_times_look_like_is_named(time: int, unit: str | None, tmp_path: Path) -> None:
    assert unit_of(time) == unit
    report = kafkalog.verify(log_of(tmp_path, [time, time]))
    found = [each for each in report.findings if each.code is FindingCode.TIMESTAMP_UNIT]
    assert [each.severity for each in found] == ([] if unit is None else [Severity.INFO])
    assert all(f"look like {unit}" in each.detail for each in found)


def test_a_header_name_that_is_not_utf8_is_told_and_comes_back(tmp_path: Path) -> None:
    names = ["plain", "n\udcff\udc80"]
    partition = open_partition(log_of(tmp_path, [1000, 1001], names))
    findings: list[Finding] = []
    partition.to_arrow(findings=findings, on_damage="stop").read_all()
    assert [(each.code, each.offset) for each in findings] == [(FindingCode.HEADER_KEY_NOT_TEXT, 1)]
    with pytest.warns(RuntimeWarning, match="not UTF-8"):
        partition.to_arrow().read_all()
    lines = tmp_path / "records.jsonl"
    lines.write_text(command("dump", partition.path, "--json").out)
    assert json.loads(lines.read_text().splitlines()[1])["headers"][0][0] == names[1]
    done = command("build", lines, "--into", tmp_path / "built", "--topic", "again")
    assert done.code in (0, 2), done.err
    (again,) = kafkalog.open(tmp_path / "built").partitions
    assert [each.headers[0].key for each in again.records()] == names


def test_text_with_all_of_unicode_is_no_finding(tmp_path: Path) -> None:
    partition = open_partition(log_of(tmp_path, [1000, 1001], ["grüße", "\U0001f600"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert partition.to_arrow().read_all().num_rows == 2


@pytest.mark.parametrize("batch_rows", [1, 3, 65_536])
def test_rows_before_a_time_that_no_table_can_hold_are_given(batch_rows: int, tmp_path: Path) -> None:
    """However many rows an Arrow batch has."""
    partition = open_partition(log_of(tmp_path, [1000, 2000, 2**62, 3000, 2**62]))
    batches: list[pa.RecordBatch] = []
    with pytest.raises(FormatError, match="beyond what a table can hold") as raised:
        batches.extend(partition.to_arrow(["offset", "timestamp"], batch_rows=batch_rows))
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == [0, 1]
    assert raised.value.finding is not None
    assert raised.value.finding.offset == 2
