"""Spark's own Kafka source reads directories through the server: the same DataFrame as ours gives on the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from kafkalog.log.reading.consumer_view import ISOLATION_LEVELS
from testkit.kafka.kafka_needed import kafka_needed
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.serving.serving import bootstrap, serving
from testkit.spark import spark_kafka

pytestmark = [pytest.mark.interop, pytest.mark.java]


@pytest.mark.parametrize("case_id", ["0.10.2.2/segments", "2.8.2/txn", "4.3.0/txn", "4.3.0/codecs"])
def test_sparks_kafka_source_reads_what_was_recorded(case_id: str, compared: Callable[[str, int], None]) -> None:
    with kafka_needed():
        spark_kafka.setup()
    (broker,) = brokers(case_id)
    case = broker_case(*case_id.split("/"))
    rows = {level: Counter(key[0] for key in expected_records(case, level)) for level in ISOLATION_LEVELS}
    topics = ",".join(sorted(name for name in rows["read_uncommitted"] if not name.startswith("__")))
    cases = [
        {"subscribe": topics, "includeHeaders": "true", "kafka.isolation.level": level} for level in ISOLATION_LEVELS
    ]
    with serving(broker) as server:
        job = {"bootstrap": bootstrap(server), "path": str(broker), "cases": cases, "stream": {"subscribe": topics}}
        answers = spark_kafka.compare(job)["cases"]
    for level, found in zip(ISOLATION_LEVELS, answers, strict=True):
        expected = sum(count for name, count in rows[level].items() if not name.startswith("__"))
        assert found["kafka"] == found["ours"] == expected > 0
        assert (found["only_kafka"], found["only_ours"]) == ([], []), found
        assert found["in_order"]
        compared(f"rows of {case_id} by Spark's Kafka source through the server", found["kafka"])
