"""`valueFormat` in Spark itself: the page's examples, SQL over structs, and a stream."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testkit.recorded.fixture_data import expected_values, unpack_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-values.md"
NEEDS_A_PACKAGE = "from_avro"
RECORDED = "logical-ember"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded log directory, with a topic under the name that the page has."""
    root = unpack_values(tmp_path_factory.mktemp("values"))
    shutil.copytree(root / f"{RECORDED}-0", root / "prices-0")
    return root


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_what_the_page_shows(spark: SparkSession, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"spark": spark}
    run = [each.replace('"data"', repr(str(data))) for each in blocks() if NEEDS_A_PACKAGE not in each]
    assert len(run) == 2
    for source in run:
        exec(compile(source, "spark-values.md", "exec"), names)
    shown = capsys.readouterr().out
    assert re.search(r"value: struct .*\|    \|-- price: decimal\(\d+,\d+\)", shown.replace("\n", ""))
    days = {each["value"]["day"] for each in expected_values() if each["topic"] == RECORDED}
    assert len(days) > 3
    assert all(f"|{day}" in shown or f" {day}" in shown for day in days)


def test_sql_over_structs(spark: SparkSession, data: Path) -> None:
    wanted = Counter(each["value"]["day"] for each in expected_values() if each["topic"] == RECORDED)
    options = f"path '{data}', subscribe 'prices', valueFormat 'confluent', keyFormat 'json'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW prices USING kafkalog OPTIONS ({options})")
    found = spark.sql("SELECT string(value.day) AS day, count(*) AS n FROM prices GROUP BY 1").collect()
    assert {row.day: row.n for row in found} == wanted
    assert spark.sql("SELECT min(get_json_object(key, '$.id')) AS id FROM prices").first() is not None


def test_a_stream_of_structs(spark: SparkSession, data: Path) -> None:
    wanted = Counter(each["value"]["day"] for each in expected_values() if each["topic"] == RECORDED)
    options = {"subscribe": "prices", "valueFormat": "confluent", "startingOffsets": "earliest"}
    stream = spark.readStream.format("kafkalog").options(**options).load(str(data))
    days = stream.selectExpr("string(value.day) AS day")
    query = days.writeStream.format("memory").queryName("days").trigger(availableNow=True).start()
    query.awaitTermination()
    assert Counter(row.day for row in spark.table("days").collect()) == wanted
