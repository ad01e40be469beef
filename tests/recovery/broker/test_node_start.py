"""What a node does when it is started: expected are what real brokers did (docs/starts.md), and Kafka's source."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kafkalog.cluster.kraft.metadata_image import MetadataImage, PartitionImage, TopicImage
from kafkalog.cluster.questions.groups import groups as groups_of
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.codec.names import (
    PARTITION_METADATA,
    QUORUM_STATE,
    SHARE_GROUP_STATE_TOPIC,
    DirectoryState,
    PartitionName,
)
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery.broker.node.answer import ConsequenceKind, NodeAnswer, Part, Role, StartOutcome
from kafkalog.recovery.broker.node.ending import StartEndsError
from kafkalog.recovery.broker.node.internal_topics import (
    KeptNames,
    Unserved,
    consequences_of_misplaced,
    consequences_of_unserved,
)
from kafkalog.recovery.broker.node.node_files import node_files
from kafkalog.recovery.broker.node.partition_directory import PartitionDirectory
from kafkalog.recovery.broker.node.partitions import Explained, partition_consequences
from kafkalog.recovery.broker.node.quorum import StateFile, refuse_state
from kafkalog.recovery.broker.node.releases import GROUPS, named, release_of
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.recovery.checks.verify import verify
from testkit.judging.trees import copy_tree
from testkit.kafka.start_records import append_metadata, partition_change
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import broker_case, unpack_replicas
from testkit.running.command import kafkalog

METADATA = "__cluster_metadata-0"
NOBODY = "AAAAAAAAAAAAAAAAAAAABA"
NAMELESS = PartitionDirectory(
    root="/data", name="orders-0", parsed=PartitionName("orders", 0, DirectoryState.LIVE), topic_id=None
)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a combined node of Kafka 4.3.0 with one voter, whose metadata log begins with a snapshot."""
    unpacked = broker_case("4.3.0", "metadata").unpack(tmp_path_factory.mktemp("node"))
    return next(unpacked.glob("broker-*"))


@pytest.fixture
def node(recorded: Path, tmp_path: Path) -> Path:
    return copy_tree(recorded, tmp_path / "data")


def answer(root: Path, release: str = "4.3") -> NodeAnswer:
    return node_start([str(root)], release=release).answers[0]


def snapshot(root: Path) -> Path:
    found = max((root / METADATA).glob("*.checkpoint"))
    found.chmod(0o600)
    return found


def first_batch(path: Path) -> int:
    return 12 + int.from_bytes(path.read_bytes()[8:12])


def partitions(root: Path) -> list[Path]:
    """Live ones, without the metadata log."""
    live = (each.parent for each in sorted(root.glob("*/partition.metadata")) if "." not in each.parent.name)
    return [each for each in live if each.name != METADATA]


def test_without_a_metadata_log_no_quorum_state_of_the_working_directory_is_read(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(node / METADATA)
    voters = '"currentVoters":[{"voterId":77}],"data_version":0'
    state = f'{{"clusterId":"","leaderId":77,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,{voters}}}'
    (tmp_path / "quorum-state").write_text(state)
    before = node_start([str(node)], release="4.3")
    monkeypatch.chdir(tmp_path)
    assert node_start([str(node)], release="4.3") == before
    assert not before.fetches_metadata


def test_a_metadata_log_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if path == str(node / METADATA):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        with pytest.raises(StorageError, match=METADATA):
            node_start([str(node)])


def test_a_partition_that_cannot_be_listed_is_not_taken_for_a_missing_one(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, real = partitions(node)[0], os.scandir

    def scandir(path: Any = ".") -> Any:
        if path == str(lost):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        found = answer(node)
    assert (found.outcome, found.consequences) == (StartOutcome.UNKNOWN, ())


def test_a_linked_partition_that_cannot_be_listed_leaves_the_answer_unknown(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked, real = partitions(node)[0], os.scandir
    linked.rename(tmp_path / "moved")
    linked.symlink_to(tmp_path / "moved", target_is_directory=True)

    def scandir(path: Any = ".") -> Any:
        if path == str(linked):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        found = answer(node)
    assert (found.outcome, found.consequences) == (StartOutcome.UNKNOWN, ())


def test_a_file_that_only_adds_to_a_failed_start_and_cannot_be_read_leaves_the_answer_unknown(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node / METADATA / "quorum-state").write_text("{}")
    lost, real = partitions(node)[0] / "partition.metadata", os.open

    def opened(path: Any, *rest: Any, **more: Any) -> int:
        if path == str(lost):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, *rest, **more)

    assert answer(node).outcome is StartOutcome.FAILS
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opened)
        assert answer(node).outcome is StartOutcome.UNKNOWN


def test_a_sound_node_starts_and_loses_nothing_by_every_release_from_the_floor_on(node: Path) -> None:
    start = node_start([str(node)])
    assert (start.role, start.loses_nothing) == (Role.COMBINED, True)
    assert [releases for releases, _answer in start.grouped] == ["4.3 and later"], "the finalized metadata.version"


@pytest.mark.parametrize(("level", "oldest"), [(8, "3.4"), (11, "3.5"), (14, "3.6"), (19, "3.7.0")])
def test_the_first_release_that_is_asked_is_the_one_that_can_have_written_the_metadata(
    tmp_path: Path, level: int, oldest: str
) -> None:
    """Kafka 3.6.2 deleted a partition of an unknown topic from a directory of its own, and the plan named only 3.7.0
    and later, which rename it.
    """
    node = next(broker_case("3.9.1", "metadata").unpack(tmp_path).glob("broker-*"))
    log = max(path for path in (node / METADATA).glob("*.log") if path.stat().st_size)
    append_metadata(log, ("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": level}))
    (node / "bootstrap.checkpoint").unlink()
    meta = node / "meta.properties"
    meta.chmod(0o600)
    meta.write_text("".join(line for line in meta.read_text().splitlines(True) if not line.startswith("directory.id")))
    properties = {"process.roles": "broker", "node.id": "3", "log.dirs": str(node)}
    assert str(node_start([str(node)], properties=properties).releases[0]) == oldest


