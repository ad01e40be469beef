"""Offsets of a group committed into a directory: the coordinator's partition, its records, and who refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import kafkalog
from kafkalog.cluster.groups.offsets import read_offsets
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.findings import FindingCode
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog as command

T0 = 1_700_000_000_000


def new(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    return root


def committed(root: Path, gone: Sequence[int] = ()) -> dict[tuple[str, str, int], tuple[int, str, int, int]]:
    found = read_offsets(kafkalog.open(root).partitions)
    missing = {str(root / f"__consumer_offsets-{number}") for number in gone}
    assert {(each.code, each.file) for each in found.findings} == {(FindingCode.PARTITION_MISSING, m) for m in missing}
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
    root = new(tmp_path)
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


def test_a_negative_offset_is_no_commit(tmp_path: Path) -> None:
    root = new(tmp_path)
    place = kafkalog.commit_offsets(root, "readers", {("t", 0): 5, ("t", 1): 7}, timestamp=T0)
    directory = root / f"__consumer_offsets-{place}"
    first = next(iter(kafkalog.open_partition(directory).records()))
    assert first.value is not None
    negative = first.value[:2] + (-1).to_bytes(8, "big", signed=True) + first.value[10:]
    with kafkalog.Log.open(directory) as log:
        log.append([kafkalog.NewRecord(negative, first.key)])
    assert committed(root)["readers", "t", 0][0] == -1
    assert kafkalog.GroupOffsets(root, "readers").load() == {("t", 1): 7}


def test_how_many_partitions_there_are_is_said_or_fifty(tmp_path: Path) -> None:
    root = new(tmp_path)
    for group in ("a", "b", "cc"):
        assert kafkalog.commit_offsets(root, group, {("t", 0): 1}, offsets_topic_num_partitions=7) == (
            coordinator_partition(group, 7)
        )
    ids = {partition.metadata for partition in kafkalog.open(root).partitions}
    assert len(ids) == 1, "one topic, one id"
    for group in ("a", "b", "cc"):
        kafkalog.commit_offsets(root, group, {("t", 0): None}, offsets_topic_num_partitions=7)
    for count, words in ((2, "offsets_topic_num_partitions is 2"), (0, "at least one partition")):
        with pytest.raises(kafkalog.UsageError, match=words):
            kafkalog.commit_offsets(root, "a", {("t", 0): 1}, offsets_topic_num_partitions=count)
    for highest, given, said in (
        (42, 7, "offsets_topic_num_partitions is 7"),
        (60, None, "which was not given, is 50"),
    ):
        (root / f"__consumer_offsets-{highest}").mkdir()
        there = f"partition {highest} of topic __consumer_offsets exists, so it has at least {highest + 1}"
        words = f"^{there}, but .*{said}$"
        with pytest.raises(kafkalog.UsageError, match=words):
            kafkalog.commit_offsets(root, "a", {("t", 0): 1}, offsets_topic_num_partitions=given)


@pytest.mark.parametrize(("before", "after"), [(None, 77), (77, None), (7, 50), (50, 100)])
def test_a_number_of_partitions_that_groups_do_not_lie_by_is_refused(
    tmp_path: Path, before: int | None, after: int | None
) -> None:
    """Two places for one group: which of the commits a broker reads would depend on its own number."""
    root = new(tmp_path)
    groups = ["group-0", "group-21", "group-30"]
    places = [
        kafkalog.commit_offsets(root, each, {("t", 0): 5}, offsets_topic_num_partitions=before) for each in groups
    ]
    names = sorted(root.iterdir())
    there, wanted = before or 50, after or 50
    assert places == [coordinator_partition(each, there) for each in groups]
    for group in (*groups, "a new one"):
        first = group if group in groups else "group-0"
        words = (
            f"group {first} is in partition {coordinator_partition(first, there)} of __consumer_offsets, as {there} "
            f"partitions put it; of {wanted} partitions (offsets_topic_num_partitions) its place is "
            f"{coordinator_partition(first, wanted)}"
        )
        with pytest.raises(kafkalog.UsageError) as caught:
            kafkalog.commit_offsets(root, group, {("t", 0): 6}, offsets_topic_num_partitions=after)
        assert str(caught.value) == words
        with pytest.raises(kafkalog.UsageError, match=r"as \d+ partitions put it"):
            kafkalog.GroupOffsets(root, group, offsets_topic_num_partitions=after).commit({("t", 0): 6})
    assert sorted(root.iterdir()) == names
    store = kafkalog.GroupOffsets(root, "group-0", offsets_topic_num_partitions=before)
    store.commit({("t", 0): 7})
    store.commit({("t", 0): 8})
    assert store.load() == {("t", 0): 8}


def test_a_group_that_has_taken_back_its_offsets_says_nothing_of_the_number(tmp_path: Path) -> None:
    root = new(tmp_path)
    kafkalog.commit_offsets(root, "readers", {("t", 0): 5})
    kafkalog.commit_offsets(root, "readers", {("t", 0): None})
    kafkalog.commit_offsets(root, "readers", {("t", 0): 6}, offsets_topic_num_partitions=77)
    assert kafkalog.GroupOffsets(root, "readers").load() == {("t", 0): 6}


def test_no_partitions_is_no_number_to_read_a_group_with(tmp_path: Path) -> None:
    root = new(tmp_path)
    kafkalog.commit_offsets(root, "readers", {("t", 0): 5})
    with pytest.raises(kafkalog.UsageError, match="0 partitions"):
        kafkalog.GroupOffsets(root, "readers", offsets_topic_num_partitions=0).load()


def test_where_no_number_fits_a_group_keeps_its_own_place(tmp_path: Path) -> None:
    root = new(tmp_path)
    places = []
    for number, group in enumerate(("group-0", "group-21", "group-30")):
        places.append(kafkalog.commit_offsets(root, group, {("t", 0): 5}))
        (root / f"__consumer_offsets-{places[-1]}").rename(tmp_path / f"__consumer_offsets-{number}")
    for number in range(3):
        (tmp_path / f"__consumer_offsets-{number}").rename(root / f"__consumer_offsets-{number}")
    for group, _topic, _partition in committed(root, gone=places):
        with pytest.raises(kafkalog.UsageError, match=f"group {group} is in partition . of __consumer_offsets; of 50 "):
            kafkalog.commit_offsets(root, group, {("t", 0): 6})
    assert kafkalog.commit_offsets(root, "group-1", {("t", 0): 5}) == 49


def test_a_directory_is_not_made(tmp_path: Path) -> None:
    root = tmp_path / "nodir"
    store = kafkalog.GroupOffsets(root, "readers")
    for call in (lambda: kafkalog.commit_offsets(root, "readers", {("t", 0): 1}), lambda: store.commit({}), store.load):
        with pytest.raises(kafkalog.UsageError, match=f"there is no log directory {root}; create it first"):
            call()
    assert not root.exists()


def test_the_clusters_metadata_knows_how_many_there_are(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/groups")[0], tmp_path / "broker")
    before = committed(root)
    number = kafkalog.commit_offsets(root, "a new group", {("t", 3): 12}, timestamp=T0)
    count = sum(1 for topic, _ in kafkalog.open(root) if topic == "__consumer_offsets")
    assert number == coordinator_partition("a new group", count)
    assert committed(root) == {**before, ("a new group", "t", 3): (12, "", -1, T0)}
    with pytest.raises(kafkalog.UsageError, match="according to the cluster's metadata"):
        kafkalog.commit_offsets(root, "a new group", {("t", 3): 12}, offsets_topic_num_partitions=count + 1)


@pytest.mark.parametrize(
    ("group", "offsets", "words"),
    [
        ("", {("t", 0): 1}, "a group needs a name"),
        ("g", {("t", 0): -1}, "negative"),
        ("g", {("t", -1): 1}, "no partition"),
        ("g", {("t", 0): kafkalog.OffsetAndMetadata(1, "x" * 5000)}, "4096"),
        ("g", {"t-0": 1}, "offsets is"),
    ],
)
def test_what_cannot_be_committed_leaves_nothing(
    tmp_path: Path, group: str, offsets: dict[tuple[str, int], int], words: str
) -> None:
    root = new(tmp_path)
    with pytest.raises(kafkalog.UsageError, match=words):
        kafkalog.commit_offsets(root, group, offsets)
    assert list(root.iterdir()) == []
