"""Partitions that the brokers hold and the controllers' metadata does not know are lost to the cluster, and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.jobs.triage.kraft import kraft_memory
from kafkalog.jobs.triage.run import Triage, triage
from kafkalog.log.directories.partition import open_partition
from kafkalog.log.directories.selection import Selection
from testkit.kafka.start_records import append_metadata
from testkit.recorded.broker_dirs import own_copy, unpacked
from testkit.recorded.fixture_data import unpack_replicas
from testkit.recorded.quorums import CONTROLLERS, copied, last_log
from testkit.running.command import kafkalog

BROKERS = ("broker-1", "broker-2", "broker-3")
METADATA = "__cluster_metadata-0"


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    unpack_replicas(tmp_path)
    return tmp_path


def of(disks: Path, select: Selection | None = None) -> Triage:
    paths = [disks / name for name in (*BROKERS, "controller")]
    return triage(*paths) if select is None else triage(*paths, select=select)


def forget(disks: Path, *, everywhere: bool) -> str:
    """Cut the metadata before the last topic was made; its name."""
    controller = disks / "controller" / METADATA
    made = [
        (each.offset, each.record.decoded.fields["name"])
        for each in MetadataLog(open_partition(controller)).events([])
        if each.record.name == "TopicRecord" and each.record.decoded is not None
    ]
    offset, name = made[-1]
    for root in [disks / each for each in ("controller", *(BROKERS if everywhere else ()))]:
        for place in root.glob(METADATA):
            for snapshot in place.glob("*.checkpoint"):
                assert int(snapshot.name[:20]) <= offset
            (log,) = place.glob("*.log")
            data = log.read_bytes()
            cut = next(each.position for each in Scanner(BufferSource(data)) if each.header.last_offset >= offset)
            log.write_bytes(data[:cut])
    return str(name)


def ids(disks: Path, topic: str) -> str:
    text = min(disks.glob(f"broker-*/{topic}-0/partition.metadata")).read_text()
    return text.split("topic_id: ")[1].strip()


def test_what_the_controller_forgot_is_named_with_its_records_on_every_broker(disks: Path) -> None:
    whole = {each.topic: each for each in of(disks).partitions}
    assert of(disks).unknown == []
    topic = forget(disks, everywhere=True)
    found = of(disks)
    assert topic not in {each.topic for each in found.partitions}
    assert not found.is_clean
    holders = {node: log for node, log in whole[topic].logs.items() if log.path is not None}
    assert {each.node: (each.topic, each.start, each.end) for each in found.unknown} == {
        node: (topic, log.start, log.end) for node, log in holders.items()
    }
    assert {each.topic_id for each in found.unknown} == {ids(disks, topic)}
    assert {each.known_to for each in found.unknown} == {None}
    ended = kafkalog("triage", *(disks / name for name in (*BROKERS, "controller")))
    assert ended.code == 1
    assert "1 partition in the brokers' directories is lost to the cluster" in ended.out
    assert "Nothing is lost" not in ended.out


def test_another_copy_of_the_metadata_that_knows_them_is_named(disks: Path) -> None:
    shutil.copytree(disks / "controller" / METADATA, disks / "broker-2" / METADATA, dirs_exist_ok=True)
    forget(disks, everywhere=False)
    known_to = {each.known_to for each in of(disks).unknown}
    assert {Path(each).name for each in known_to if each} == {METADATA}
    assert None not in known_to
    assert str(disks / "controller" / METADATA) not in known_to


def test_a_topic_that_was_made_again_is_not_the_one_on_the_disk(disks: Path) -> None:
    place = disks / "broker-3/tale-0/partition.metadata"
    place.write_text(place.read_text().replace(ids(disks, "tale"), "3nJ1s8hOQ0uV2m5cYw7bAw"))
    known = ids(disks, "tale")
    (found,) = of(disks).unknown
    assert (found.topic, found.node, found.topic_id) == ("tale", 3, "3nJ1s8hOQ0uV2m5cYw7bAw")
    assert known in found.why


def test_the_log_of_a_topic_that_was_made_again_is_no_copy_of_it(disks: Path) -> None:
    """Three nodes of Kafka 4.1.0, one of them from an older image: the partition was made again there, empty, and when
    this node led, the others truncated to it.
    """
    before = next(each for each in of(disks).partitions if each.topic == "tale")
    assert before.logs[2].end > 0
    place = disks / "broker-2/tale-0/partition.metadata"
    place.write_text(place.read_text().replace(ids(disks, "tale"), "3nJ1s8hOQ0uV2m5cYw7bAw"))
    (log,) = (disks / "controller" / METADATA).glob("*.log")
    append_metadata(log, ("RemoveTopicRecord", 0, {"topic_id": "3nJ1s8hOQ0uV2m5cYw7bAw"}))
    found = next(each for each in of(disks).partitions if each.topic == "tale")
    assert (found.logs[2].path, found.logs[2].end) == (None, 0)
    assert found.lost_under(2) == found.logs[found.best[0]].end > 0


def test_a_partition_number_beyond_those_that_are_known(disks: Path) -> None:
    shutil.copytree(disks / "broker-1/tale-0", disks / "broker-1/tale-7")
    (found,) = of(disks).unknown
    assert (found.topic, found.partition, found.node) == ("tale", 7, 1)
    assert of(disks, Selection.of(excluded=("tale",))).unknown == []
    assert [each.partition for each in of(disks, Selection.of(("tale",))).unknown] == [7]


def test_a_topic_that_the_log_shows_as_deleted_is_not_lost(disks: Path) -> None:
    (log,) = (disks / "controller" / METADATA).glob("*.log")
    append_metadata(log, ("RemoveTopicRecord", 0, {"topic_id": ids(disks, "tale")}))
    found = of(disks)
    assert "tale" not in {each.topic for each in found.partitions}
    assert found.unknown == []


def test_json_has_them_in_the_summary(disks: Path) -> None:
    shutil.copytree(disks / "broker-1/tale-0", disks / "broker-1/tale-7")
    ended = kafkalog("triage", "--json", *(disks / name for name in (*BROKERS, "controller")))
    (unknown,) = json.loads(ended.out.splitlines()[-1])["unknown"]
    assert (unknown["topic"], unknown["partition"], unknown["node"]) == ("tale", 7, 1)
    assert unknown["path"] == str(disks / "broker-1/tale-7")


def test_zookeeper_too(tmp_path: Path) -> None:
    cluster = own_copy(unpacked("2.8.2/zkhist"), tmp_path / "cluster")
    assert triage(cluster).unknown == []
    broker = min(cluster.glob("broker-*"))
    name = next(each.name for each in sorted(broker.iterdir()) if each.name.endswith("-0") and each.is_dir())
    shutil.copytree(broker / name, broker / "made-elsewhere-3")
    (found,) = triage(cluster).unknown
    assert (found.topic, found.partition) == ("made-elsewhere", 3)
    assert "ZooKeeper knows no such topic" in found.why


def test_who_is_elected_is_said_if_another_voter_is_behind(tmp_path: Path) -> None:
    """A majority refuses its vote to a controller whose metadata ends before theirs."""
    nodes = copied("static", tmp_path, *CONTROLLERS)
    behind, *others = sorted(nodes)
    ahead = nodes[others[0]] / METADATA
    for number in (behind, others[1]):
        shutil.rmtree(nodes[number] / METADATA)
        shutil.copytree(ahead, nodes[number] / METADATA)
    paths = [str(root) for root in nodes.values()]
    assert kraft_memory(paths, {}, []).elected == ""
    for number in others:
        append_metadata(last_log(nodes[number]), ("NoOpRecord", 0, {}))
    assert kraft_memory(paths, {}, []).elected == (
        f"Node {others[0]} or {others[1]} is elected as the controller, in any order of starts: the metadata of "
        f"{behind} is older, and it gets the rest from the controller."
    )
    last_log(nodes[behind]).write_bytes(b"")
    assert read_quorum_log(nodes[behind]).refusal is not None  # it does not start, and gets nothing
    assert kraft_memory(paths, {}, []).elected == ""
