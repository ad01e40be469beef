"""What contradicts itself in what the cluster knew is found: owners, epochs that go back, brokers that do not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.cluster.groups.groups import Group, Member, _owned_twice
from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.registrations import unregistered_brokers
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.log.directories.partition import open_partition
from testkit.kafka.start_records import append_metadata
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

METADATA = "__cluster_metadata-0"


def group(kind: str, *assignments: set[tuple[str, int]]) -> Group:
    members = tuple(
        Member(member_id=f"m{number}", instance_id=None, client_id="c", client_host="/h", assignment=frozenset(each))
        for number, each in enumerate(assignments, 1)
    )
    return Group(
        group_id="g",
        type=kind,
        state="Stable",
        protocol_type="consumer",
        generation=1,
        epoch=None,
        assignor="range",
        leader=None,
        members=members,
    )


def test_a_partition_that_two_members_have() -> None:
    shared = {("orders", 0), ("orders", 1)}, {("orders", 1), ("orders", 2)}
    for kind in ("Classic", "Consumer", "Streams"):
        (found,) = _owned_twice(group(kind, *shared), "/data/__consumer_offsets-3")
        assert found.code is FindingCode.PARTITION_OWNED_TWICE
        assert "orders-1 belongs to m1 and to m2" in (found.detail or "")
    assert _owned_twice(group("Share", *shared), "/data") == []
    assert _owned_twice(group("Classic", {("orders", 0)}, {("orders", 1)}), "/data") == []


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    return own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")


def image_of(broker: Path) -> MetadataImage:
    return MetadataLog(open_partition(broker / METADATA)).state().image


def record_of(broker: Path, *, leader_epoch: int, partition_epoch: int, replica: int | None = None) -> str:
    """Write a whole record of a partition that is known with other epochs; the partition's name."""
    image = image_of(broker)
    topic = next(each for _, each in sorted(image.topics.items()) if each.partitions)
    number, known = next(iter(sorted(topic.partitions.items())))
    replicas = list(known.replicas) if replica is None else [replica]
    fields = {
        "partition_id": number, "topic_id": topic.id, "replicas": replicas, "isr": replicas, "removing_replicas": [],
        "adding_replicas": [], "leader": replicas[0], "leader_recovery_state": 0,
        "leader_epoch": known.leader_epoch + leader_epoch, "partition_epoch": known.partition_epoch + partition_epoch,
        "directories": list(known.directories)[: len(replicas)], "eligible_leader_replicas": None,
        "last_known_elr": None,
    }  # fmt: skip
    append_metadata(max((broker / METADATA).glob("*.log")), ("PartitionRecord", 1, fields))
    return f"{topic.name}-{number}"


@pytest.mark.parametrize(("leader_epoch", "partition_epoch", "what"), [(-1, 0, "leader"), (0, -1, "partition")])
def test_an_epoch_that_goes_back(broker: Path, leader_epoch: int, partition_epoch: int, what: str) -> None:
    assert image_of(broker).problems == []
    name = record_of(broker, leader_epoch=leader_epoch, partition_epoch=partition_epoch)
    (problem,) = image_of(broker).problems
    assert problem.startswith(f"the {what} epoch of {name} goes back from")
    ended = kafkalog("metadata", broker)
    assert ended.code == 1
    assert "goes back" in ended.err


def test_an_epoch_that_grows_or_stays_is_none(broker: Path) -> None:
    record_of(broker, leader_epoch=1, partition_epoch=0)
    assert image_of(broker).problems == []


def test_a_broker_that_is_registered_again_with_an_earlier_epoch(broker: Path) -> None:
    image = image_of(broker)
    known = next(iter(image.brokers.values()))
    fields = {
        "broker_id": known.id, "is_migrating_zk_broker": False, "incarnation_id": known.incarnation_id,
        "broker_epoch": known.epoch - 1, "end_points": [], "features": [], "rack": None, "fenced": True,
        "in_controlled_shutdown": False, "log_dirs": list(known.directories), "cordoned_log_dirs": None,
    }  # fmt: skip
    image._register_broker(fields)
    assert image.problems == [f"the epoch of broker {known.id} goes back from {known.epoch} to {known.epoch - 1}"]


def test_replicas_on_a_broker_that_does_not_exist(broker: Path) -> None:
    assert unregistered_brokers(image_of(broker), "x") == []
    name = record_of(broker, leader_epoch=1, partition_epoch=1, replica=4711)
    (found,) = unregistered_brokers(image_of(broker), "x")
    assert (found.code, found.severity) == (FindingCode.METADATA_INCONSISTENT, Severity.ERROR)
    assert f"broker 4711 leads or is in sync for 1 partition ({name})" in (found.detail or "")
    assert "4711" in kafkalog("metadata", broker).err


def damaged_log(metadata: Path) -> None:
    log = max(path for path in metadata.glob("*.log") if path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)


def damaged_snapshot(metadata: Path) -> None:
    snapshot = max(metadata.glob("*.checkpoint"))
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 0xFF
    snapshot.write_bytes(data)


def cut_snapshot(metadata: Path) -> None:
    snapshot = max(metadata.glob("*.checkpoint"))
    snapshot.write_bytes(snapshot.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [damaged_log, damaged_snapshot, cut_snapshot])
def test_every_question_to_the_metadata_tells_its_damage(damage: Callable[[Path], None], broker: Path) -> None:
    """`elections` and `metadata --history` were silent about a snapshot that `metadata` calls incomplete."""
    questions = (["metadata"], ["metadata", "--history"], ["elections"])
    assert [kafkalog(*words, "--json", broker).code for words in questions] == [0, 0, 0]
    for path in (broker / METADATA).iterdir():
        path.chmod(0o600)
    damage(broker / METADATA)
    found = [kafkalog(*words, "--json", broker) for words in questions]
    assert found[0].code == 1
    assert [(each.code, sorted(each.err.splitlines())) for each in found] == [
        (found[0].code, sorted(found[0].err.splitlines()))
    ] * len(questions)