def test_unreleased_levels_are_accepted_if_the_properties_allow_them(tmp_path: Path) -> None:
    """Kafka 4.1.1 with `unstable.feature.versions.enable` was formatted with 4.2-IV1, and started on it."""
    node = next(broker_case("3.9.1", "metadata").unpack(tmp_path).glob("broker-*"))
    log = max(path for path in (node / METADATA).glob("*.log") if path.stat().st_size)
    append_metadata(log, ("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 23}))
    properties = {"process.roles": "broker,controller", "node.id": "7", "log.dirs": str(node)}
    refused, accepted = (
        node_start([str(node)], properties=properties | {name: "true"}, release="3.9").answers[0]
        for name in ("unstable.api.versions.enable", "unstable.feature.versions.enable")
    )
    assert (refused.outcome, refused.message) == (StartOutcome.FAILS, "Tried to apply FeatureLevelRecord")
    assert accepted.outcome is StartOutcome.STARTS


@pytest.mark.parametrize(("release", "words"), [("4.1", "does not load the partition"), ("3.9", "loads nothing that")])
def test_a_record_that_the_share_coordinator_cannot_read(release: str, words: str) -> None:
    """The coordinator of Kafka 4.1.1 said "Failed to load metadata from __share_group_state-2", and served no group."""
    name = f"{SHARE_GROUP_STATE_TOPIC}-2"
    record = Unserved(topic=SHARE_GROUP_STATE_TOPIC, name=name, path=f"/data/{name}/0.log", offset=2, detail="cut")
    (consequence,), (fault,) = consequences_of_unserved([record], release_of(release))
    assert (consequence.kind, consequence.names, fault.part) == (
        ConsequenceKind.NOT_SERVING, (name,), Part.INTERNAL_TOPICS
    )  # fmt: skip
    assert words in consequence.detail


@pytest.mark.parametrize(
    ("file", "content", "exception", "words", "part"),
    [
        ("meta.properties", None, "RuntimeException", "No readable meta.properties files found.", Part.META_PROPERTIES),
        ("meta.properties", b"", "RuntimeException", "Error: node ID not found in", Part.META_PROPERTIES),
        ("bootstrap.checkpoint", b"", "RuntimeException", "No FeatureLevelRecord for metadata.version", Part.BOOTSTRAP),
        ("bootstrap.checkpoint", bytes(200), "CorruptRecordException", "Found record size 0 smaller", Part.BOOTSTRAP),
        (f"{METADATA}/quorum-state", b"", "UncheckedIOException", "Error while reading the Quorum", Part.QUORUM_STATE),
        (f"{METADATA}/quorum-state", b'{"leaderId":1,"data_version":2}', "IllegalStateException",
         "data_version (2) is not within the min (0) and max (1)", Part.QUORUM_STATE),
        (f"{METADATA}/partition.metadata", b"", "NullPointerException", "", Part.METADATA_LOG),
        (f"{METADATA}/leader-epoch-checkpoint", bytes(8), "KafkaStorageException",
         "Error while reading checkpoint file", Part.METADATA_LOG),
        ("replication-offset-checkpoint", bytes(8), "IOException", "Error while reading checkpoint file", Part.LOGS),
    ],
)  # fmt: skip
def test_a_file_that_ends_the_start(
    node: Path, file: str, content: bytes | None, exception: str, words: str, part: Part
) -> None:
    (node / file).chmod(0o600)
    (node / file).unlink() if content is None else (node / file).write_bytes(content)
    found = answer(node)
    assert found.outcome is StartOutcome.FAILS
    assert (found.exception or "").rpartition(".")[2] == exception
    assert words in (found.message or "")
    assert found.faults[-1].part is part


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'),
        (b"version: 0\n", 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'),
        (b"version: 0\ntopic_id: a+aa\n", "Illegal base64 character 2b"),
        (
            b"version: 0\ntopic_id: aaaa\n",
            "which is not equal to the expected 16 bytes of a base64-encoded UUID",
        ),
    ],
)  # fmt: skip
def test_a_partition_metadata_that_cannot_be_read_is_said_in_java_s_words_and_makes_no_stray(
    content: bytes, words: str, node: Path
) -> None:
    """Kafka 4.1.0 does not rename the partition whose file it cannot read."""
    path = partitions(node)[0] / "partition.metadata"
    path.chmod(0o600)
    path.write_bytes(content)
    found = answer(node)
    assert found.outcome is StartOutcome.FAILS
    assert (found.message or "").endswith(words)
    assert not found.strays


def test_a_metadata_log_that_is_cut_says_since_when_changes_are_undone(node: Path) -> None:
    """A real 4.1.1, the only voter, began with the settings from before the torn batch, without a word in its log."""
    path = max((node / METADATA).glob("*.log"))
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size - 10)
    with_snapshot = {each.kind: each.detail for each in answer(node).consequences}
    assert "undone" not in with_snapshot[ConsequenceKind.METADATA_LOG_CUT]  # the snapshot has what was cut
    snapshot(node).unlink()
    with FileSource(path) as source:
        *_, last = Scanner(source)
    (cut,) = [each for each in answer(node).consequences if each.kind is ConsequenceKind.METADATA_LOG_CUT]
    moment = datetime.fromtimestamp(last.header.max_timestamp // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    assert f"what was created, changed or deleted since {moment} may be undone" in cut.detail
    command = cut.detail.partition("`kafkalog ")[2].partition("`")[0]
    assert "configurations" in kafkalog(*shlex.split(command)).out


@pytest.mark.parametrize(("leader", "voted"), [(-1, -1), (3, -1), (-1, 2)])
def test_the_only_voter_cannot_be_elected_after_the_last_epoch(leader: int, voted: int, node: Path) -> None:
    """Brokers 3.6.2, 3.9.1, 4.1.1 and 4.3.0 ended so, with and without a leader in the file; 4.1.1 led in this epoch if
    it had voted for itself.
    """
    path = node / METADATA / "quorum-state"
    state = json.loads(path.read_text())
    path.chmod(0o600)
    path.write_text(json.dumps({**state, "leaderId": leader, "leaderEpoch": 2**31 - 1, "votedId": voted}))
    found = answer(node)
    assert (found.outcome, found.exception) == (StartOutcome.FAILS, "java.lang.IllegalArgumentException")
    assert found.message == "Received invalid partition leader epoch entry"
    assert found.faults[-1].part is Part.QUORUM_STATE
    lines = [line.strip() for line in kafkalog("plan", node).out.splitlines()]
    (command,) = {line for line in lines if line.startswith("mv ")}
    subprocess.run(command, shell=True, check=True)
    assert answer(node).outcome is StartOutcome.STARTS


@pytest.mark.parametrize("epoch", [7, 2**31 - 1])
def test_the_only_voter_that_has_voted_for_itself_leads_in_this_epoch_since_4_0(epoch: int, node: Path) -> None:
    """Seen on 4.1.1; 3.6.2 and 3.9.1 lead, try to become a candidate again, and end."""
    path = node / METADATA / "quorum-state"
    state = json.loads(path.read_text())
    path.chmod(0o600)
    path.write_text(json.dumps({**state, "leaderId": -1, "leaderEpoch": epoch, "votedId": 3}))
    assert answer(node).outcome is StartOutcome.STARTS
    voted = StateFile(path=str(path), is_there=True, epoch=epoch, voted=3)
    refuse_state(voted, 3, release_of("4.0"))
    with pytest.raises(StartEndsError) as caught:
        refuse_state(voted, 3, release_of("3.9"))
    before = caught.value.answer
    assert (before.outcome, before.exception) == (StartOutcome.FAILS, "java.lang.IllegalStateException")
    assert before.message == "Cannot transition to Candidate since the local broker.id=OptionalInt[3]"


def test_an_epoch_of_which_the_metadata_has_nothing_shows_that_its_end_may_be_lost(node: Path) -> None:
    path = node / METADATA / "quorum-state"
    state = json.loads(path.read_text())
    path.chmod(0o600)
    may_go_back = ConsequenceKind.METADATA_MAY_GO_BACK
    assert may_go_back not in {each.kind for each in answer(node).consequences}
    path.write_text(json.dumps({**state, "leaderEpoch": state["leaderEpoch"] + 1}))
    (detail,) = [each.detail for each in answer(node).consequences if each.kind is may_go_back]
    last = state["leaderEpoch"]
    assert f"it led in epoch {last + 1}, and the metadata ends in epoch {last}" in detail


def test_quorum_state_that_cannot_be_read_is_thrown_away_before_3_8(node: Path) -> None:
    (node / METADATA / "quorum-state").write_bytes(b"")
    assert answer(node, "3.8").outcome is StartOutcome.FAILS
    kinds = {each.kind for each in answer(node, "3.7.1").consequences}
    assert ConsequenceKind.EPOCH_FORGOTTEN in kinds or answer(node, "3.7.1").outcome is StartOutcome.FAILS


def test_a_cut_snapshot_is_taken_for_the_whole_and_the_metadata_begins_anew(node: Path) -> None:
    """Kafka 4.3.0 says `The metadata log appears to be empty`, and renames every partition."""
    path = snapshot(node)
    os.truncate(path, first_batch(path))
    found = answer(node)
    assert found.outcome is StartOutcome.OVERWRITES_METADATA
    assert list(found.strays) == [each.name for each in partitions(node)]
    assert ("cut", str(path)) in {(each.kind, each.file) for each in found.faults}
    plan = kafkalog("plan", node)
    assert plan.code == 1
    assert "40 partitions" in plan.out
    assert "nothing to do" not in plan.out
    report = verify(str(node))
    told = [each for each in report.findings if each.code is FindingCode.START_LOSES]
    assert [each.severity for each in told] == [Severity.ERROR]


def test_what_was_behind_the_cut_of_the_only_voter_s_snapshot_is_gone(node: Path) -> None:
    """Kafka 3.9.1 went on without a `metadata.version`, and 6 access control entries were gone."""
    path = snapshot(node)
    os.truncate(path, first_batch(path))
    (node / "bootstrap.checkpoint").unlink()  # which it cannot read
    no_op = Record(345, 0, TimestampType.CREATE_TIME, None, b"\x01\x14\x00\x00")
    last = max((node / METADATA).glob("*.log"))
    last.write_bytes(last.read_bytes() + build_batch([no_op], partition_leader_epoch=3))
    kinds = {each.kind: each for each in answer(node, "3.9").consequences}
    assert kinds[ConsequenceKind.METADATA_MAY_GO_BACK].file == str(path)
    assert "access control entries" in kinds[ConsequenceKind.METADATA_MAY_GO_BACK].detail


def test_a_cut_snapshot_that_records_follow_ends_the_loader(node: Path) -> None:
    """Kafka 4.1.0 and 4.3.0 end in `MetadataLoader#handleCommit`, before the controller writes bootstrap records: a
    no-op that follows the snapshot counts as a record, the leader change of the start does not.
    """
    path = snapshot(node)
    os.truncate(path, first_batch(path))
    no_op = Record(345, 0, TimestampType.CREATE_TIME, None, b"\x01\x14\x00\x00")
    last = max((node / METADATA).glob("*.log"))
    last.write_bytes(last.read_bytes() + build_batch([no_op], partition_leader_epoch=3))
    for release in ("4.1", "4.3"):
        found = answer(node, release)
        assert (found.outcome, found.exception) == (StartOutcome.FAILS, "java.lang.IllegalStateException")
        assert found.message == "Unknown metadata version for FeaturesImage: metadataVersion(Optional.empty)"
        assert found.file == str(path)
        assert not found.strays
        assert all(each.kind is not ConsequenceKind.METADATA_OVERWRITTEN for each in found.consequences)


@pytest.mark.parametrize(("release", "may_rename"), [("3.9", True), ("4.1", False), ("4.3", False)])
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_broker_alone_whose_cut_snapshot_leaves_no_version_serves_nothing(
    release: str, may_rename: bool, is_empty: bool, node: Path
) -> None:
    """Kafka 4.3.0 logs `Unhandled error initializing new publishers` after each batch, and renames nothing. 3.9.1 does
    so too in one start, and in another renames every partition before.
    """
    path = snapshot(node)
    os.truncate(path, 0 if is_empty else first_batch(path))
    (node / "bootstrap.checkpoint").unlink()  # which Kafka 3.9 cannot read
    broker = {"process.roles": "broker", "node.id": "3", "log.dirs": str(node)}
    alone = node_start([str(node)], release=release, properties=broker).answers[0]
    assert alone.outcome is StartOutcome.NOT_SERVING
    assert not alone.strays
    (told,) = (each for each in alone.consequences if each.kind is ConsequenceKind.NOT_SERVING)
    assert ("may rename" in told.detail) is may_rename
    assert set(told.names) == {each.name for each in partitions(node)}


def test_an_empty_snapshot_ends_the_loader_where_voters_are_static(node: Path) -> None:
    snapshot(node).write_bytes(b"")
    found = answer(node)
    assert found.outcome in (StartOutcome.FAILS, StartOutcome.NOT_SERVING)
    assert found.outcome is StartOutcome.NOT_SERVING or found.exception == "java.util.NoSuchElementException"


def test_a_log_that_begins_late_needs_a_snapshot(node: Path) -> None:
    logs = sorted((node / METADATA).glob("*.log"))
    for path in [*(node / METADATA).glob("*.checkpoint"), *logs[:-1]]:
        path.unlink()
    begins = int(logs[-1].stem)
    assert begins > 0
    found = answer(node)
    assert found.exception == "java.lang.IllegalStateException"
    words = f"there must be a snapshot at an offset larger then the current log start offset {begins}"
    assert words in (found.message or "")


@pytest.mark.parametrize(
    ("release", "kind"),
    [("3.6", None), ("3.7.1", ConsequenceKind.STRAY), ("4.3", ConsequenceKind.STRAY)],
)
def test_a_partition_without_its_topic_id(release: str, kind: ConsequenceKind | None) -> None:
    """KAFKA-16814: since 3.7.1 it is renamed; up to 3.6 nothing is removed, and the file is written again."""
    found, _faults = partition_consequences(node_files([]), [NAMELESS], None, 3, release_of(release), Explained(), {})
    assert [(each.kind, each.names) for each in found] == ([] if kind is None else [(kind, (NAMELESS.name,))])


def test_3_7_0_stops_on_a_partition_without_its_topic_id() -> None:
    with pytest.raises(StartEndsError, match="not allowed when running in KRaft mode"):
        partition_consequences(node_files([]), [NAMELESS], None, 3, release_of("3.7.0"), Explained(), {})


def test_an_older_topic_s_directory_is_no_second_one_of_its_partition() -> None:
    """Since 3.7.1 `LogManager.loadLog` renames a stray before it looks for another log of the partition."""
    ours, older = (
        structs.replace(NAMELESS, root=f"/{topic_id}", topic_id=topic_id) for topic_id in (f"{'A' * 20}BQ", NOBODY)
    )
    replica = PartitionImage((3,), (3,), 3, 0, 0, ())
    image = MetadataImage()
    image.topics["orders"] = TopicImage("orders", f"{'A' * 20}BQ", {0: replica})
    image.topic_names[f"{'A' * 20}BQ"] = "orders"
    for others in ([older, ours], [ours, older]):
        found, _faults = partition_consequences(node_files([]), others, image, 3, release_of("4.3"), Explained(), {})
        assert [each.names for each in found if each.kind is ConsequenceKind.STRAY] == [(older.name,)]
        with pytest.raises(StartEndsError, match="Duplicate log directories"):
            partition_consequences(node_files([]), others, image, 3, release_of("3.7.0"), Explained(), {})


def test_a_nameless_directory_hides_no_two_others_of_its_partition() -> None:
    others = [structs.replace(NAMELESS, root=f"/data-{number}", topic_id=NOBODY) for number in range(2)]
    with pytest.raises(StartEndsError, match="Duplicate log directories"):
        partition_consequences(node_files([]), [NAMELESS, *others], None, 3, release_of("4.3"), Explained(), {})


def test_a_lost_topic_id_is_an_error_with_exit_code_1(node: Path) -> None:
    first = partitions(node)[0]
    (first / "partition.metadata").unlink()
    verified = kafkalog("verify", "--json", node)
    assert verified.code == 1
    (line,) = verified.objects
    (told,) = line["broker"]["node"]["answers"]
    assert told["outcome"] == "makes_strays"
    assert [each["names"] for each in told["consequences"] if each["kind"] == "stray"] == [[first.name]]
    assert "nothing to do" not in kafkalog("plan", node).out


def test_a_partition_with_the_id_of_another_topic_is_no_stray_and_is_not_served(node: Path) -> None:
    """Kafka 3.9.1 and 4.3.0: `Error applying topics delta`, InconsistentTopicIdException, and most have no leader."""
    one, other = [each for each in partitions(node) if each.name.endswith("-0") and each.name[0] != "_"][:2]
    mine, theirs = ((each / "partition.metadata").read_bytes() for each in (one, other))
    (one / "partition.metadata").write_bytes(theirs)
    (other / "partition.metadata").write_bytes(mine)
    found = answer(node)
    assert found.outcome is StartOutcome.NOT_SERVING
    assert not found.strays
    (told,) = [each for each in found.consequences if each.kind is ConsequenceKind.NOT_SERVING]
    assert sorted(told.names) == sorted([one.name, other.name])
    screen = " ".join(kafkalog("plan", node).out.split())
    assert f"out of service after a start as it is: at least 2 partitions ({one.name}, {other.name})" in screen
    moves = [line.split() for line in kafkalog("plan", node, columns=1000).out.splitlines() if line.startswith("  mv ")]
    assert sorted(source for _mv, source, _to in moves) == sorted(f"{each}/partition.metadata" for each in (one, other))
    triaged = " ".join(kafkalog("triage", node).out.split())
    assert f"one): {one.name}, {other.name}" in triaged
    assert "is lost" not in triaged
    assert "-stray" not in triaged
    for _mv, source, to in moves:
        Path(source).rename(to)
    assert kafkalog("recover", "--yes", node).code in (0, 2)
    assert [(each / "partition.metadata").read_bytes() for each in (one, other)] == [mine, theirs]
    assert answer(node).outcome is StartOutcome.STARTS


def test_what_the_metadata_shows_as_deleted_is_a_note(node: Path) -> None:
    first = partitions(node)[0]
    topic_id = (first / "partition.metadata").read_text().split("topic_id: ")[1].strip()
    log = max(path for path in (node / METADATA).glob("*.log") if path.stat().st_size)
    append_metadata(log, ("RemoveTopicRecord", 0, {"topic_id": topic_id}))
    found = answer(node)
    assert found.outcome is StartOutcome.STARTS
    (expected,) = [each for each in found.consequences if each.kind is ConsequenceKind.EXPECTED_STRAY]
    assert first.name in expected.names


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (("TopicRecord", 0, {"name": "orders-48", "topic_id": NOBODY}), "Found duplicate TopicRecord for orders-48"),
        (("RemoveTopicRecord", 0, {"topic_id": NOBODY}), f"Unable to delete topic with id {NOBODY}"),
        (partition_change(NOBODY), "Error loading metadata log record from offset"),
        (("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 300}), "No MetadataVersion"),
        (("FeatureLevelRecord", 0, {"name": "kraft.version", "feature_level": 7}), "Tried to apply FeatureLevelRecord"),
    ],
)  # fmt: skip
def test_a_record_that_contradicts_the_metadata_ends_a_controller(
    node: Path, record: tuple[str, int, dict[str, object]], words: str
) -> None:
    log = max(path for path in (node / METADATA).glob("*.log") if path.stat().st_size)
    append_metadata(log, record)
    found = answer(node)
    assert found.outcome is StartOutcome.FAILS
    assert words in (found.message or "")
    assert found.faults[-1].part is Part.METADATA_REPLAY


def test_a_broker_alone_keeps_two_topics_of_one_name(node: Path) -> None:
    log = max(path for path in (node / METADATA).glob("*.log") if path.stat().st_size)
    append_metadata(log, ("TopicRecord", 0, {"name": "orders-48", "topic_id": NOBODY}))
    properties = {"process.roles": "broker", "node.id": "3", "log.dirs": str(node)}
    found = node_start([str(node)], properties=properties, release="4.3").answers[0]
    assert found.outcome is not StartOutcome.FAILS
    assert found.condition is not None, "from its own copy of the metadata"


def test_directories_that_contradict_each_other(node: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    roots = [str(node), str(second)]

    def message(change: Callable[[str], str]) -> str | None:
        (second / "meta.properties").write_text(change((node / "meta.properties").read_text()))
        return node_start(roots, release="4.3").answers[0].message

    own = next(line for line in (node / "meta.properties").read_text().splitlines() if line.startswith("directory.id"))
    assert f"It was the ID of {node}" in (message(lambda text: text) or "")
    other = "directory.id=QLzt-g_BuAkWCE5UuGwm5Q"
    assert "Stored node id 77" in (
        message(lambda text: text.replace(own, other).replace("node.id=3", "node.id=77")) or ""
    )
    assert message(lambda text: text.replace(own, other)) is None
    (second / "meta.properties").unlink()
    assert f"No `meta.properties` found in {second}" in (node_start(roots, release="4.3").answers[0].message or "")
    shutil.copytree(node / METADATA, second / METADATA)
    (second / "meta.properties").write_text((node / "meta.properties").read_text().replace(own, other))
    assert "Found unexpected metadata location" in (node_start(roots, release="4.3").answers[0].message or "")


@pytest.mark.parametrize(("value", "ends"), [("4096", True), ("1048575", True), ("1048576", False), ("²", False)])
def test_segments_below_1_mib_end_the_start_since_4_0(value: str, ends: bool, tmp_path: Path) -> None:
    """KIP-1030; Kafka 4.1.1 and 4.4.0 on a node of 3.9.1: `LogConfig` refuses the topic's setting."""
    root = own_copy(brokers("3.9.1/metadata")[0], tmp_path / "data")
    log = max(path for path in (root / METADATA).glob("*.log") if path.stat().st_size)
    topic = partitions(root)[0].name.rpartition("-")[0]
    fields = {"resource_type": 2, "resource_name": topic, "name": "segment.bytes", "value": value}
    append_metadata(log, ("ConfigRecord", 0, fields))
    assert answer(root, "3.9").outcome is StartOutcome.STARTS
    for release in ("4.0", "4.4"):
        found = answer(root, release)
        assert (found.outcome is StartOutcome.FAILS) is ends
        words = f"Invalid value {value} for configuration segment.bytes: Value must be at least 1048576"
        assert (found.message == words) is ends
    properties = {"process.roles": "broker,controller", "node.id": "7", "log.segment.bytes": "4096"}
    assert node_start([str(root)], properties=properties, release="4.1").never_starts


def test_the_directory_of_another_registered_broker_is_refused(tmp_path: Path) -> None:
    """The controllers of Kafka 4.1.0 refused node 4 with a directory of node 3, after strays were renamed."""
    unpack_replicas(tmp_path)
    properties = tmp_path / "broker-2" / "meta.properties"
    assert answer(tmp_path / "broker-2").outcome is StartOutcome.STARTS
    properties.write_text(properties.read_text().replace("node.id=2", "node.id=7"))
    refused = answer(tmp_path / "broker-2")
    assert (refused.outcome, refused.file) == (StartOutcome.FAILS, str(properties))
    assert (refused.message or "").startswith("Broker 2 is already registered with directory ")
    assert ConsequenceKind.STRAY in {consequence.kind for consequence in refused.consequences}


def test_a_zookeeper_node_does_not_start_on_4_0(tmp_path: Path) -> None:
    root = next(broker_case("3.9.1-zk", "codecs").unpack(tmp_path / "data").glob("broker-*"))
    assert node_start([str(root)]).loses_nothing
    assert answer(root, "4.0").outcome is StartOutcome.FAILS


def test_releases_are_named_as_spans() -> None:
    known = GROUPS
    assert named(known[2:5], known) == f"{known[2]} to {known[4]}"
    assert named([known[0], *known[-2:]], known) == f"{known[0]} and {known[-2]} and later"
    assert release_of("3.7.1").at_least("3.7")
    assert not release_of("3.7").at_least("3.7.1")


def test_exchanged_partitions_of_the_groups_hide_their_commits_since_4_0(tmp_path: Path) -> None:
    """4.1.1 and 4.3.0 found no commit; 3.6.2 and 3.9.1 served them."""
    root = next(broker_case("4.3.0", "groups").unpack(tmp_path).glob("broker-*"))
    topic = "__consumer_offsets"
    assert answer(root).outcome is StartOutcome.STARTS
    groups = groups_of(root).groups
    held = {group.log_partition for group in groups}
    one, other = min(held), max(held)
    assert one != other
    shutil.move(root / f"{topic}-{one}", tmp_path / "aside")
    shutil.move(root / f"{topic}-{other}", root / f"{topic}-{one}")
    shutil.move(tmp_path / "aside", root / f"{topic}-{other}")
    found = answer(root)
    assert found.outcome is StartOutcome.NOT_SERVING
    hidden = {each.names[0]: each.detail for each in found.consequences}
    assert hidden.keys() == {f"{topic}-{one}", f"{topic}-{other}"}
    for here, there in ((one, other), (other, one)):
        names = [group.group_id for group in groups if group.log_partition == there]
        detail = hidden[f"{topic}-{here}"]
        assert f"looks in {topic}-{there} for " in detail
        assert any(name in detail for name in names)
    assert kafkalog("verify", root).code == 1
    place = coordinator_partition("g", 50)
    of_transactions = "__transaction_state"
    for each, number, release, count in (
        (topic, place, "4.0.0", 0), (topic, place + 1, "4.0.0", 1), (topic, place + 1, "3.9.1", 0),
        (of_transactions, place, "4.0.0", 0), (of_transactions, place + 1, "3.9.1", 1),
    ):  # fmt: skip
        kept = [KeptNames(topic=each, name=f"{each}-{number}", number=number, path="", names=("g",))]
        assert len(consequences_of_misplaced(kept, {each: 50}, release_of(release))) == count
    assert consequences_of_misplaced(kept, {}, release_of("4.0.0")) == []


def test_metadata_that_ends_in_its_first_transaction_is_lost_and_no_recovery_of_the_logs_comes_first(
    tmp_path: Path,
) -> None:
    """Kafka 4.1.1 aborts the transaction of its first records, and ends in `MetadataLoader#handleCommit`."""
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink()
    log = root / METADATA / "00000000000000000000.log"
    with FileSource(str(log)) as source:
        first, second = list(Scanner(source))[:2]
        records = decode_batch(second).records[:3]
        start = source.read(0, first.size)
    for path in (root / METADATA).iterdir():
        if path.name not in (PARTITION_METADATA, QUORUM_STATE):
            path.unlink()
    log.write_bytes(start + build_batch(records, partition_leader_epoch=1))
    found = answer(root)
    assert found.message == "Unknown metadata version for FeaturesImage: metadataVersion(Optional.empty)"
    planned = kafkalog("plan", root)
    first_screen = " ".join(planned.out.partition("plan for")[2].partition("plan for")[0].split())
    assert "all of the metadata, unless there is another copy" in first_screen
    assert "the metadata of the cluster is lost here (runbook: no-controller)" in first_screen
    commands = [line.split() for line in planned.out.splitlines() if line.startswith("  kafkalog ")]
    assert commands[0][1:3] == ["quorum", "show"]
    shown = kafkalog("quorum", "show", root)
    assert shown.code == 1
    assert "no metadata is left: the log ends at offset 6" in " ".join(shown.err.split())


def test_a_topic_id_that_the_metadata_does_not_know_is_compared_with_the_topic_s(node: Path) -> None:
    """4.1.1 made the directory -stray and the partition again, empty, and served all of it with the right id."""
    one = next(each for each in partitions(node) if each.name.endswith("-0") and each.name[0] != "_")
    path = one / "partition.metadata"
    right = path.read_bytes()
    wrong_id = "Qvd2J9cLTmOT2H04la0B-Q"
    (id_line,) = [line for line in right.splitlines() if line.startswith(b"topic_id")]
    path.unlink()
    path.write_bytes(right.replace(id_line, f"topic_id: {wrong_id}".encode()))
    assert one.name in answer(node).strays
    printed = kafkalog("plan", node).out
    right_id = id_line.decode().rpartition(" ")[2]
    words = " ".join(printed.split())
    assert f"{one.name} has topic id {wrong_id}, and the metadata {right_id}" in words
    assert "of another topic of this name (deleted, newer than this metadata, or of another cluster), move" in words
    line = next(line for line in printed.splitlines() if line.startswith("  mv "))
    assert str(path) in line or str(path) in printed.partition(line)[2].splitlines()[1]
    path.rename(node.parent / "aside")
    assert kafkalog("recover", "--yes", node).code == 2
    assert path.read_bytes() == right
    assert not answer(node).strays
