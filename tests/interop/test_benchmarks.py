"""The comparison with the peers runs, and everyone finds the same records; no figure is examined."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.spark import spark_kafka

ROOT = Path(__file__).resolve().parents[2]


def ran(program: str, *arguments: str) -> str:
    """What a program of benchmarks/ printed in its short form."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / program), "--quick", *arguments],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def lines_of(program: str) -> list[str]:
    return [line for line in ran(program).splitlines() if " rows/s" in line]


@pytest.mark.interop
def test_the_comparison_runs(tmp_path: Path) -> None:
    results = tmp_path / "results.md"
    ran("compare.py", "--results", str(results))
    assert results.read_text().count("\n| ") >= 16


@pytest.mark.interop
@pytest.mark.java
def test_what_spark_reads_runs_beside_the_same_batches_from_memory() -> None:
    lines = lines_of("spark_read.py")
    assert sum("× from memory: " in line for line in lines) == 5
    assert sum("× tasks of " in line for line in lines) == 3
    assert sum("× counting records" in line for line in lines) == 1
    assert sum("× batch read" in line for line in lines) == 2
    assert len(lines) == 11


@pytest.mark.interop
@pytest.mark.java
def test_what_spark_reads_runs_beside_its_own_kafka_source(kafka_of: Callable[[str], KafkaOracle]) -> None:
    kafka_of("4.3.0")
    with kafka_needed():
        spark_kafka.setup()
    lines = lines_of("spark_kafka.py")
    assert sum("× Kafka source: " in line for line in lines) == len(lines) == 5


@pytest.mark.interop
@pytest.mark.java
def test_what_spark_writes_runs_beside_a_sink_that_keeps_nothing() -> None:
    lines = lines_of("spark_write.py")
    assert sum("× keeping nothing" in line for line in lines) == len(lines) == 2


@pytest.mark.interop
def test_the_scaling_runs(tmp_path: Path) -> None:
    results = tmp_path / "scaling.md"
    ran("scaling.py", "--results", str(results))
    assert results.read_text().count("\n## ") == 48  # groups
