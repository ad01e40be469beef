"""A topic's log goes into another cluster, by replay and by writing it into a stopped broker's directory."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import confluent_kafka
import pytest

from testkit.kafka.kafka_oracle import Json, KafkaOracle
from testkit.kafka.nights import T0, VERSION, section, shell_lines, tools_of
from testkit.kafka.real_broker import RealBroker
from testkit.running.pages import type_commands

pytestmark = pytest.mark.interop
PAGE = "log-into-cluster"
TOPIC, GROUP = "stock-1", "alive-62"
WEEK = {"log.retention.ms": 7 * 24 * 3_600_000}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "place"
    made.mkdir()
    return made


@pytest.fixture
def source(kafka_of: Callable[[str], KafkaOracle], place: Path, tmp_path: Path) -> Iterator[RealBroker]:
    """Not started; its log directory is the page's `source`."""
    kafka_of(VERSION)
    with RealBroker(VERSION, tmp_path / "first", settings=WEEK) as made:
        made.log_dir = place / "source"
        yield made


@pytest.fixture
def target(kafka_of: Callable[[str], KafkaOracle], place: Path, tmp_path: Path) -> Iterator[RealBroker]:
    """The broker of another cluster, started, with the page's `target` for a log directory."""
    kafka_of(VERSION)
    with RealBroker(VERSION, tmp_path / "second", settings=WEEK) as made:
        made.log_dir = place / "target"
        made.start()
        yield made


def keyed(count: int, mark: str, partition: int) -> list[Json]:
    """Records with few keys, so that compaction leaves gaps."""
    text = [(f"k{number % 7}", f"{mark}-{number}") for number in range(count)]
    return [
        {
            "partition": partition,
            "ts": T0 + number * 1000,
            "k": base64.b64encode(key.encode()).decode(),
            "v": base64.b64encode(value.encode()).decode(),
        }
        for number, (key, value) in enumerate(text)
    ]


def committed(broker: RealBroker, offsets: list[int] | None = None) -> list[int]:
    """The group's offsets as the coordinator has them; with `offsets`, once these are committed."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})
    places = [confluent_kafka.TopicPartition(TOPIC, number) for number in range(2)]
    if offsets is not None:
        for each, offset in zip(places, offsets, strict=True):
            each.offset = offset
        consumer.commit(offsets=places, asynchronous=False)
    found = [each.offset for each in consumer.committed(places, 30)]
    consumer.close()
    return found


def read(broker: RealBroker) -> dict[str, list[Json]]:
    """What a consumer of committed records gets."""
    records = broker.records(TOPIC, 2, isolation="read_committed")
    return {
        name: [{key: value for key, value in record.items() if key != "leader_epoch"} for record in each["records"]]
        for name, each in records.items()
    }


def written(source: RealBroker) -> dict[str, list[Json]]:
    """Fill the source with what leaves gaps: an aborted transaction and a deleted beginning; what is to be read."""
    source.start()
    source.create(TOPIC, 2, retention_ms=-1)
    source.client("produce", topic=TOPIC, records=keyed(60, "a", 0) + keyed(40, "b", 1))
    for number, ending in enumerate(("commit", "abort", "commit")):
        records = keyed(5, f"t{number}", number % 2)
        source.client("transaction", transactional_id="one", topic=TOPIC, records=records, end=ending)
    source.client("delete_records", topic=TOPIC, partition=0, before=10)
    assert committed(source, [23, 31]) == [23, 31]
    expected = read(source)
    source.stop()
    return expected


def test_with_the_same_offsets(
    source: RealBroker, target: RealBroker, place: Path, compared: Callable[[str, int], None]
) -> None:
    expected = written(source)
    target.create(TOPIC, 2, retention_ms=-1)
    target.stop()
    offline = section(PAGE, "2. Into a directory")
    asked = [each for each in offline if "offsets" in each.text.split(" --")[0]]
    type_commands([each for each in offline if each not in asked], place)
    target.start()
    assert read(target) == expected
    csv = type_commands([each for each in asked if "kafkalog" in each.text], place)
    assert csv
    *_, reset = shell_lines(PAGE)
    tools_of(target, place)(reset)
    assert committed(target) == [23, 31]
    target.client("produce", topic=TOPIC, records=keyed(4, "c", 0) + keyed(4, "d", 1))
    after = read(target)
    assert {name: len(each) for name, each in after.items()} == {name: len(each) + 4 for name, each in expected.items()}
    target.stop()
    target.start()
    assert read(target) == after
    target.stop()
    (build,) = (each for each in offline if each.text.startswith("kafkalog build"))
    before = {each.name: each.stat().st_size for each in place.glob(f"target/{TOPIC}-*/*.log")}
    type_commands([replace(build, code=64)], place)  # it is not empty any more
    assert {each.name: each.stat().st_size for each in place.glob(f"target/{TOPIC}-*/*.log")} == before
    compared("records at the same offsets in another cluster", sum(map(len, expected.values())))


def test_by_replay(source: RealBroker, target: RealBroker, place: Path, compared: Callable[[str, int], None]) -> None:
    expected = written(source)
    type_line = tools_of(target, place)
    act, _ = shell_lines(PAGE)
    type_line(act, 2)
    found = read(target)

    def bare(records: list[Json]) -> list[tuple[object, ...]]:
        return [(each["key"], each["value"], each["timestamp"]) for each in records]

    assert {name: bare(each) for name, each in found.items()} == {name: bare(each) for name, each in expected.items()}
    for number, offset in enumerate(committed(target)):
        name, before = f"{TOPIC}-{number}", [23, 31][number]
        left = [each for each in expected[name] if each["offset"] >= before]
        assert bare([each for each in found[name] if each["offset"] >= offset]) == bare(left)
    compared("records that a replay has brought into another cluster", sum(map(len, expected.values())))
