"""What offsets and groups say of an earlier moment, and of logs and clusters beside them: known, or said not to be."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import kafkalog as library
from kafkalog import Log, LogConfig, NewRecord
from kafkalog.cluster.groups.offsets import read_offsets
from kafkalog.cluster.records.replay import Until
from kafkalog.cluster.zookeeper.kafka_nodes import chroots, consumer_chroots
from kafkalog.cluster.zookeeper.old_consumers import old_groups
from kafkalog.cluster.zookeeper.tree import Node, Tree
from kafkalog.codec.common.findings import FindingCode
from kafkalog.log import open_all
from testkit.made.zookeeper_log import write_log
from testkit.recorded.broker_dirs import brokers, unpacked
from testkit.running.command import kafkalog

Commit = tuple[str, int, int | None]
"""group, partition of the topic t, offset or None for its removal"""
Compared = Callable[[str, int], None]
DAY_MS = 24 * 60 * 60 * 1000
T0 = 1_700_000_000_000
LATER = T0 + 400 * DAY_MS


def key_of(group: str, partition: int) -> bytes:
    return struct.pack(f">hh{len(group)}sh1si", 1, len(group), group.encode(), 1, b"t", partition)


def value_of(offset: int, time: int) -> bytes:
    return struct.pack(">hqihq", 3, offset, -1, 0, time)


def written(root: Path, commits: Iterable[Commit], *, segment_bytes: int = 600) -> Path:
    """A `__consumer_offsets` of one partition: commit i is the record at offset i, a second after the one before it."""
    root.mkdir(parents=True)
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=0)
    with Log.open(root / "__consumer_offsets-0", config, clock=lambda: T0) as log:
        for number, (group, partition, offset) in enumerate(commits):
            time = T0 + number * 1000
            value = None if offset is None else value_of(offset, time)
            log.append([NewRecord(key=key_of(group, partition), value=value, timestamp=time)])
    return root


def cleaned(root: Path) -> None:
    library.compact(
        library.Compaction(config={"min.cleanable.dirty.ratio": "0", "segment.bytes": "600"}, at=LATER), root
    )


def standing(commits: list[Commit], until: int) -> dict[tuple[str, int], int]:
    """What had been committed before the record `until`, by the rule of Kafka's coordinator: the last one counts."""
    found: dict[tuple[str, int], int] = {}
    for group, partition, offset in commits[:until]:
        found.pop((group, partition), None)
        if offset is not None:
            found[group, partition] = offset
    return found


def test_kafkas_own_topics_are_compacted_without_a_word(tmp_path: Path) -> None:
    root = written(tmp_path / "data", [("g", 0, number) for number in range(40)])
    finished = kafkalog("compact", "--yes", "--config", "min.cleanable.dirty.ratio=0", "--config", "segment.bytes=600",
                        "--at", str(LATER), root)  # fmt: skip
    assert finished.code == 2, finished.err
    assert len(list(open_all(root).readable()[0].records())) < 20


def test_of_a_cleaned_log_the_past_is_right_or_said_not_to_be_known(tmp_path: Path, compared: Compared) -> None:
    """Random commits and removals, cleaned once or twice, at every offset: never a false or a silently missing one."""
    asked = unknown = 0
    for seed in range(25):
        rng = random.Random(seed)
        commits: list[Commit] = []
        root = tmp_path / str(seed)
        for _ in range(rng.randint(20, 70)):
            removed = rng.random() < 0.15
            commits.append((rng.choice("gh"), rng.randrange(3), None if removed else len(commits) * 10))
        written(root, commits)
        cleaned(root)
        if rng.random() < 0.5:
            cleaned(root)  # tombstones go in a later pass
        partitions = open_all(root).readable()
        for moment in range(len(commits) + 1):
            truth = standing(commits, moment)
            found = read_offsets(partitions, until=Until(offset=moment))
            got = {(each.key.group, each.key.partition): each.offset for each in found.committed}
            told = [each.detail for each in found.findings if each.code is FindingCode.PAST_REMOVED]
            asked += len(truth)
            assert got.items() <= truth.items(), (seed, moment)
            for group, partition in truth.keys() - got.keys():
                unknown += 1
                assert any(
                    (f"group {group}:" in text and f"t-{partition}" in text) or "what was deleted since" in text
                    for text in told
                ), (seed, moment, group, partition, told)
    assert asked > unknown > 0
    compared("commits as of a moment of a cleaned log", asked)


def test_a_log_that_was_never_cleaned_has_all_of_its_past(tmp_path: Path) -> None:
    root = written(tmp_path / "data", [("g", number % 3, number) for number in range(40)])
    for moment in range(41):
        assert not read_offsets(open_all(root).readable(), until=Until(offset=moment)).findings


