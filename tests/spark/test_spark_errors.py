"""What goes wrong around a query is said in one sentence of ours, at the end of what Spark says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PythonException

import kafkalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = kafkalog.LogConfig(segment_bytes=1000, retention_ms=-1)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "orders-0", SMALL) as log:
        for number in range(60):
            log.append([b"%d" % number * 20])
    return tmp_path / "data"


def segments(data: Path) -> list[Path]:
    return sorted((data / "orders-0").glob("*.log"))


def last_line(error: Exception) -> str:
    """After Spark's own words and what is left of the stack."""
    lines = [line for line in str(error).splitlines() if line.startswith(("kafkalog.", "UsageError", "StorageError"))]
    assert len(lines) == 1, str(error)
    return lines[0]


def test_a_segment_that_is_deleted_between_two_actions(spark: SparkSession, data: Path) -> None:
    frame = spark.read.format("kafkalog").load(str(data))
    lenient = spark.read.format("kafkalog").option("failOnDataLoss", "false").load(str(data))
    assert frame.count() == lenient.count() == 60
    second, third = segments(data)[1:3]
    lost = int(third.stem) - int(second.stem)
    second.unlink()
    if spark.version.startswith("4.0."):  # plans each action anew, as a new query does: what is listed then is read
        assert frame.count() == lenient.count() == 60 - lost
        return
    with pytest.raises(PythonException) as raised:
        frame.count()
    sentence = last_line(raised.value)
    assert f"StorageError: {second} existed when the query was planned and no longer does" in sentence
    assert "failOnDataLoss=false" in sentence
    assert lenient.count() == 60 - lost


def test_a_segment_that_is_a_link(spark: SparkSession, data: Path) -> None:
    second = segments(data)[1]
    second.rename(data.parent / "moved")
    second.symlink_to(data.parent / "moved")
    with pytest.raises(AnalysisException) as raised:
        spark.read.format("kafkalog").load(str(data)).count()
    assert f"StorageError: {second} cannot be read: a symbolic link, which is not followed;" in last_line(raised.value)
    assert 0 < spark.read.format("kafkalog").option("mode", "DROPMALFORMED").load(str(data)).count() < 60


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{data}/nowhere", "UsageError: {data}/nowhere does not exist"),
        ("{data}/no*where", "UsageError: nothing matches {data}/no*where"),
        ("{data}/empty", "UsageError: {data}/empty is an empty directory"),
        ("file://elsewhere/data", "UsageError: file://elsewhere/data is on another machine;"),
    ],
)
def test_paths_that_hold_nothing(spark: SparkSession, data: Path, path: str, words: str) -> None:
    (data / "empty").mkdir()
    with pytest.raises(AnalysisException) as raised:
        spark.read.format("kafkalog").load(path.format(data=data)).count()
    assert words.format(data=data) in last_line(raised.value)
