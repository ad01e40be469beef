"""What the pages on streams and clusters show works, block by block, and shows what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import broker_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).resolve().parents[2] / "docs"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(page: str, names: dict[str, Any]) -> int:
    blocks = PYTHON.findall((DOCS / page).read_text(encoding="utf-8"))
    for number, source in enumerate(blocks):
        exec(compile(source, f"{page}, block {number}", "exec"), names)
    return len(blocks)


def test_streams(spark: SparkSession, tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/segments")
    names = {"spark": spark, "data": str(broker), "out": str(tmp_path / "out"), "checkpoint": str(tmp_path / "ck")}
    assert run("spark-streaming.md", names) == 1
    records = sum(1 for partition in kafkalog.open(broker).partitions for _ in partition.records())
    assert spark.read.json(str(tmp_path / "out")).count() == records > 0


def test_clusters(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (broker,) = brokers("4.1.1/segments")
    root = broker_case("4.1.1", "torn").unpack(tmp_path)
    (torn,) = root.glob("broker-*")
    names = {"spark": spark, "data": str(broker), "damaged": str(torn)}
    assert run("spark-cluster.md", names) == 2
    shown = capsys.readouterr().out
    assert "|clean " in shown
    assert "|recovered|" in shown
