"""Several clusters in one ZooKeeper: `--chroot` tells them apart; names are decoded; bad cluster ids are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.brokers import config_entity
from kafkalog.cluster.zookeeper.configs import zookeeper_configs
from kafkalog.cluster.zookeeper.old_consumers import consumer_of_thread, old_groups
from kafkalog.cluster.zookeeper.registered_consumers import ConsumerId, consumer_id
from testkit.made.zookeeper_log import write_log
from testkit.running.command import kafkalog

UUID = "5b1a6ff6-4a5e-4c0e-9d4b-0e5a4a4d6b11"
GO_CLIENT = f"worker-7.example.com:{UUID}"
"""as kazoo-go's `generateConsumerInstanceID` and pykafka's consumer make it"""


def config(**values: str) -> bytes:
    return json.dumps(
        {"version": 1, "config": {name.replace("_", "."): value for name, value in values.items()}}
    ).encode()


def cluster(chroot: str, offset: int, retention: str, identity: bytes) -> list[tuple[str, bytes]]:
    nodes = [(chroot, b"")] if chroot else []
    return nodes + [
        (f"{chroot}{path}", data)
        for path, data in (
            ("/cluster", b""),
            ("/cluster/id", identity),
            ("/brokers", b""),
            ("/brokers/ids", b""),
            ("/brokers/topics", b""),
            ("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}'),
            ("/config", b""),
            ("/config/topics", b""),
            ("/config/topics/t", config(retention_ms=retention)),
            ("/config/brokers", b""),
            ("/config/brokers/<default>", config(log_retention_ms="77")),
            ("/config/users", b""),
            ("/config/users/<default>", config(producer_byte_rate="1")),
            ("/config/users/%3Cdefault%3E", config(producer_byte_rate="2")),
            ("/config/users/CN%3DSome%20name%2A", config(producer_byte_rate="3")),
            ("/config/users/CN%3DSome%20name%2A/clients", b""),
            ("/config/users/CN%3DSome%20name%2A/clients/a%2Fb", config(producer_byte_rate="4")),
            ("/consumers", b""),
            (f"/consumers/g{offset}", b""),
            (f"/consumers/g{offset}/offsets", b""),
            (f"/consumers/g{offset}/offsets/t", b""),
            (f"/consumers/g{offset}/offsets/t/0", b"%d" % offset),
        )
    ]


GOOD = b'{"version":"1","id":"4dJnKsReQKawNVV1DDAknw"}'


@pytest.fixture
def two(tmp_path: Path) -> Path:
    nodes = [*cluster("/a", 11, "1000", GOOD), *cluster("/b", 22, "2000", GOOD)]
    return write_log(tmp_path / "zk", nodes)


def test_groups_of_one_cluster(two: Path) -> None:
    assert [each["group"] for each in kafkalog("groups", "--json", two).objects] == ["g11", "g22"]
    assert [each["group"] for each in kafkalog("groups", "--json", "--chroot", "/b/", two).objects] == ["g22"]
    wrong = kafkalog("groups", "--chroot", "/c", two)
    assert wrong.code in (1, 64)
    assert "/c" in wrong.err


def test_settings_of_one_cluster(two: Path) -> None:
    without = kafkalog("metadata", "--effective", "--topic", "t", two)
    assert without.code == 64
    assert "(/a, /b); --chroot chooses one" in without.err
    for chroot, wanted in (("/a", "1000"), ("/b", "2000")):
        found = kafkalog("metadata", "--effective", "--no-defaults", "--json", "--chroot", chroot, two).objects
        retention = {each["resource"]: each["value"] for each in found if each["name"] == "retention.ms"}
        assert retention == {"topic:t": wanted}
        assert {each["source"] for each in found if each["name"] == "log.retention.ms"} <= {"cluster"}


def test_nodes_of_one_cluster(two: Path) -> None:
    found = kafkalog("zk", "--json", "--chroot", "/a", two).objects
    assert found
    assert all(each["path"] == "/a" or each["path"].startswith("/a/") for each in found)
    below = kafkalog("zk", "--json", "--chroot", "/b", "--below", "/consumers", two).objects
    assert all(each["path"].startswith("/b/consumers") for each in below)
    assert kafkalog("zk", "--chroot", "/nowhere", two).code in (1, 64)


def test_a_chroot_is_for_zookeeper(tmp_path: Path) -> None:
    for command in ("groups", "metadata"):
        assert kafkalog(command, "--chroot", "/a", tmp_path).code == 64


def test_names_are_decoded_and_the_default_is_not_a_name(two: Path) -> None:
    tree = tree_at(open_zookeeper(two)).tree
    found = {name: values for name, values in zookeeper_configs(tree, "/a").items() if name.startswith("user:")}
    rates = {name: values["producer.byte.rate"] for name, values in found.items()}
    assert rates == {
        "user:": "1", "user:<default>": "2", "user:CN=Some name*": "3", "user:CN=Some name*/clients/a/b": "4",
    }  # fmt: skip
    node = tree.nodes["/a/config/users/<default>"]
    node.data = b'{"version": 1, "config": {"a": 1}}'
    assert "user:" not in zookeeper_configs(tree, "/a"), "no value is text"
    entity = config_entity("/config/users/CN%3DSome%20name%2A/clients/<default>", config(a="1"))
    assert entity is not None
    assert entity.shown_name == "CN=Some name*/clients/(default)"
    text = kafkalog("zk", "--chroot", "/a", two).out
    assert "CN=Some name*" in text
    assert "(default)" in text


@pytest.mark.parametrize("identity", [b"", b"garbage", b'{"version":"1"}', b'{"version":"1","id":5}', b"[1]"])
def test_a_cluster_id_that_is_none_is_found(identity: bytes, tmp_path: Path) -> None:
    zookeeper = write_log(tmp_path / "zk", [*cluster("/a", 1, "1", identity), *cluster("/b", 2, "1", GOOD)])
    for command in (["zk"], ["elections"], ["groups"], ["metadata", "--effective", "--chroot", "/a"]):
        ended = kafkalog(*command, zookeeper)
        assert ended.code == 1
        assert "/a/cluster/id holds no cluster id" in ended.err
        assert "/b/cluster/id holds" not in ended.err
    assert "holds no cluster id" not in kafkalog("groups", "--chroot", "/b", zookeeper).err


def test_ids_that_clients_in_other_languages_made() -> None:
    assert consumer_id("g", GO_CLIENT) == ConsumerId("worker-7.example.com", None, UUID)
    assert consumer_id("g", f"g_{UUID}") is None
    assert consumer_of_thread(GO_CLIENT) == GO_CLIENT
    assert consumer_of_thread(f"{GO_CLIENT}-0") == GO_CLIENT
    assert consumer_of_thread("g_host-1452134230082-1a2b3c4d-0") == "g_host-1452134230082-1a2b3c4d"


def test_their_owners_are_registered_ones(tmp_path: Path) -> None:
    registration = b'{"version":1,"pattern":"static","timestamp":"1452134230082","subscription":{"t":1}}'
    nodes = [
        *cluster("", 5, "1", GOOD),
        ("/consumers/g5/ids", b""),
        (f"/consumers/g5/ids/{GO_CLIENT}", registration),
        ("/consumers/g5/owners", b""),
        ("/consumers/g5/owners/t", b""),
        ("/consumers/g5/owners/t/0", GO_CLIENT.encode()),
    ]
    zookeeper = write_log(tmp_path / "zk", nodes)
    (group,) = old_groups(tree_at(open_zookeeper(zookeeper)).tree)
    assert group.violations() == group.unregistered_owners() == []
    (line,) = kafkalog("groups", "--json", zookeeper).objects
    (member,) = line["members"]
    assert (member["host"], member["uuid"], member["startedTimestamp"]) == ("worker-7.example.com", UUID, None)
    assert member["assignment"] == ["t-0"]


def test_an_owner_that_does_not_exist_is_a_finding(tmp_path: Path) -> None:
    nodes = [
        *cluster("", 5, "1", GOOD),
        ("/consumers/g5/owners", b""),
        ("/consumers/g5/owners/t", b""),
        ("/consumers/g5/owners/t/0", b"g5_gone-1452134230082-1a2b3c4d-0"),
    ]
    ended = kafkalog("groups", write_log(tmp_path / "zk", nodes))
    assert ended.code == 1
    assert "t-0 is owned by g5_gone-1452134230082-1a2b3c4d-0, which is not registered" in ended.err