def test_every_command_about_the_past_says_it_and_ends_with_one(tmp_path: Path) -> None:
    commits: list[Commit] = [("g", 0, number) for number in range(40)]
    root = written(tmp_path / "data", commits)
    moment = T0 + 12_000
    before = kafkalog("offsets", "--as-of", moment, "--json", root)
    assert (before.code, [line["offset"] for line in before.objects]) == (0, [12])
    cleaned(root)
    for command in (["offsets"], ["offsets", "--format", "reset-csv"], ["groups"], ["offsets", "--json"]):
        finished = kafkalog(*command, "--as-of", moment, root)
        assert finished.code == 1, command
        assert "past_removed" in finished.err
        assert "group g: the offset committed for t-0 at that moment may have been removed" in finished.err
    now = kafkalog("offsets", "--json", root)
    assert (now.code, [line["offset"] for line in now.objects]) == (0, [39])


def test_what_the_cleaner_has_replaced_and_not_yet_removed_is_read_too(tmp_path: Path) -> None:
    """A broker keeps the segments that it has cleaned as `.deleted` for a minute; one that crashes keeps them."""
    commits: list[Commit] = [("g", number % 2, number) for number in range(60)]
    root = written(tmp_path / "data", commits)
    old = Path(shutil.copytree(root / "__consumer_offsets-0", tmp_path / "old"))
    cleaned(root)
    for log in old.glob("*.log"):
        new = root / "__consumer_offsets-0" / log.name
        if not new.exists() or new.read_bytes() != log.read_bytes():
            shutil.copy(log, f"{new}.deleted")
    for moment in range(1, 60, 7):
        finished = kafkalog("offsets", "--json", "--at-offset", moment, root)
        assert {line["partition"]: line["offset"] for line in finished.objects} == {
            partition: offset for (_, partition), offset in standing(commits, moment).items()
        }
        assert finished.code == 0, finished.err


def test_records_that_never_counted_are_not_taken_from_deleted_segments(tmp_path: Path) -> None:
    """A follower deletes what its leader does not have: those records have an epoch that the log there has left."""
    root = written(tmp_path / "data", [("g", 0, number) for number in range(4)], segment_bytes=1 << 20)
    directory = root / "__consumer_offsets-0"
    lost = written(tmp_path / "lost", [("g", 1, number) for number in range(9)], segment_bytes=1 << 20)
    shutil.copy(lost / "__consumer_offsets-0" / f"{0:020}.log", directory / f"{0:020}.log.deleted")
    found = read_offsets(open_all(root).readable(), until=Until(offset=3))
    assert {(each.key.partition, each.offset) for each in found.committed} == {(0, 2)}, "the log has them"
    found = read_offsets(open_all(root).readable(), until=Until(offset=9))
    assert {(each.key.partition, each.offset) for each in found.committed} == {(0, 3)}, "it ends before"


