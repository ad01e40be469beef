"""Brokers and configurations in ZooKeeper, typed; and the nodes that a version of Kafka makes when it starts."""

from __future__ import annotations

import pytest

from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.brokers import Endpoint, broker_registration, config_entity
from kafkalog.cluster.zookeeper.persistent_paths import PERSISTENT_PATHS, least_version, missing_paths
from kafkalog.cluster.zookeeper.replay import Replayer
from kafkalog.codec.common.findings import FindingCode
from testkit.recorded.broker_dirs import unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.command import kafkalog

CASES = [case for case in broker_cases() if case.has("zk_tree") and case.name in ("groups", "zkhist")]
SINCE = {"0.8.2.2": (0, 8, 1), "0.9.0.1": (0, 9, 0), "0.10.2.2": (0, 10, 1), "0.11.0.3": (0, 11, 0),
         "1.1.1": (1, 0, 0), "2.8.2": (2, 8, 0), "3.9.1-zk": (2, 8, 0)}  # fmt: skip


def test_a_registration_of_each_version() -> None:
    first = broker_registration(
        "/brokers/ids/0", b'{"jmx_port":1,"timestamp":"1452068227537","host":"h3","version":1,"port":9092}'
    )
    assert first is not None
    assert (first.broker, first.host, first.port, first.jmx_port, first.timestamp) == (0, "h3", 9092, 1, 1452068227537)
    assert first.endpoints == (Endpoint(listener="PLAINTEXT", host="h3", port=9092, security_protocol="PLAINTEXT"),)
    last = broker_registration(
        "/k/brokers/ids/7",
        b'{"version":5,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1","rack":"r","features":{},'
        b'"endpoints":["IN://[::1]:9093","bad"],"listener_security_protocol_map":{"IN":"SASL_SSL"}}',
    )
    assert last is not None
    assert (last.chroot, last.broker, last.host, last.port, last.rack, last.features) == ("/k", 7, None, -1, "r", {})
    assert last.endpoints == (Endpoint(listener="IN", host="::1", port=9093, security_protocol="SASL_SSL"),)
    assert str(last.endpoints[0]) == "IN://[::1]:9093"


@pytest.mark.parametrize("data", [None, b"", b"[]", b"{}", b'{"version":"1","port":1}', b'{"version":1,"port":true}'])
def test_what_is_no_registration(data: bytes | None) -> None:
    assert broker_registration("/brokers/ids/1", data) is None
    assert broker_registration("/brokers/ids", b'{"version":1,"port":1}') is None


def test_configurations_and_their_secrets() -> None:
    found = config_entity("/config/users/u/clients/c", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x","rate":"5"}}')
    assert found is not None
    assert (found.type, found.name, found.hidden().config) == (
        "users",
        "u/clients/c",
        {"SCRAM-SHA-256": "[hidden]", "rate": "5"},
    )
    assert config_entity("/config/topics/t", b'{"version":1}') is None
    assert config_entity("/config/changes/t", b'{"version":1,"config":{}}') is None


def test_the_command_shows_brokers_and_configurations() -> None:
    path = unpacked("2.8.2/zkhist") / "zookeeper"
    nodes = [line for line in kafkalog("elections", "--json", path).objects if line["kind"] == "broker"]
    zxid = max(int(line["from_zxid"]) for line in nodes)
    table = kafkalog("zk", path, "--zxid", zxid)
    assert (table.code, table.err) == (0, "")
    assert "PLAINTEXT://localhost:" in table.out
    assert "brokers" in table.lines
    typed = [line["kafka"] for line in kafkalog("zk", "--json", path, "--zxid", zxid).objects if line["kafka"]]
    assert {line["kind"] for line in typed} == {"broker", "config"}
    assert {line["host"] for line in typed if line["kind"] == "broker"} == {"localhost"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_path_is_there_whenever_a_broker_is(case: BrokerCase) -> None:
    replayer = Replayer(open_zookeeper(unpacked(case.id) / "zookeeper"))
    for transaction in replayer:
        if any("/brokers/ids" in (each.path or "") for each in transaction.operations):
            assert missing_paths(replayer.tree) == []
    assert least_version(replayer.tree) == SINCE[case.version]


@pytest.mark.parametrize("case", [case for case in CASES if case.name == "zkhist"], ids=lambda case: case.id)
def test_a_missing_path_is_found(case: BrokerCase) -> None:
    tree = tree_at(open_zookeeper(unpacked(case.id) / "zookeeper")).tree
    least = least_version(tree)
    assert least is not None
    newest = max(since for since, _ in PERSISTENT_PATHS if since <= least)
    for since, path in PERSISTENT_PATHS:
        if since > least or since == newest or path == "/brokers/ids":
            continue
        node = tree.nodes.pop(path)
        (found,) = missing_paths(tree)
        assert found.code is FindingCode.ZK_PATH_MISSING
        assert found.detail.startswith(f"{path} is missing, which brokers of ")
        tree.nodes[path] = node
