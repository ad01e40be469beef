"""A real broker with two log directories: one is lost, loses its identity, or holds what the other holds."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalog.codec.files.text import decode_meta_properties
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import BrokerError, RealBroker
from testkit.running.command import kafkalog

pytestmark = pytest.mark.interop
PARTITIONS = 6
COUNT = 120


@pytest.fixture(params=["3.9.1", "4.4.0"])
def broker(
    request: pytest.FixtureRequest, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path
) -> Iterator[RealBroker]:
    """Stopped, with a topic whose partitions are in both directories."""
    kafka_of(request.param)
    with RealBroker(request.param, tmp_path / "broker", directories=2) as made:
        made.start()
        made.create("orders", PARTITIONS)
        values = [base64.b64encode(b"order %d" % number).decode() for number in range(COUNT)]
        made.client("produce", topic="orders", records=[
            {"partition": number % PARTITIONS, "ts": 1_700_000_000_000 + number, "v": value}
            for number, value in enumerate(values)
        ])  # fmt: skip
        made.stop()
        yield made


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.glob("orders-*"))


def test_a_lost_directory_and_a_lost_identity(broker: RealBroker) -> None:
    first, second = broker.log_dirs
    there = names(second)
    assert there
    assert names(first)
    identity = decode_meta_properties((second / "meta.properties").read_bytes())

    kept = second.rename(second.with_name("unmounted"))
    second.mkdir()
    listed = kafkalog("ls", "--server-properties", broker.directory / "server.properties")
    assert listed.code == 1
    assert all(name in listed.err for name in there[:3])
    assert "a broker with KRaft does not start" in listed.err
    with pytest.raises(BrokerError, match=r"No `meta\.properties` found in"):
        broker.start()

    shutil.rmtree(second)
    kept.rename(second)
    (second / "meta.properties").unlink()
    with pytest.raises(BrokerError, match=r"No `meta\.properties` found in"):
        broker.start()
    done = kafkalog("recover", "--meta-properties", "--yes", first, second)
    assert done.code == 2
    made = decode_meta_properties((second / "meta.properties").read_bytes())
    assert (made.version, made.cluster_id, made.node_id, made.directory_id) == (
        identity.version, identity.cluster_id, identity.node_id, identity.directory_id
    )  # fmt: skip
    assert kafkalog("verify", first, second).code == 0
    broker.start()
    found = broker.records("orders", PARTITIONS)
    assert sum(len(each["records"]) for each in found.values()) == COUNT
    assert names(second) == there
    broker.stop()


@pytest.mark.parametrize("directories", [1, 2])
@pytest.mark.parametrize("version", ["3.9.1", "4.4.0"])
def test_what_is_gone_is_made_again_without_directory_ids(
    version: str, directories: int, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path
) -> None:
    kafka_of(version)
    with RealBroker(version, tmp_path / "broker", directories=directories) as broker:
        broker.metadata_version = "3.6"
        broker.start()
        broker.create("orders", PARTITIONS)
        record = {"ts": 1_700_000_000_000, "v": base64.b64encode(b"order").decode()}
        broker.client("produce", topic="orders", records=[{"partition": n, **record} for n in range(PARTITIONS)])
        broker.stop()
        name = names(broker.log_dir)[0]
        shutil.rmtree(broker.log_dir / name)
        for path in broker.log_dir.glob("*-offset-checkpoint"):
            path.unlink()
        told = kafkalog("verify", *broker.log_dirs)
        assert (told.code, f"has them): {name}" in " ".join(told.out.split())) == (1, True)
        broker.start()
        found = broker.records("orders", PARTITIONS)
        assert [key for key, each in found.items() if not each["end"]] == [name]
        assert names(broker.log_dir)[0] == name
        broker.stop()


def test_what_is_built_into_both_is_read(broker: RealBroker, tmp_path: Path) -> None:
    there = [names(each) for each in broker.log_dirs]
    assert all(there)
    lines = tmp_path / "more.jsonl"
    lines.write_text("".join(
        json.dumps({"topic": "orders", "partition": number % PARTITIONS, "value": f"more {number}"}) + "\n"
        for number in range(COUNT)
    ))  # fmt: skip
    properties = broker.directory / "server.properties"
    done = kafkalog("build", lines, "--server-properties", properties, "--append", "--json")
    assert done.code == 2, done.err
    assert [names(each) for each in broker.log_dirs] == there
    broker.start()
    found = broker.records("orders", PARTITIONS)
    got = [base64.b64decode(record["value"]).decode() for each in found.values() for record in each["records"]]
    assert sorted(got) == sorted(f"{word} {number}" for word in ("order", "more") for number in range(COUNT))
    broker.stop()


def test_a_partition_in_both(broker: RealBroker) -> None:
    first, second = broker.log_dirs
    copied = names(first)[0]
    shutil.copytree(first / copied, second / copied)
    planned = kafkalog("plan", "--server-properties", broker.directory / "server.properties")
    assert planned.code == 3
    assert f"Duplicate log directories for {copied} are found in both" in planned.out
    with pytest.raises(BrokerError, match=f"Duplicate log directories for {copied} are found in both"):
        broker.start()
    topic, _, number = copied.rpartition("-")
    words = ["--topic", topic, "--partition", number, "--accept-loss", "--yes"]
    assert kafkalog("recover", "--mode", "set-aside", *words, second).code == 2
    broker.start()
    found = broker.records("orders", PARTITIONS)
    assert sum(len(each["records"]) for each in found.values()) == COUNT
    broker.stop()
