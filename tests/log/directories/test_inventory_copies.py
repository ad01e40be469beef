"""A topic-partition in two directories stops only those who read it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog.cluster.kraft.cluster_facts import live_partitions
from kafkalog.spark.discovery import plan_read
from kafkalog.spark.options import parse_options
from testkit.recorded.broker_dirs import brokers

METADATA = "__cluster_metadata"


@pytest.fixture
def two_brokers(tmp_path: Path) -> tuple[str, str]:
    """Directories of two brokers with a topic each, and the same metadata log."""
    (recorded,) = brokers("4.1.1/txn")
    metadata = next(brokers("4.1.1/metadata")[0].glob(f"{METADATA}-0"))
    for root, topic in (("a", "orders"), ("b", "prices")):
        (tmp_path / root).mkdir()
        shutil.copytree(metadata, tmp_path / root / f"{METADATA}-0")
        shutil.copytree(recorded / "sensors-0-0", tmp_path / root / f"{topic}-0")
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_metadata_logs_are_read_where_they_are_asked_for(two_brokers: tuple[str, str]) -> None:
    with pytest.raises(kafkalog.ReplicaError, match=f"{METADATA}-0 was found in two directories"):
        kafkalog.open_all(*two_brokers).readable()
    with pytest.raises(kafkalog.ReplicaError, match=f"{METADATA}-0 was found in two directories"):
        kafkalog.KafkaTable(kafkalog.TableScan(topics="*"), *two_brokers)


def test_a_replica_that_does_not_exist_is_refused_if_there_is_no_choice_too(two_brokers: tuple[str, str]) -> None:
    inventory = kafkalog.open_all(two_brokers[0])
    for replica in ("longest", two_brokers[0]):
        assert len(inventory.readable(replica)) == 2
    with pytest.raises(kafkalog.UsageError, match=r"^replica is longest or a directory: shortest does not exist$"):
        inventory.readable("shortest")


def test_only_what_was_chosen_is_returned_or_also_the_rest(two_brokers: tuple[str, str]) -> None:
    """Recorded directories have these partitions; the metadata log is in both, so that it cannot be chosen."""
    inventory = kafkalog.open_all(*two_brokers)
    segment = next(Path(two_brokers[0]).glob("orders-0/*.log"))
    bare = Path(shutil.copy(segment, Path(two_brokers[0]).parent))
    for given in ({"select": kafkalog.Selection.of(["orders"])}, {"wants": lambda name: name.topic == "orders"}):
        assert [each.topic for each in inventory.readable(**given)] == ["orders"]
        assert sorted(map(str, (each.topic for each in inventory.all_readable(**given)))) == [
            METADATA, METADATA, "orders", "prices",
        ]  # fmt: skip
        alone = kafkalog.open_all(bare).readable(**given)
        assert [each.path for each in alone] == ([] if "select" in given else [str(bare)])  # its topic is not known


def test_an_export_leaves_them_out(two_brokers: tuple[str, str], tmp_path: Path) -> None:
    result = kafkalog.export(kafkalog.Export(format="parquet"), *two_brokers, target=tmp_path / "tables")
    assert {each.topic for each in result.partitions} == {"orders", "prices"}


def test_a_table_leaves_them_out(two_brokers: tuple[str, str]) -> None:
    assert {each.topic for each in kafkalog.KafkaTable(*two_brokers).partitions} == {"orders", "prices"}


def test_transactions_leave_them_out(two_brokers: tuple[str, str]) -> None:
    producers = kafkalog.transactions(*two_brokers).producers
    assert {each.partition.topic for each in producers} == {"orders", "prices"}


def test_a_replay_leaves_them_out(two_brokers: tuple[str, str]) -> None:
    assert {each.topic for each in live_partitions(kafkalog.open_all(*two_brokers))} == {"orders", "prices"}


def test_a_consumer_of_another_topic_does_not_read_them(two_brokers: tuple[str, str]) -> None:
    with kafkalog.Consumer(two_brokers, consumer_timeout_ms=1) as consumer:
        (stream,) = consumer.create_message_streams({"orders": 1})["orders"]
        assert {message.topic for message in stream} == {"orders"}


def test_spark_does_not_read_them_if_it_subscribes_to_another_topic(two_brokers: tuple[str, str]) -> None:
    options = parse_options({"path": f"{Path(two_brokers[0]).parent}/*", "subscribe": "orders"})
    assert {piece.topic for task in plan_read(options) for piece in task} == {"orders"}
