"""How many partitions groups are spread over, who coordinates them, and what they get when topics grow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog.cluster.groups.commit_offsets import commit_offsets
from kafkalog.cluster.groups.group_places import partition_count
from kafkalog.cluster.groups.groups import read_groups
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.findings import FindingCode
from kafkalog.log import open_all
from testkit.recorded.broker_dirs import brokers, unpacked
from testkit.running.command import kafkalog

GROUPS = [f"group-{number}" for number in range(60)]


def test_a_part_of_the_directories_is_not_taken_for_all(tmp_path: Path) -> None:
    for group in GROUPS:
        if coordinator_partition(group, 50) < 15:
            commit_offsets(tmp_path, group, {("t", 0): 5}, offsets_topic_num_partitions=50, timestamp=1)
    found = read_groups(open_all(tmp_path).readable())
    assert len(found.groups) > 10
    assert (found.partition_count, found.findings) == (50, ())
    told = kafkalog("groups", tmp_path, "--offsets-partitions", 77)
    assert told.code == 1
    assert "of 77 partitions its place is" in told.err
    assert FindingCode.GROUP_MISPLACED in told.err
    same = kafkalog("offsets", tmp_path, "--offsets-partitions", 77)
    assert (same.code, same.err) == (1, told.err)
    assert kafkalog("offsets", tmp_path).code == 0
    place = coordinator_partition("group-0", 50)
    commit_offsets(tmp_path, "group-0", {("t", 0): 5}, timestamp=1)
    (tmp_path / f"__consumer_offsets-{place}").rename(tmp_path / f"__consumer_offsets-{(place + 1) % 50}")
    told, same = (kafkalog(command, tmp_path, "--group", "group-0") for command in ("groups", "offsets"))
    assert f"group group-0 is in partition {(place + 1) % 50}; of 50 partitions its place is {place}" in told.err
    assert (told.code, same.code, same.err) == (1, 1, told.err)


def test_counts_where_nothing_says_so() -> None:
    def places(count: int) -> list[tuple[str, int]]:
        return [(group, coordinator_partition(group, count)) for group in GROUPS]

    assert partition_count([], []) == 50
    assert partition_count(places(50), range(15)) == 50
    assert partition_count(places(3), range(3)) == 3
    assert partition_count(places(3), range(2)) == 50  # the third is missing: nothing fits
    assert partition_count(places(100), range(100)) == 100
    assert partition_count([("a", 70)], [70]) == 71


@pytest.mark.parametrize(("case", "coordinator"), [("2.8.2/groups", 1), ("3.9.1-zk/groups", 7), ("0.9.0.1/groups", 12)])
def test_the_leader_of_its_partition_coordinates_a_group(case: str, coordinator: int) -> None:
    zookeeper = unpacked(case) / "zookeeper"
    found = kafkalog("groups", *brokers(case), "--metadata", zookeeper, "--json")
    assert (found.code, found.err) == (0, "")
    assert {each["coordinator"] for each in found.objects} == {coordinator}
    unknown = kafkalog("groups", *brokers(case), "--json")
    assert {each["coordinator"] for each in unknown.objects} == {None}


def test_what_the_metadata_says_counts(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/groups")
    refused = kafkalog("groups", broker, "--offsets-partitions", 49)
    assert refused.code == 64
    assert "according to the cluster's metadata" in refused.err
    neither = kafkalog("groups", broker, "--metadata", brokers("2.8.2/groups")[0])
    assert neither.code == 64
    assert "is neither ZooKeeper's dataDir nor a directory with __cluster_metadata" in neither.err
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in broker.glob("__consumer_offsets-*"):
        shutil.copytree(path, alone / path.name)
    assert kafkalog("groups", alone, "--metadata", broker).code == 0


def assigned(*arguments: object) -> dict[str, list[str]]:
    (broker,) = brokers("4.1.1/groups")
    finished = kafkalog("groups", broker, "--group", "alive-68", *arguments, "--json")
    assert (finished.code, finished.err) == (0, "")
    (line,) = finished.objects
    return {member[:4]: names for member, names in line["assignmentGrown"].items()}


def test_topics_that_grow_and_topics_that_match() -> None:
    # clicks-21 has 2 partitions and visits-0 has 3; two members, by range
    assert assigned("--partitions", "visits-0=5") == {
        "cl-0": ["clicks-21-0", "visits-0-0", "visits-0-1", "visits-0-2"],
        "cl-1": ["clicks-21-1", "visits-0-3", "visits-0-4"],
    }
    assert assigned("--subscribe", "new", "--partitions", "new=3") == {
        "cl-0": ["clicks-21-0", "new-0", "new-1", "visits-0-0", "visits-0-1"],
        "cl-1": ["clicks-21-1", "new-2", "visits-0-2"],
    }
    (broker,) = brokers("4.1.1/groups")
    for arguments, reason in (
        (("--partitions", "visits-0=2"), "a topic never gets fewer"),
        (("--partitions", "visits-0"), "--partitions needs TOPIC=N"),
        (("--partitions", "visits-0=99999999999"), "--partitions needs TOPIC=N"),
        (("--subscribe", "new"), "give --partitions new=N"),
    ):
        finished = kafkalog("groups", broker, *arguments)
        assert finished.code == 64
        assert reason in finished.err
    for command, arguments, reason in (
        ("groups", ("--partitions", "new=3"), "there is no topic 'new'; for a new topic give --subscribe new too"),
        ("groups", ("--group", "nope"), "there is no group 'nope'"),
        ("offsets", ("--group", "nope"), "there is no group 'nope'"),
    ):
        finished = kafkalog(command, broker, *arguments)
        assert (finished.code, finished.out, reason in finished.err) == (1, "", True)
