"""Through Spark Connect the same records are read, written and streamed, and refusals are told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from testkit.kafka.kafka_needed import kafka_needed
from testkit.made.arrow_records import expected_rows, rows_of_table
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.spark import spark_connect


@pytest.mark.interop
@pytest.mark.java
def test_spark_connect_reads_writes_and_streams(tmp_path: Path) -> None:
    with kafka_needed():
        spark_connect.setup()
    case = broker_case("4.1.1", "txn")
    expected = expected_records(case, "read_committed")
    answer = spark_connect.through_connect([str(path) for path in brokers(case.id)], tmp_path)
    assert answer["session"].startswith("pyspark.sql.connect.")
    table = pa.ipc.open_file(pa.memory_map(str(tmp_path / "read.arrow"))).read_all()
    assert rows_of_table(table, expected) == expected_rows(expected)
    assert answer["streamed"] == table.num_rows
    assert answer["written"] == answer["selected"] > 0
    assert "startingOffsets" in answer["refusal"]
    assert "nonsense" in answer["refusal"]
