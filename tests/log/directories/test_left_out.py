"""A log that is a link, a FIFO or a folder is in no result, and each reader says so. A broker opens what a link leads
to, and Java's `File.isFile` is false for the two others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import kafkalog
import kafkalog.duckdb
import kafkalog.polars
from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType

BASES = (0, 5, 10)
RECORDS = 5


def write(directory: Path) -> Path:
    """Write three segments of five records each."""
    directory.mkdir(parents=True)
    for base in BASES:
        records = [Record(base + i, 1, TimestampType.CREATE_TIME, b"k", b"v") for i in range(RECORDS)]
        (directory / f"{base:020}.log").write_bytes(build_batch(records))
    return directory


def link(log: Path) -> None:
    log.rename(log.parents[2] / "elsewhere")
    log.symlink_to(log.parents[2] / "elsewhere")


def dangling(log: Path) -> None:
    log.unlink()
    log.symlink_to("/nowhere")


def fifo(log: Path) -> None:
    log.unlink()
    os.mkfifo(log)


def folder(log: Path) -> None:
    log.unlink()
    log.mkdir()


WAYS = [link, dangling, fifo, folder]


@pytest.fixture(params=WAYS)
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    log_dir = write(tmp_path / "data" / "t-0").parent
    way: Callable[[Path], None] = request.param
    way(log_dir / "t-0" / f"{BASES[1]:020}.log")
    return log_dir


def partition_of(log_dir: Path) -> kafkalog.Partition:
    return kafkalog.open(log_dir)["t", 0]


def table(log_dir: Path, on_damage: str = "raise", findings: list[Finding] | None = None) -> kafkalog.KafkaTable:
    return kafkalog.KafkaTable(kafkalog.TableScan(on_damage=on_damage), log_dir, findings=findings)


READERS: dict[str, Callable[[Path], object]] = {
    "records": lambda data: list(partition_of(data).records()),
    "records behind it": lambda data: list(partition_of(data).records(kafkalog.RecordFilter(start_offset=12))),
    "batches": lambda data: list(partition_of(data).batches()),
    "to_arrow": lambda data: partition_of(data).to_arrow().read_all(),
    "a time": lambda data: partition_of(data).offset_for_timestamp(2),
    "KafkaTable": table,
    "Polars": lambda data: kafkalog.polars.scan(data).select(pl.len()).collect(),
    "DuckDB": lambda data: duckdb.from_arrow(kafkalog.duckdb.dataset(data)).fetchall(),
}


@pytest.mark.parametrize("reader", READERS)
def test_it_is_an_error_by_default(reader: str, broken: Path) -> None:
    with pytest.raises(StorageError, match=f"{BASES[1]:020}.log cannot be read: .*on_damage='skip'"):
        READERS[reader](broken)


@pytest.mark.parametrize("on_damage", ["stop", "skip"])
def test_else_the_rows_are_told_as_missing(on_damage: str, broken: Path) -> None:
    partition, rows = partition_of(broken), [offset for offset in range(15) if offset // RECORDS != 1]
    told = [str(broken / "t-0" / f"{BASES[1]:020}.log")]
    reader = partition.records(on_damage=on_damage)
    assert [record.offset for record in reader] == rows
    assert [finding.file for finding in reader.findings] == told
    batches = partition.batches(on_damage=on_damage)
    assert [batch.header.first_offset for batch in batches] == [0, 10]
    assert [finding.file for finding in batches.findings] == told
    findings: list[Finding] = []
    read = partition.to_arrow(["offset"], on_damage=on_damage, findings=findings).read_all()
    assert read["offset"].to_pylist() == rows
    assert [finding.file for finding in findings] == told
    findings.clear()
    assert pa.table(table(broken, on_damage, findings))["offset"].to_pylist() == rows
    assert [finding.file for finding in findings] == told
    with pytest.warns(RuntimeWarning, match="the records there are left out"):
        partition.to_arrow(on_damage=on_damage).read_all()


def test_everything_in_the_files_is_without_an_error(broken: Path) -> None:
    reader = partition_of(broken).records(all=True)
    assert len(list(reader)) == 10
    assert len(reader.findings) == 1


def test_an_export_is_refused(broken: Path, tmp_path: Path) -> None:
    export = kafkalog.Export(format="parquet", values="bytes")
    with pytest.raises(RecoveryRefused, match=r"cannot be read: .*; nothing was exported"):
        kafkalog.export(export, broken, target=tmp_path / "tables")
    accepted = kafkalog.Export(format="parquet", values="bytes", accept_loss=True)
    for records in (10, 0):
        result = kafkalog.export(accepted, broken, target=tmp_path / "tables")
        assert [(each.records, each.next_offset) for each in result.partitions] == [(records, 15)]
        assert [finding.file for finding in result.findings] == [str(broken / "t-0" / f"{BASES[1]:020}.log")]


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A log directory with a partition, and a link to another one."""
    log_dir = write(tmp_path / "data" / "t-0").parent
    (log_dir / "t-1").symlink_to(write(tmp_path / "other" / "t-1"))
    return log_dir


def test_a_linked_partition_is_an_error_of_a_table(beside: Path) -> None:
    with pytest.raises(StorageError, match="t-1 cannot be read: a symbolic link"):
        table(beside)
    findings: list[Finding] = []
    assert pa.table(table(beside, "skip", findings)).num_rows == 15
    assert [finding.code for finding in findings] == [FindingCode.FOREIGN_DIRECTORY]


def test_a_linked_partition_that_is_among_the_paths_is_not(beside: Path) -> None:
    both = kafkalog.KafkaTable(beside, beside.parent / "other")
    assert pa.table(both).num_rows == 30


def test_a_linked_partition_is_left_out_of_an_export_by_name(beside: Path, tmp_path: Path) -> None:
    def export(select: kafkalog.Selection) -> int:
        request = kafkalog.Export(format="parquet", values="bytes", select=select)
        return sum(each.records for each in kafkalog.export(request, beside, target=tmp_path / "tables").partitions)

    with pytest.raises(RecoveryRefused, match="t-1 cannot be read"):
        export(kafkalog.Selection())
    assert export(kafkalog.Selection.of(excluded=["t-1"])) == 15
    with pytest.raises(UsageError):
        export(kafkalog.Selection.of(excluded=["t-2"]))
