"""The programs of examples/ answer what a consumer's own records answer; the notebook runs from top to bottom."""

from __future__ import annotations

import base64
import json
import runpy
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

import kafkalog
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def queries() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "spark_queries.py"))


@pytest.fixture(scope="module")
def groups() -> str:
    (broker,) = brokers("4.1.1/groups")
    return str(broker)


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """What the consumer returned of the topics of users."""
    found = expected_records(broker_case("4.1.1", "groups"), "read_uncommitted").values()
    return [line for line in found if not line["topic"].startswith("__")]


def test_top_keys(spark: SparkSession, queries: dict[str, Any], groups: str, lines: list[dict[str, Any]]) -> None:
    keys = Counter((line["topic"], base64.b64decode(line["key"])) for line in lines if line["key"] is not None)
    found = queries["top_keys"](spark, groups, 5)
    assert len(found) == 5
    assert [count for _, _, count in found] == sorted(keys.values(), reverse=True)[:5]
    assert all(keys[topic, key] == count for topic, key, count in found)


def test_the_rate_per_minute_and_its_plot(
    spark: SparkSession, queries: dict[str, Any], groups: str, lines: list[dict[str, Any]]
) -> None:
    minutes = Counter(line["timestamp"] // 60_000 for line in lines)
    rates = queries["rate_per_minute"](spark, groups)
    assert rates == sorted(minutes.items())
    bars = ElementTree.fromstring(queries["plot"](rates)).findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == len(minutes)
    assert max(float(bar.attrib["height"]) for bar in bars) == 200


def test_the_lag_of_each_group(
    spark: SparkSession, queries: dict[str, Any], groups: str, lines: list[dict[str, Any]]
) -> None:
    committed = list(broker_case("4.1.1", "groups").expected("committed"))
    expected = sorted(
        (
            *(line[name] for name in ("group", "topic", "partition", "offset")),
            sum(
                1
                for each in lines
                if (each["topic"], each["partition"]) == (line["topic"], line["partition"])
                and each["offset"] >= line["offset"]
            ),
        )
        for line in committed
    )
    assert [tuple(lag) for lag in queries["lag_per_group"](spark, groups)] == expected
    assert len(expected) > 10
    assert any(lag > 0 for *_, lag in expected)


def test_the_damage_map(spark: SparkSession, queries: dict[str, Any]) -> None:
    (broker,) = brokers("4.1.1/torn")
    found = queries["damage_map"](spark, [str(broker)])
    wrong = {
        str(finding.file)
        for finding in kafkalog.verify(broker).findings
        if finding.position is not None and str(finding.file).endswith(".log") and str(finding.severity) != "info"
    }
    assert found.keys() == wrong
    assert wrong
    assert all("#" in line and len(line) == 40 for line in found.values())


def test_the_notebook(
    spark: SparkSession, groups: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKALOG_DATA", groups)
    notebook = json.loads((EXAMPLES / "segments.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, source in enumerate(cells):
        exec(compile(source, f"cell {number}", "exec"), names)
    total = names["records"].count()
    assert sum(row.n for row in names["busiest"]) == total > 0
    assert sum(row["count"] for row in spark.table("counts").collect()) == total
    assert "timestampType: integer" in capsys.readouterr().out
