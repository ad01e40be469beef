"""Triage of clusters with ZooKeeper: whose data it is, how much of it is there, and what to do."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.shapes.triage_lines import partition_line
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.departures import Known
from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState
from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.jobs.triage.logs import BrokerDisks
from kafkalog.jobs.triage.run import Triage, triage
from kafkalog.jobs.triage.zookeeper import ZooKeeperMemory
from kafkalog.log.directories.directory import open_log_dir
from testkit.recorded.broker_dirs import own_copy, unpacked
from testkit.running.command import kafkalog


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return own_copy(unpacked("2.8.2/zkhist"), tmp_path / "cluster")


def of(cluster: Path, *zookeepers: Path) -> Triage:
    return triage(*sorted(cluster.glob("broker-*")), *(zookeepers or (cluster / "zookeeper",)))


def leaders(found: Triage) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(each.topic, each.partition): each.leaders for each in found.partitions}


def test_all_of_a_cluster_in_one_folder(cluster: Path) -> None:
    assert leaders(triage(cluster)) == leaders(of(cluster))
    assert leaders(of(cluster, cluster / "zookeeper/version-2")) == leaders(of(cluster))


def test_a_data_directory_and_a_log_directory_are_one_server(cluster: Path) -> None:
    whole = leaders(of(cluster))
    logs = cluster / "logs/version-2"
    logs.mkdir(parents=True)
    for path in (cluster / "zookeeper/version-2").glob("log.*"):
        path.rename(logs / path.name)
    both = of(cluster, cluster / "zookeeper", cluster / "logs")
    assert leaders(both) == whole
    assert both.findings == []
    alone = of(cluster)
    assert [each.code for each in alone.findings] == [FindingCode.ZK_GAP]
    assert "give dataLogDir too" in alone.findings[0].detail


def test_of_several_servers_the_furthest_counts_and_the_others_are_named(cluster: Path) -> None:
    whole = leaders(of(cluster))
    behind = own_copy(cluster / "zookeeper", cluster / "behind")
    last = max((behind / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
    last.unlink()
    ends = [tree_at(open_zookeeper(path)).zxid for path in (behind, cluster / "zookeeper")]
    assert ends[0] < ends[1]
    for order in ((behind, cluster / "zookeeper"), (cluster / "zookeeper", behind)):
        found = of(cluster, *order)
        assert leaders(found) == whole
        (finding,) = found.findings
        assert finding.file == str(behind)
        assert f"0x{ends[0]:x}" in finding.detail
        assert f"0x{ends[1]:x}" in finding.detail


def test_another_clusters_zookeeper_is_refused(cluster: Path) -> None:
    other = unpacked("3.9.1-zk/zkhist") / "zookeeper"
    with pytest.raises(RecoveryRefused, match=r"is of another cluster \(4dJnKsReQKawNVV1DDAknw at /\)"):
        of(cluster, other)


def test_files_that_cannot_be_read_are_named(cluster: Path) -> None:
    for path in (cluster / "zookeeper/version-2").iterdir():
        path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(RecoveryRefused, match=r"says nothing of a Kafka cluster: .*snapshot\."):
        of(cluster)


def test_damage_at_the_end_of_the_log_is_told(cluster: Path) -> None:
    last = max((cluster / "zookeeper/version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
    data = bytearray(last.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 1
    last.write_bytes(data)
    assert [each.file for each in of(cluster).findings] == [str(last)]


def test_zookeeper_alone_says_whose_disks_are_needed(cluster: Path) -> None:
    found = triage(cluster / "zookeeper")
    assert found.without_disks == (3, 5)
    assert {each.advice.what for each in found.partitions} == {"bring"}


def test_beside_a_kraft_controller_zookeeper_is_left_aside(cluster: Path, tmp_path: Path) -> None:
    from testkit.recorded.fixture_data import unpack_replicas

    unpack_replicas(tmp_path / "kraft")
    paths = sorted((tmp_path / "kraft").iterdir())
    found = triage(*paths, cluster / "zookeeper")
    assert list(map(partition_line, found.partitions)) == list(map(partition_line, triage(*paths).partitions))
    assert [each.file for each in found.findings] == [str(cluster / "zookeeper")]


@pytest.mark.parametrize(("case", "old"), [("2.8.2/zkhist", False), ("1.1.1/zkhist", True)])
def test_what_to_do_is_said_for_zookeeper(case: str, old: bool, tmp_path: Path) -> None:
    cluster = own_copy(unpacked(case), tmp_path / "cluster")
    first, second = sorted(cluster.glob("broker-*"))
    ended = kafkalog("triage", first, cluster / "zookeeper")
    assert "Start ZooKeeper alone and wait for longer than zookeeper.session.timeout.ms" in ended.out
    assert "controllers" not in ended.out
    assert "kafka-leader-election.sh" in ended.out
    assert ("before Kafka 2.4" in ended.out) is old
    assert kafkalog("triage", first, second, cluster / "zookeeper").code == 0


def test_the_one_that_is_left_in_an_isr_is_known_from_2_7_on(cluster: Path) -> None:
    shutil.rmtree(cluster / "broker-3" / "invoices-20-0")
    found = triage(*sorted(cluster.glob("broker-*")), cluster / "zookeeper", start_order=[3, 5])
    said = next(each for each in found.partitions if (each.topic, each.partition) == ("invoices-20", 0))
    assert (said.known.isr, said.leaders) == ((5,), (5,)), "broker 3 is the controller, and not in the ISR"
    assert said.outcomes == {5: {3: 34, 5: 34}}


def test_a_server_that_cannot_be_read_gives_way_to_another(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = leaders(of(cluster))
    other = own_copy(cluster / "zookeeper", cluster / "other")
    real_open = os.open

    def opened(path: str, *arguments: Any, **named: Any) -> int:
        if str(path).startswith(str(other / "version-2/snapshot")):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real_open(path, *arguments, **named)

    monkeypatch.setattr(os, "open", opened)
    found = of(cluster, other, cluster / "zookeeper")
    assert leaders(found) == whole
    assert [each.code for each in found.findings] == [FindingCode.UNREADABLE]
    with pytest.raises(StorageError):
        of(cluster, other)


@pytest.mark.parametrize("known", [True, False])
def test_who_is_left_is_no_ground_for_an_advice(known: bool, cluster: Path) -> None:
    """`tests/interop/test_election_rules.py` compares the order with Scala's, and real clusters with all of it."""
    states: Known = {("t", 0): ((1, 2, 3), PartitionState(leader=2, leader_epoch=5, isr=(3, 2), controller_epoch=9))}
    memory = ZooKeeperMemory("source", states, {"t": False}, frozenset(), known)
    disk = open_log_dir(cluster / "broker-3")
    memory.begin({node: BrokerDisks(node=node, directories=[disk], online=[disk]) for node in (1, 2, 3)})

    def leaders_of(*order: int, cautious: bool = False) -> list[int]:
        return sorted(memory.leaders(("t", 0), order, cautious=cautious) or ())

    assert leaders_of(1, 2, 3) == ([3] if known else [2, 3])
    assert leaders_of(1, 2, 3, cautious=True) == [2, 3]
    assert leaders_of(2, 1) == [2]
    assert leaders_of(1, 2) == ([-1] if known else [-1, 2])
    assert memory.eligible(("t", 0)) == {2, 3}


def test_of_servers_of_two_clusters_those_of_the_brokers_count(cluster: Path, tmp_path: Path) -> None:
    whole = leaders(of(cluster))
    other = unpacked("3.9.1-zk/zkhist") / "zookeeper"
    empty = tmp_path / "empty"
    (empty / "version-2").mkdir(parents=True)
    found = of(cluster, other, cluster / "zookeeper", empty)
    assert leaders(found) == whole
    assert {each.code for each in found.findings} == {FindingCode.NOT_REPLICAS, FindingCode.UNREADABLE}
    with pytest.raises(RecoveryRefused, match="of several clusters"):
        triage(other, cluster / "zookeeper")
    with pytest.raises(UsageError, match="no ZooKeeper log and no snapshot"):
        of(cluster, empty)
