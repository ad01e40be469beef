"""Settings that count, typed tables, and producer ids against the blocks that were given out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.rules.config_defaults import default_settings
from kafkalog.cluster.rules.configuration import ConfigSource, effective_of_broker, effective_of_topic
from kafkalog.cluster.transactions.producer_ids import next_block_of_zookeeper, not_given_out
from kafkalog.cluster.transactions.producers import read_producers
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.tree import Node, Tree
from kafkalog.log import open_all, open_partition
from testkit.recorded.broker_dirs import KILLED, brokers, unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.command import kafkalog

Compared = Callable[[str, int], None]
IDEMPOTENT = [case for case in broker_cases() if case.name == "txn" and case.name not in KILLED]
RESOURCES = {
    "topic:t": {"segment.bytes": "5"},
    "broker:1": {"log.retention.minutes": "2", "log.segment.bytes": "6"},
    "broker:": {"log.retention.ms": "7", "log.segment.bytes": "8", "unclean.leader.election.enable": "true"},
}


def test_the_most_specific_setting_counts() -> None:
    static = {"log.retention.hours": "1", "min.insync.replicas": "2", "log.segment.bytes": "9", "node.id": "1"}
    found = effective_of_topic(RESOURCES, "t", broker=1, static=static)
    assert {name: (each.value, each.source, each.given_as) for name, each in found.items()} == {
        "segment.bytes": ("5", ConfigSource.TOPIC, "segment.bytes"),
        "retention.ms": ("120000", ConfigSource.BROKER, "log.retention.minutes"),
        "unclean.leader.election.enable": ("true", ConfigSource.CLUSTER, "unclean.leader.election.enable"),
        "min.insync.replicas": ("2", ConfigSource.STATIC, "min.insync.replicas"),
    }
    assert effective_of_topic(RESOURCES, "t", broker=2)["retention.ms"].value == "7"
    of_broker = effective_of_broker(RESOURCES, 1, static)
    assert (of_broker["log.segment.bytes"].value, of_broker["log.segment.bytes"].source) == ("6", ConfigSource.BROKER)
    assert of_broker["node.id"].source is ConfigSource.STATIC


def test_effective_settings_of_a_quorum_s_cluster(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/metadata")
    properties = tmp_path / "server.properties"
    properties.write_text("log.retention.hours=3\nssl.keystore.password=geheim\n")
    everything = kafkalog("metadata", broker, "--effective", "--server-properties", properties, "--json")
    assert (everything.code, everything.err) == (0, "")
    of_broker = {each["name"]: each for each in everything.objects if each["resource"] == "broker:1"}
    assert of_broker["log.cleaner.threads"]["source"] == "DYNAMIC_BROKER_CONFIG"
    assert of_broker["min.insync.replicas"]["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert of_broker["ssl.keystore.password"]["value"] == "[hidden]"
    assert "geheim" not in everything.out
    at_broker = kafkalog("metadata", broker, "--effective", "--topic", "tickets-0", "--broker", 1,
                         "--server-properties", properties)  # fmt: skip
    rows = {line.split()[1]: line.split()[2:] for line in at_broker.lines[2:] if line.strip()}
    assert rows["retention.ms"] == ["543202169", "DYNAMIC_TOPIC_CONFIG", "retention.ms"]
    assert rows["min.insync.replicas"] == ["1", "DYNAMIC_DEFAULT_BROKER_CONFIG", "min.insync.replicas"]
    shown = kafkalog("metadata", broker, "--effective", "--broker", 1, "--server-properties", properties,
                     "--show-secrets")  # fmt: skip
    assert "geheim" in shown.out


def test_kafkas_own_defaults_come_last() -> None:
    (broker,) = brokers("4.1.1/metadata")
    lines = kafkalog("metadata", broker, "--effective", "--topic", "tickets-0", "--json").objects
    found = {each["name"]: (each["value"], each["source"]) for each in lines}
    assert found["retention.ms"] == ("543202169", "DYNAMIC_TOPIC_CONFIG")
    assert found["segment.index.bytes"] == ("10485760", "DEFAULT_CONFIG")
    assert "message.downconversion.enable" not in found, "4.1 has no such setting"
    without = kafkalog("metadata", broker, "--effective", "--topic", "tickets-0", "--no-defaults", "--json").objects
    assert without == [each for each in lines if each["source"] != "DEFAULT_CONFIG"]
    alone = kafkalog("metadata", broker, "--no-defaults")
    assert (alone.code, "--no-defaults needs --effective" in alone.err) == (64, True)


def test_a_default_is_that_of_the_release_or_not_given() -> None:
    of_3_9, of_4_1 = default_settings("topic", [21]), default_settings("topic", [27])
    assert of_3_9["message.timestamp.after.max.ms"] == "9223372036854775807"
    assert of_4_1["message.timestamp.after.max.ms"] == "3600000"
    between = default_settings("topic", [25])
    assert "message.timestamp.after.max.ms" not in between
    assert between["retention.ms"] == of_3_9["retention.ms"] == of_4_1["retention.ms"]
    assert default_settings("topic", [21, 27]) == between
    for levels in ([27, 20], [99], []):
        assert default_settings("topic", levels) == {}


def test_effective_settings_with_zookeeper() -> None:
    directory = unpacked("2.8.2/zkhist") / "zookeeper"
    finished = kafkalog("metadata", directory, "--effective", "--topic", "flights-23", "--json")
    assert (finished.code, finished.err) == (0, "")
    assert {each["name"]: each["value"] for each in finished.objects} == {
        "cleanup.policy": "delete",
        "segment.bytes": "20000",
        "retention.ms": "99999999",
    }
    unknown = kafkalog("metadata", directory, "--effective", "--topic", "nobody")
    assert unknown.code == 1
    assert "there is no topic 'nobody'" in unknown.err
    for arguments in (("--broker", 1), ("--effective", "--history")):
        assert kafkalog("metadata", directory, *arguments).code == 64


@pytest.mark.parametrize("case", ["4.1.1/metadata", "2.8.2/zkhist"])
def test_a_broker_that_nobody_knows_has_no_settings(case: str) -> None:
    path = unpacked(case) / "zookeeper" if case == "2.8.2/zkhist" else brokers(case)[0]
    for more in ((), ("--topic", "flights-23" if case == "2.8.2/zkhist" else "tickets-0")):
        unknown = kafkalog("metadata", path, "--effective", "--broker", 77, *more)
        assert (unknown.code, unknown.out) == (1, "")
        assert "there is no broker 77; there " in unknown.err
        known = 5 if case == "2.8.2/zkhist" else 1  # 5 is away at the end
        assert kafkalog("metadata", path, "--effective", "--broker", known, *more).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--topic", "tickets-0", "--against", "x"), "--topic, --partition and --exclude cannot be used with it"),
        (("--effective", "--partition", 0), "--partition cannot be used with --effective"),
        (("--history", "--as-of", 5), "--as-of and --against cannot be used with it"),
        (("--as-of", 99_999_999), "--as-of 99999999 is beyond the end of the metadata log, which is offset "),
    ],
)
def test_an_option_without_effect_is_refused(arguments: tuple[object, ...], words: str) -> None:
    refused = kafkalog("metadata", brokers("4.1.1/metadata")[0], *arguments)
    assert (refused.code, refused.out, words in refused.err) == (64, "", True), refused.err


def test_registrations_and_settings_are_tables() -> None:
    (broker,) = brokers("4.1.1/metadata")
    finished = kafkalog("metadata", broker)
    assert finished.code == 0
    (row,) = [line for line in finished.lines if "PLAINTEXT://localhost:50963" in line]
    assert "metadata.version 7-27" in row
    assert "Qm7NN39HQqWU8hr41F4N-Q" in row
    rows = [line.split() for line in finished.lines]
    assert ["broker", "(default)", "min.insync.replicas", "1"] in rows
    assert ["topic", "tickets-0", "max.message.bytes", "63698"] in rows


@pytest.mark.parametrize("case", IDEMPOTENT, ids=lambda case: case.id)
def test_ids_in_the_logs_were_given_out(case: BrokerCase, compared: Compared) -> None:
    places = read_producers(open_all(*brokers(case.id)).readable())
    if case.case["mode"] == "kraft":
        (broker,) = brokers(case.id)
        next_block: int | None = (
            MetadataLog(open_partition(broker / "__cluster_metadata-0")).state().image.next_producer_id
        )
    else:
        next_block = next_block_of_zookeeper(tree_at(open_zookeeper(unpacked(case.id) / "zookeeper")).tree)
    assert next_block is not None
    ids = {each.producer_id for place in places for each in place.producers}
    assert ids
    assert next_block > 0
    assert not_given_out(places, next_block) == []
    assert len(not_given_out(places, max(ids))) == sum(
        any(each.producer_id == max(ids) for each in place.producers) for place in places
    )
    compared("producer ids below the next block", len(ids))


def tree_with(data: bytes | None) -> Tree:
    tree = Tree.empty()
    tree.put("/latest_producer_id_block", Node(data, None))
    return tree


def test_blocks_in_zookeeper() -> None:
    assert next_block_of_zookeeper(Tree.empty()) is None
    assert next_block_of_zookeeper(tree_with(None)) == 0
    assert (
        next_block_of_zookeeper(tree_with(b'{"version":1,"broker":5,"block_start":"3000","block_end":"3999"}')) == 4000
    )
    for data in (b"[]", b"{", b'{"block_end":"x"}', b'{"block_end":-5}', b'{"block_end":1.5}', b'{"block_end":null}'):
        assert next_block_of_zookeeper(tree_with(data)) is None


def test_ids_of_another_cluster_are_found(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/txn")
    assert kafkalog("metadata", broker, "--against", broker).code == 0
    assert kafkalog("elections", broker, "--against", broker).code == 0
    (other,) = brokers("4.1.1/metadata")  # gave out no block
    only = tmp_path / "data"
    only.mkdir()
    shutil.copy(other / "meta.properties", only)
    shutil.copytree(other / "__cluster_metadata-0", only / "__cluster_metadata-0")
    for arguments in (("metadata", only, "--against", broker), ("elections", only, "--against", broker)):
        finished = kafkalog(*arguments)
        assert finished.code == 1
        assert "the next block to be allocated begins at 0" in finished.err
