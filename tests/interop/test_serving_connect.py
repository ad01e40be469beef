"""Kafka Connect reads a served topic: a worker that stands alone, and one whose own topics are in another cluster."""

from __future__ import annotations

import base64
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from testkit.kafka import kafka_jars
from testkit.kafka.connect_worker import as_request, distributed, file_sink, standalone
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.real_broker import RealBroker
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.running.free_ports import free_port
from testkit.serving.the_server import listening

pytestmark = pytest.mark.interop

CASE = "4.3.0/segments"
TOPICS = "sensors-0|quotes-43|parcels-5"  # whose values are text
SECONDS = 150


def expected() -> Counter[str]:
    """Values of all records of these topics."""
    version, _, name = CASE.partition("/")
    records = expected_records(broker_case(version, name), "read_uncommitted")
    values = [line["value"] for (topic, _, _), line in records.items() if topic in TOPICS.split("|")]
    found = Counter(base64.b64decode(each).decode() for each in values)
    assert found.total() > 600
    return found


def written(output: Path, log: Path, wanted: Counter[str]) -> Counter[str]:
    """The lines of the file, once there are as many as there should be, and then no more of them."""
    until = time.monotonic() + SECONDS
    while not output.exists() or len(output.read_text().splitlines()) < wanted.total():
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.5)
    time.sleep(2)
    return Counter(output.read_text().splitlines())


def test_a_worker_that_stands_alone(tmp_path: Path) -> None:
    version, output = kafka_jars.newest_with_tools(), tmp_path / "lines"
    with (
        kafka_needed(),
        listening(*brokers(CASE)) as (source, _),
        standalone(version, source, tmp_path, file_sink(TOPICS, output)) as log,
    ):
        assert written(output, log, expected()) == expected()


def post(rest: int, body: bytes, log: Path) -> None:
    """Start a connector, as soon as the worker answers."""
    until = time.monotonic() + SECONDS
    request = urllib.request.Request(
        f"http://127.0.0.1:{rest}/connectors", body, {"Content-Type": "application/json"}, method="POST"
    )
    while True:
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                assert answer.status == 201
                return
        except OSError:  # it has not begun to listen, or still agrees with nobody else on who does what
            pass
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.5)


def test_a_worker_of_another_cluster(tmp_path: Path) -> None:
    version, output, rest = kafka_jars.newest_with_tools(), tmp_path / "lines", free_port()
    with (
        kafka_needed(),
        RealBroker(version, tmp_path / "own") as own,
        listening(*brokers(CASE)) as (source, _),
    ):
        own.start()
        with distributed(version, source, own.bootstrap, tmp_path, rest) as log:
            post(rest, as_request(file_sink(TOPICS, output)), log)
            assert written(output, log, expected()) == expected()
