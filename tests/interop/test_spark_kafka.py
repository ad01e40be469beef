"""The same DataFrame as Spark's own Kafka source gives, on the same topics: schema, rows, order, times, headers."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.kafka.kafka_jars import KafkaUnavailableError
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import RealBroker
from testkit.spark import spark_kafka

pytestmark = [pytest.mark.interop, pytest.mark.java]

T0 = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Json = dict[str, Any]


@pytest.fixture
def broker(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealBroker]:
    kafka_of("4.3.0")
    # where a log begins after DeleteRecords is on disk when the broker next writes its checkpoint, a minute by default
    settings = {"log.flush.start.offset.checkpoint.interval.ms": 300}
    with RealBroker("4.3.0", tmp_path / "broker", settings=settings) as running:
        running.start()
        yield running


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def records(count: int, partitions: int, seed: int, topic: str | None = None) -> list[Json]:
    """Keys, values and headers of every kind: null, empty, binary, several, none."""
    rng, made = random.Random(seed), []
    for number in range(count):
        record: Json = {"partition": number % partitions, "ts": T0 + rng.randrange(10**9)}
        record["v"] = None if number % 11 == 5 else b64(rng.randbytes(rng.randint(0, 200)))
        record["k"] = None if number % 3 == 0 else b64(b"key-%d" % (number % 7) if number % 5 else b"")
        if number % 4 == 0:
            record["h"] = [["trace", b64(rng.randbytes(8))], ["empty", ""], ["null", None], ["trace", b64(b"again")]]
        made.append(record if topic is None else record | {"topic": topic})
    return made


def fill(broker: RealBroker) -> None:
    broker.create("codecs", 3)
    for seed, codec in enumerate(CODECS):
        producer = {"compression.type": codec}
        broker.client("produce", topic="codecs", records=records(120, 3, seed), producer=producer, flush_every=15)
    broker.create("appended", 1, message_timestamp_type="LogAppendTime")
    broker.client("produce", topic="appended", records=records(50, 1, 9))
    broker.create("transactions", 2)
    for number, end in enumerate(("commit", "abort", "commit", "abort", "commit")):
        sent = records(30, 2, 20 + number, "transactions")
        broker.client("transaction", transactional_id=f"t{number % 2}", records=sent, end=end)
        broker.client("produce", topic="transactions", records=records(7, 2, 30 + number))
    broker.client("transaction", transactional_id="open", records=records(10, 2, 40, "transactions"), end="open")
    broker.client("produce", topic="transactions", records=records(9, 2, 41))
    broker.create("deleted", 1)
    broker.client("produce", topic="deleted", records=records(40, 1, 50))
    broker.client("delete_records", topic="deleted", partition=0, before=23)
    checkpoint, deadline = broker.log_dir / "log-start-offset-checkpoint", time.monotonic() + 30
    while "deleted 0 23" not in checkpoint.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def by_partition(topic: str, **offsets: int) -> str:
    return json.dumps({topic: {name.lstrip("p"): offset for name, offset in offsets.items()}})


CASES: list[Json] = [
    {"subscribe": "codecs", "includeHeaders": "true"},
    {"subscribe": "codecs"},
    {"subscribe": "appended", "includeHeaders": "true"},
    {"subscribe": "transactions", "includeHeaders": "true", "kafka.isolation.level": "read_committed"},
    {"subscribe": "transactions", "includeHeaders": "true", "kafka.isolation.level": "read_uncommitted"},
    {"subscribe": "deleted", "includeHeaders": "true"},
    {"subscribePattern": "codecs|app.*", "includeHeaders": "true", "minPartitions": "7"},
    {"assign": '{"codecs":[0,2]}', "startingOffsets": by_partition("codecs", p0=17, p2=-2)},
    {"assign": '{"codecs":[1]}', "endingOffsets": by_partition("codecs", p1=41)},
    {"subscribe": "codecs", "startingTimestamp": str(T0 + 10**8), "endingTimestamp": str(T0 + 99 * 10**7)},
]
STREAM = {"subscribe": "codecs", "startingOffsets": "earliest"}
COUNTS = {0: 600, 1: 600, 2: 50, 5: 17, 6: 650}
"""Of cases whose number of rows is plain from what was produced."""


def test_the_dataframe_is_that_of_sparks_kafka_source(broker: RealBroker, compared: Callable[[str, int], None]) -> None:
    with kafka_needed():
        spark_kafka.setup()
    fill(broker)
    job = {"bootstrap": broker.bootstrap, "path": str(broker.log_dir), "cases": CASES, "stream": STREAM}
    answer = spark_kafka.compare(job)
    answers = answer["cases"]
    assert len(answers) == len(CASES)
    for number, (case, found) in enumerate(zip(CASES, answers, strict=True)):
        assert found["same_schema"], (case, found)
        assert (found["only_kafka"], found["only_ours"]) == ([], []), (case, found)
        assert found["kafka"] == found["ours"] == COUNTS.get(number, found["ours"]) > 0, (case, found)
        assert found["in_order"], (case, found)
        compared("rows of Spark's Kafka source", found["kafka"])
    assert 0 < answers[0]["without_headers"] < answers[0]["kafka"], "there were records with and without headers"
    assert answers[3]["kafka"] < answers[4]["kafka"], "something was aborted or undecided"
    assert [answers[0]["types"], answers[2]["types"]] == [[0], [1]]
    assert answer["streamed"] == [600] * 3, "a stream works where Spark gives no limits, too"


def test_a_missing_download_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALOG_CACHE", str(tmp_path))
    monkeypatch.setattr("testkit.spark.spark_kafka.ARTIFACTS", ("no.such.group:no-such-artifact:1",))
    with pytest.raises(KafkaUnavailableError, match=r"^Maven did not resolve Spark's Kafka source 4.0.0: .*") as raised:
        spark_kafka.setup()
    assert "\n" not in str(raised.value)
    assert "no-such-artifact" in str(raised.value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaUnavailableError, match="there is no mvn"):
        spark_kafka.setup()
