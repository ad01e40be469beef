"""MirrorMaker 2 copies a dead cluster's topics to one that is alive, out of files that we serve."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import confluent_kafka
import pytest

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.mirror_maker import PREFIX, mirroring
from testkit.kafka.real_broker import RealBroker
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.serving.the_server import listening

pytestmark = pytest.mark.interop

CASE = "4.3.0/segments"
SECONDS = 150

Copied = dict[tuple[str, int], list[tuple[bytes | None, bytes | None]]]


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def expected() -> Copied:
    """Keys and values of each partition, in order."""
    version, _, name = CASE.partition("/")
    found: Copied = {}
    records = expected_records(broker_case(version, name), "read_committed")
    for (topic, partition, _), line in sorted(records.items(), key=lambda pair: pair[0]):
        found.setdefault((topic, partition), []).append((plain(line["key"]), plain(line["value"])))
    return found


def copied(bootstrap: str, wanted: Copied, log: Path) -> Copied:
    """What the copies hold, once there is as much as there should be."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "reader",
                                         "enable.auto.commit": False})  # fmt: skip
    until = time.monotonic() + SECONDS
    try:
        while not {f"{PREFIX}.{topic}" for topic, _ in wanted} <= consumer.list_topics(timeout=10).topics.keys():
            assert time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.5)
        consumer.assign([confluent_kafka.TopicPartition(f"{PREFIX}.{topic}", number, 0) for topic, number in wanted])
        found: Copied = {}
        while sum(map(len, found.values())) < sum(map(len, wanted.values())):
            assert time.monotonic() < until, log.read_text()[-2000:]
            for message in consumer.consume(1000, 0.5):
                assert message.error() is None, message.error()
                place = message.topic().removeprefix(f"{PREFIX}."), message.partition()
                found.setdefault(place, []).append((message.key(), message.value()))
        return found
    finally:
        consumer.close()


def test_a_dead_cluster_is_mirrored(tmp_path: Path) -> None:
    version = kafka_jars.harness_versions()[0]
    with (
        kafka_needed(),
        RealBroker(version, tmp_path / "alive") as alive,
        listening(*brokers(CASE)) as (source, _),
    ):
        alive.start()
        with mirroring(kafka_jars.versions()[version].tools, source, alive.bootstrap, tmp_path) as log:
            assert copied(alive.bootstrap, expected(), log) == expected()
