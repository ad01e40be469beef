"""Offsets of a group committed into a directory: the coordinator's partition, its records, and who refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from broker_dirs import brokers, own_copy
from command import kafkalog as command
from kafkalog.cluster.java import coordinator_partition
from kafkalog.cluster.offsets import read_offsets

T0 = 1_700_000_000_000


def committed(root: Path) -> dict[tuple[str, str, int], tuple[int, str, int, int]]:
    found = read_offsets(kafkalog.open(root).partitions)
    assert found.findings == ()
    return {
        (each.key.group, each.key.topic, each.key.partition): (
            each.offset,
            each.metadata,
            each.leader_epoch,
            each.commit_timestamp,
        )
        for each in found.committed
    }


def test_offsets_are_committed_taken_back_and_shown(tmp_path: Path) -> None:
    root = tmp_path / "data"
    place = kafkalog.commit_offsets(root, "readers", {("t", 0): 5, ("t", 1): 7}, timestamp=T0)
    assert place == coordinator_partition("readers", 50)
    more = kafkalog.OffsetAndMetadata(9, "привет", 4)
    assert kafkalog.commit_offsets(root, "readers", {("t", 0): more, ("t", 1): None}, timestamp=T0 + 1) == place
    assert committed(root) == {("readers", "t", 0): (9, "привет", 4, T0 + 1)}
    shown = command("offsets", "--json", root)
    assert (shown.code, [(each["group"], each["offset"]) for each in shown.objects]) == (0, [("readers", 9)])
    assert kafkalog.GroupOffsets(root, "readers").load() == {("t", 0): 9}
    assert kafkalog.GroupOffsets(root, "others").load() == {}
    assert kafkalog.verify(root).findings == []


def test_how_many_partitions_there_are_is_said_or_fifty(tmp_path: Path) -> None:
    root = tmp_path / "data"
    for group in ("a", "b", "cc"):
        assert kafkalog.commit_offsets(root, group, {("t", 0): 1}, offsets_topic_num_partitions=7) == (
            coordinator_partition(group, 7)
        )
    ids = {partition.metadata for partition in kafkalog.open(root).partitions}
    assert len(ids) == 1, "one topic, one id"
    with pytest.raises(kafkalog.UsageError, match="offsets_topic_num_partitions is 2"):
        kafkalog.commit_offsets(root, "a", {("t", 0): 1}, offsets_topic_num_partitions=2)


def test_the_clusters_metadata_knows_how_many_there_are(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/groups")[0], tmp_path / "broker")
    before = committed(root)
    number = kafkalog.commit_offsets(root, "a new group", {("t", 3): 12}, timestamp=T0)
    count = sum(1 for topic, _ in kafkalog.open(root) if topic == "__consumer_offsets")
    assert number == coordinator_partition("a new group", count)
    assert committed(root) == {**before, ("a new group", "t", 3): (12, "", -1, T0)}
    with pytest.raises(kafkalog.UsageError, match="says the cluster's metadata"):
        kafkalog.commit_offsets(root, "a new group", {("t", 3): 12}, offsets_topic_num_partitions=count + 1)


@pytest.mark.parametrize(
    ("group", "offsets", "words"),
    [
        ("", {("t", 0): 1}, "a group has a name"),
        ("g", {("t", 0): -1}, "negative"),
        ("g", {("t", -1): 1}, "no partition"),
        ("g", {("t", 0): kafkalog.OffsetAndMetadata(1, "x" * 5000)}, "4096"),
        ("g", {"t-0": 1}, "offsets is"),
    ],
)
def test_what_cannot_be_committed_leaves_nothing(
    tmp_path: Path, group: str, offsets: dict[tuple[str, int], int], words: str
) -> None:
    root = tmp_path / "data"
    with pytest.raises(kafkalog.UsageError, match=words):
        kafkalog.commit_offsets(root, group, offsets)
    assert not root.exists() or list(root.iterdir()) == []
