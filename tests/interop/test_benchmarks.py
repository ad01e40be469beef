"""The comparison with the peers runs, and everyone finds the same records; no figure is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import spark_kafka
from kafka_jars import KafkaUnavailableError
from kafka_oracle import KafkaOracle

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.interop
def test_the_comparison_runs(tmp_path: Path) -> None:
    results = tmp_path / "results.md"
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "compare.py"), "--quick", "--results", str(results)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert results.read_text().count("\n| ") >= 16


def lines_of(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / program), "--quick"],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if " rows/s" in line]


@pytest.mark.interop
@pytest.mark.java
def test_what_spark_reads_runs_beside_the_same_batches_from_memory() -> None:
    lines = lines_of("spark_read.py")
    assert sum("× from memory: " in line for line in lines) == 5
    assert "× batch read: " in lines[-1]
    assert len(lines) == 6


@pytest.mark.interop
@pytest.mark.java
def test_what_spark_reads_runs_beside_its_own_kafka_source(kafka_of: Callable[[str], KafkaOracle]) -> None:
    kafka_of("4.3.0")
    try:
        spark_kafka.setup()
    except KafkaUnavailableError as error:
        if os.environ.get("KAFKALOG_INTEROP") == "required":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
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
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "scaling.py"), "--quick", "--results", str(results)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert results.read_text().count("\n## ") == 12  # groups
