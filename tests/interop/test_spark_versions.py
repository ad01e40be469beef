"""The Spark tests on the other declared minor versions of PySpark; the pinned one runs them all every time."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.kafka.kafka_needed import kafka_needed
from testkit.spark import spark_versions

TESTS = [
    f"tests/spark/test_{name}.py"
    for name in (
        "spark_contents",
        "spark_damaged_logs",
        "decoded_columns",
        "source",
        "spark_errors",
        "stream_queries",
        "spark_uris",
        "spark_writing",
    )
]
"""Of each kind of query; what the versions have in common is in the others."""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.interop
@pytest.mark.java
@pytest.mark.parametrize("minor", spark_versions.MINORS)
def test_each_kind_of_query(minor: str, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    with kafka_needed():
        spark_versions.setup(minor)
    passed, _ = spark_versions.run_tests(minor, TESTS, tmp_path / "tests")
    assert passed >= 40
    compared(f"Spark: tests passed on PySpark {minor}", passed)


def test_every_declared_minor_version_is_run() -> None:
    (declared,) = re.findall(r'"pyspark>=(\d+\.\d+),<5"', (ROOT / "pyproject.toml").read_text())
    (pinned,) = re.findall(r"^pyspark==(\d+\.\d+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    major, first = declared.split(".")
    wanted = [f"{major}.{number}" for number in range(int(first), int(pinned.split(".")[1]) + 1)]
    assert [*spark_versions.MINORS, pinned] == wanted
    for minor in spark_versions.MINORS:
        pin = (spark_versions.HERE / f"{minor}.txt").read_text()
        assert re.fullmatch(rf"pyspark=={re.escape(minor)}\.\d+ --hash=sha256:[0-9a-f]{{64}}\n", pin)