def test_who_coordinated_a_group_is_that_of_the_moment() -> None:
    zookeeper = unpacked("2.8.2/groups") / "zookeeper"
    command = ("groups", *brokers("2.8.2/groups"), "--metadata", zookeeper, "--json")
    assert {line["coordinator"] for line in kafkalog(*command).objects} == {1}
    by_offset = kafkalog(*command, "--at-offset", 1 << 40).objects
    assert {line["coordinator"] for line in by_offset} == {None}, "no offset of one log says when that was"
    before = kafkalog(*command, "--as-of", T0 // 2)
    assert (before.code, "the logs begin after that time" in before.err) == (64, True)
    (root,) = brokers("4.1.1/groups")
    changed = Path(root, "__cluster_metadata-0", f"{0:020}.log").stat().st_mtime_ns // 1_000_000
    assert kafkalog("groups", root, "--as-of", changed + DAY_MS, "--json").objects == [
        {**line, "coordinator": None} for line in kafkalog("groups", root, "--json").objects
    ]


# --- where logs end -------------------------------------------------------------------------------------------------


def with_topic(root: Path, records: int) -> Path:
    with Log.open(root / "t-0") as log:
        log.append([b"x"] * records)
    return root


def test_the_end_of_a_log_is_that_of_the_replica_that_was_chosen(tmp_path: Path) -> None:
    one = with_topic(written(tmp_path / "one", [("g", 0, 5)]), 9)
    two = with_topic(written(tmp_path / "two", [("g", 0, 5)]), 7)
    for paths in ([one, two], [two, one]):
        for replica, end in ((one, 9), (two, 7), ("longest", 9)):
            (line,) = kafkalog("offsets", "--json", "--replica", replica, *paths).objects
            assert (line["logEndOffset"], line["lag"]) == (end, end - 5)


def test_a_commit_beyond_the_end_of_the_log_is_told(tmp_path: Path) -> None:
    root = with_topic(written(tmp_path / "data", [("g", 0, 50)]), 9)
    finished = kafkalog("offsets", "--json", root)
    assert [(line["logEndOffset"], line["lag"]) for line in finished.objects] == [(9, -41)]
    assert finished.code == 1
    assert "offset_beyond_log_end" in finished.err
    assert "ends at 9" in finished.err


# --- ZooKeeper ------------------------------------------------------------------------------------------------------


def tree_with(*paths: str, data: bytes = b"7") -> Tree:
    tree = Tree.empty()
    made: set[str] = set()
    for path in paths:
        parts = path.split("/")[1:]
        for end in range(1, len(parts) + 1):
            each = "/" + "/".join(parts[:end])
            if each not in made:
                made.add(each)
                tree.put(each, Node(data if each == path else b"", None))
    return tree


def test_old_consumers_are_found_without_brokers() -> None:
    odd_names = "/kafka/consumers/consumers/offsets/offsets/0"
    tree = tree_with("/consumers/g/offsets/consumers/0", odd_names, "/app/consumers/x")
    assert chroots(tree.nodes) == []
    assert consumer_chroots(tree) == ["", "/kafka"]
    assert [(each.chroot, each.group, len(each.offsets)) for each in old_groups(tree)] == [
        ("", "g", 1),
        ("/kafka", "consumers", 1),
    ]
    assert chroots(tree_with("/k/brokers/topics/t").nodes) == ["/k"]


@pytest.fixture(scope="module")
def two_clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ZooKeeper whose log makes two clusters, each with a group that has committed another offset."""
    return write_log(tmp_path_factory.mktemp("zk"), [
        (path, data)
        for chroot, offset in (("/a", b"11"), ("/b", b"22"))
        for path, data in [
            (chroot, b""), (f"{chroot}/brokers", b""), (f"{chroot}/brokers/ids", b""),
            (f"{chroot}/brokers/topics", b""),
            (f"{chroot}/consumers", b""), (f"{chroot}/consumers/g", b""), (f"{chroot}/consumers/g/offsets", b""),
            (f"{chroot}/consumers/g/offsets/t", b""), (f"{chroot}/consumers/g/offsets/t/0", offset),
            (f"{chroot}/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}'),
            (f"{chroot}/brokers/topics/t/partitions", b""), (f"{chroot}/brokers/topics/t/partitions/0", b""),
            (f"{chroot}/brokers/topics/t/partitions/0/state",
             b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":%d,"isr":[1]}' % int(offset)),
        ]
    ])  # fmt: skip


def test_two_clusters_in_one_zookeeper_are_told_apart(two_clusters: Path, tmp_path: Path) -> None:
    lines = kafkalog("offsets", "--json", two_clusters).objects
    assert [(line["chroot"], line["offset"]) for line in lines] == [("/a", 11), ("/b", 22)]
    assert "cluster" in kafkalog("offsets", two_clusters).lines[1]
    chosen = kafkalog("offsets", "--json", "--chroot", "/b", two_clusters).objects
    assert [line["offset"] for line in chosen] == [22]
    root = written(tmp_path / "data", [("g", 0, 5)])
    for command in (["offsets", root], ["offsets", "--format", "reset-csv"]):
        finished = kafkalog(*command, two_clusters)
        assert (finished.code, "--chroot chooses one" in finished.err) == (64, True)
    assert kafkalog("offsets", "--chroot", "/a", root, two_clusters).code == 0
    # `--group` leaves no commit of Kafka's: the log ends are still those of one cluster
    other = written(tmp_path / "other", [("other", 0, 5)])
    mixed = kafkalog("offsets", "--group", "g*", other, two_clusters)
    assert (mixed.code, "--chroot chooses one" in mixed.err) == (64, True)
    (line,) = kafkalog("offsets", "--json", "--group", "g*", "--chroot", "/b", other, two_clusters).objects
    assert (line["chroot"], line["offset"]) == ("/b", 22)


def test_elections_of_two_clusters_are_told_apart(two_clusters: Path) -> None:
    text = kafkalog("elections", "--all", two_clusters, columns=200).out
    assert "/a" in text
    assert "/b" in text
    only = kafkalog("elections", "--all", "--json", "--chroot", "/b", two_clusters).objects
    assert {line["chroot"] for line in only} == {"/b"}
    against = kafkalog("elections", "--against", unpacked("4.1.1/txn"), two_clusters)
    assert (against.code, "--chroot chooses it" in against.err) == (64, True)
    assert kafkalog("elections", "--chroot", "/c", two_clusters).code == 1


# --- one file by itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["4.1.1/codecs", "0.10.2.2/codecs", "0.8.2.2/codecs"])
def test_a_segment_with_another_name_is_read(case: str, tmp_path: Path) -> None:
    (root,) = brokers(case)
    logs = sorted(path for path in Path(root).rglob("*.log") if path.stat().st_size > 0)
    assert logs
    for number, log in enumerate(logs[:6]):
        other = Path(shutil.copy(log, tmp_path / f"saved-{number}.bin"))
        named = kafkalog("dump", "--json", log)
        found = kafkalog("dump", "--json", other)
        assert found.code == named.code == 0, found.err
        fields = ("offset", "key", "value", "timestamp")
        assert [[line.get(each) for each in fields] for line in found.objects] == [
            [line.get(each) for each in fields] for line in named.objects
        ]


def test_a_file_that_holds_no_batch_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing of Kafka's, but long enough to be the header of a batch if it were one: " * 3)
    finished = kafkalog("dump", path)
    assert finished.code == 64
    assert "no batch is at its start" in finished.err
