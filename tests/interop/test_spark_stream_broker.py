"""A stream over the directory of a broker that is taking records, killed in the middle and started again."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import RealBroker
from testkit.spark.spark_cluster import STREAM_JOB, finish_job, start_program

pytestmark = [pytest.mark.interop, pytest.mark.java]

T0 = 1_700_000_000_000
SOURCE = str(Path(kafkalog.__file__).resolve().parents[1])
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ROUND = 60


@pytest.fixture
def broker(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealBroker]:
    kafka_of("4.3.0")
    with RealBroker("4.3.0", tmp_path / "broker") as running:
        running.start()
        yield running


class Producer:
    """Sends rounds of records, compressed in turn; every third one in a transaction, and some of these are aborted."""

    def __init__(self, broker: RealBroker) -> None:
        self._broker = broker
        self._rounds = 0

    def send(self) -> None:
        number = self._rounds
        self._rounds += 1
        records = [self._record(number * ROUND + each) for each in range(ROUND)]
        codec = {"compression.type": CODECS[number % 5]}
        if number % 3:
            self._broker.client("produce", topic="live", records=records, producer=codec)
        else:
            named = [record | {"topic": "live"} for record in records]
            end = "abort" if number % 6 else "commit"
            self._broker.client("transaction", transactional_id="t", records=named, producer=codec, end=end)

    @staticmethod
    def _record(number: int) -> dict[str, Any]:
        value = base64.b64encode(b"value %d " % number * 5).decode()
        headers = [["n", value]] if number % 2 else []
        return {"partition": number % 2, "ts": T0 + number, "k": value, "v": value, "h": headers}


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def rows(out: Path) -> list[tuple[Any, ...]]:
    """What the sink's log says was written, so that files of a batch that was not finished do not count."""
    names: list[str] = []
    for entry in sorted((out / "_spark_metadata").glob("[0-9]*"), key=lambda path: int(path.name.split(".")[0])):
        found = [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]]
        names = found if entry.suffix == ".compact" else [*names, *found]
    read = [json.loads(line) for name in names for line in (out / Path(name).name).read_text().splitlines()]
    return sorted(
        (f"live-{row['partition']}", row["offset"], decoded(row.get("k")), decoded(row.get("v")), row["ts"])
        for row in read
    )


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_stream_beside_a_producer(
    broker: RealBroker, tmp_path: Path, isolation: str, compared: Callable[[str, int], None]
) -> None:
    broker.create("live", 2, segment_bytes=65536)
    producer = Producer(broker)
    producer.send()
    stop, running = tmp_path / "stop", tmp_path / "running"
    options = {"subscribe": "live", "startingOffsets": "earliest", "kafka.isolation.level": isolation}
    job = {
        "path": str(broker.log_dir),
        "out": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "options": options | {"maxOffsetsPerTrigger": "400"},
        "stop": str(stop),
        "running": str(running),
    }

    def until(condition: Callable[[], bool], *, atleast: int) -> None:
        deadline, sent = time.monotonic() + 150, 0
        while sent < atleast or not condition():
            assert time.monotonic() < deadline
            assert process.poll() is None, finish_job(process)
            producer.send()
            sent += 1
            time.sleep(0.3)

    process = start_program(STREAM_JOB, job, python_path=SOURCE)
    try:
        until(running.exists, atleast=5)
        process.kill()
        process.communicate()
        producer.send()
        running.unlink()
        process = start_program(STREAM_JOB, job, python_path=SOURCE)
        until(running.exists, atleast=5)
        stop.touch()
        answer = finish_job(process)
    finally:
        process.kill()
    expected = [
        (name, record["offset"], decoded(record["key"]), decoded(record["value"]), record["timestamp"])
        for name, found in broker.records("live", 2, isolation=isolation).items()
        for record in found["records"]
    ]
    assert rows(tmp_path / "out") == sorted(expected)
    assert answer["batches"] > 5
    assert len({path.name for path in broker.log_dir.glob("live-0/*.log")}) > 3, "segments were rolled meanwhile"
    compared("records of a broker, streamed while it took them", len(expected))
