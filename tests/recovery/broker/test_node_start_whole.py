"""The start of a node is told whole: asked about one partition or one directory, through links, and of its brothers.

Expected is what real brokers did: 2.8.2, 3.9.1, 4.1.1 and 4.3.0, and Kafka's source.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import BatchHeader, Record, TimestampType
from kafkalog.log import open_segment
from kafkalog.recovery.broker.node.answer import NodeAnswer, Role, StartOutcome
from kafkalog.recovery.broker.node.releases import release_of
from kafkalog.recovery.broker.node.replay import unknown_metadata_version
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.recovery.facts.brokers import facts_of_each
from testkit.made.scenes import metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.quorums import BROKER, CONTROLLERS, METADATA, copied, last_log
from testkit.running.command import kafkalog

KRAFT = "4.3.0/metadata"


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two directories of a combined node of 4.3.0: one with its partitions, one with its metadata log."""
    first = own_copy(brokers(KRAFT)[0], tmp_path / "a")
    return [first, metadata_elsewhere(first, tmp_path / "b")]


@pytest.fixture
def zookeeper(tmp_path: Path) -> list[Path]:
    """Two directories of a broker of 2.8.2, each with some of its partitions."""
    first, second = own_copy(brokers("2.8.2/segments")[0], tmp_path / "a"), tmp_path / "b"
    second.mkdir()
    shutil.copy2(first / "meta.properties", second)
    live = next(each for each in sorted(first.iterdir()) if each.is_dir() and each.name[0] != "_")
    live.rename(second / live.name)
    return [first, second]


def edit(path: Path, before: str, after: str) -> None:
    path.chmod(0o600)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def emptied(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(b"")


def answer(*roots: Path, release: str = "4.3") -> NodeAnswer:
    return node_start([str(each) for each in roots], release=release, loads_others=False).answers[0]


def damages() -> dict[str, Callable[[Path, Path], None]]:
    return {
        "quorum-state": lambda _data, other: emptied(other / METADATA / "quorum-state"),
        "bootstrap": lambda _data, other: emptied(other / "bootstrap.checkpoint"),
        "meta of the other": lambda _data, other: (other / "meta.properties").unlink(),
        "foreign directory": lambda data, _other: (data / "lost+found").mkdir(),
        "cleaner": lambda data, _other: (data / "cleaner-offset-checkpoint").write_text("garbage"),
        "checkpoint": lambda _data, other: (other / "cleaner-offset-checkpoint").write_text("garbage"),
        "segment name": lambda data, _other: next(iter(data.glob("orders*/*.log"))).with_name("0 (1).log").touch(),
    }


@pytest.mark.parametrize("damage", damages())
def test_what_ends_the_start_is_said_wherever_it_is_asked(damage: str, disks: list[Path]) -> None:
    """4.3.0 did not start on any of these, asked about one partition or not; "checkpoint" is beside the metadata."""
    (disks[1] / "bootstrap.checkpoint").exists() or shutil.copy2(disks[0] / "bootstrap.checkpoint", disks[1])
    partition = next(each.name for each in sorted(disks[0].glob("orders*-0")))
    topic = partition.removesuffix("-0")
    for words in (("--topic", topic), ()):
        printed = kafkalog("plan", *disks, *words).out
        assert "would start on it" in printed
        assert "Kafka 4.1" not in printed, "the node's metadata.version is that of 4.3"
    damages()[damage](*disks)
    for words in (("--topic", topic), ()):
        planned = kafkalog("plan", *disks, *words)
        assert planned.code == 1
        if damage == "cleaner":  # of the directory without the metadata log
            assert f"{disks[0]} goes offline" in " ".join(planned.out.split())
            continue
        assert "would NOT START" in planned.out
        assert "would start on it" not in planned.out
    assert all(kafkalog("verify", each, *disks).code == 1 for each in disks)


def test_a_directory_in_place_of_meta_properties_is_unreadable_not_missing(disks: list[Path]) -> None:
    """4.1.1 said "Error while reading meta.properties file", and left out the log directory."""
    (disks[0] / "meta.properties").unlink()
    (disks[0] / "meta.properties").mkdir()
    printed = " ".join(kafkalog("plan", *disks).out.split())
    found = f"meta_properties_invalid (meta.properties): {disks[0]}/meta.properties: a directory, not a file"
    assert (found in printed, "it is missing" in printed) == (True, False)


@pytest.mark.parametrize("name", ["partition", METADATA, "meta.properties"])
def test_a_link_is_followed_as_a_broker_follows_it(name: str, tmp_path: Path) -> None:
    """4.3.0 served every partition through each of these links."""
    data = own_copy(brokers(KRAFT)[0], tmp_path / "data")
    name = next(each.name for each in sorted(data.glob("orders*-0"))) if name == "partition" else name
    (tmp_path / "disk").mkdir()
    (data / name).rename(tmp_path / "disk" / name)
    (data / name).symlink_to(tmp_path / "disk" / name)
    assert answer(data).loses_nothing
    printed = kafkalog("plan", data).out
    assert "would start on it" in printed
    assert f"refused: {name} is a symbolic link" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("cluster.id=", "cluster.id=A", "Invalid cluster.id in"),
        ("node.id=3", "node.id=4", "doesn't match previous node id"),
    ],
)
def test_a_directory_that_the_node_has_registered_is_its_own(
    before: str, after: str, words: str, tmp_path: Path
) -> None:
    """By its directory.id; 4.3.0 ended with these words."""
    data = own_copy(brokers(KRAFT)[0], tmp_path / "a")
    other = metadata_elsewhere(data, tmp_path / "b")
    edit(data / "meta.properties", before, after)
    for roots in ([data, other], [other, data]):
        planned = kafkalog("plan", *roots)
        assert planned.code == 1
        assert words in " ".join(planned.out.split()).replace(" /", " /")
        assert "would start on it" not in planned.out


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("broker.id=", "broker.id=9"),
        ("cluster.id=", "cluster.id=A"),
        ("version=0", "version=1"),
        ("version=0", "version=0 "),
        ("cluster.id=", "other="),
        ("broker.id=", "other="),
        ("version=0", "# more\nversion=0"),
    ],
)
def test_before_3_7_every_file_has_the_same_lines_with_zookeeper(
    before: str, after: str, zookeeper: list[Path]
) -> None:
    """`BrokerMetadataCheckpoint.getBrokerMetadataAndOfflineDirs` of 2.8.2; comments do not count."""
    edit(zookeeper[1] / "meta.properties", before, after)
    found = answer(*zookeeper, release="2.8")
    if "#" in after:
        assert found.outcome is StartOutcome.STARTS
        return
    assert (found.outcome, found.exception) == (
        StartOutcome.FAILS, "kafka.common.InconsistentBrokerMetadataException"
    )  # fmt: skip
    assert kafkalog("verify", *zookeeper).code == 1
    planned = kafkalog("plan", *zookeeper, "--release", "2.8")
    assert planned.code == 1
    assert "2.8 would start" not in planned.out


def test_an_empty_file_of_two_starts_with_3_9_alone(zookeeper: list[Path]) -> None:
    """`MetaPropertiesEnsemble.verify` of 3.9.1 takes it; 2.8.2 does not."""
    emptied(zookeeper[1] / "meta.properties")
    start = node_start([str(each) for each in zookeeper])
    assert [(releases, each.outcome) for releases, each in start.grouped] == [
        ("2.8", StartOutcome.FAILS), ("3.9", StartOutcome.STARTS)
    ]  # fmt: skip


def test_directories_of_several_brokers_are_asked_about_by_themselves(zookeeper: list[Path]) -> None:
    """They have a partition in common, which the directories of one broker do not."""
    edit(zookeeper[1] / "meta.properties", "broker.id=", "broker.id=9")
    shutil.copytree(next(zookeeper[1].glob("*-0")), zookeeper[0] / next(zookeeper[1].glob("*-0")).name)
    assert all(not facts.apart for facts in facts_of_each([str(each) for each in zookeeper]).values())


def test_a_broker_without_its_metadata_log_follows_the_controllers_that_are_given(tmp_path: Path) -> None:
    """4.3.0 fetched it, and served everything."""
    nodes = copied("dynamic", tmp_path, *CONTROLLERS, BROKER)
    whole = answer(nodes[BROKER])
    shutil.rmtree(nodes[BROKER] / METADATA)
    controllers = [str(nodes[each]) for each in CONTROLLERS]
    start = node_start([str(nodes[BROKER])], release="4.3", controllers=controllers)
    assert start.role is Role.BROKER
    assert start.answers[0].condition == "if it follows the controllers that were given"
    assert start.answers[0].strays == whole.strays


def append_unknown_record(controllers: Sequence[Path]) -> None:
    """Append a record of a type that no release knows to the metadata logs of these nodes."""
    for root in controllers:
        log = last_log(root)
        *_, last = open_segment(log).batches()
        assert isinstance(last.header, BatchHeader)
        record = Record(last.header.next_offset, 0, TimestampType.CREATE_TIME, None, b"\x01\x7f\x7f\x00")
        log.chmod(0o600)
        data = log.read_bytes()[: last.position + last.size]
        log.write_bytes(data + build_batch([record], partition_leader_epoch=last.header.partition_leader_epoch))


def test_a_record_of_the_controllers_that_nobody_can_read_ends_the_start_of_a_broker(tmp_path: Path) -> None:
    nodes = copied("dynamic", tmp_path, *CONTROLLERS, BROKER)
    controllers = [nodes[each] for each in CONTROLLERS]
    append_unknown_record(controllers)
    given = [str(each) for each in controllers]
    found = node_start([str(nodes[BROKER])], release="4.3", controllers=given).answers[0]
    assert (found.outcome, found.message) == (StartOutcome.FAILS, "Unknown metadata id 127")
    assert found.file in [str(each / METADATA) for each in controllers]


def test_controllers_whose_log_ends_in_damage_still_tell_which_releases_can_have_written_it(tmp_path: Path) -> None:
    nodes = copied("dynamic", tmp_path, *CONTROLLERS, BROKER)
    controllers = [nodes[each] for each in CONTROLLERS]
    shutil.rmtree(nodes[BROKER] / METADATA)
    (nodes[BROKER] / "bootstrap.checkpoint").unlink()
    sound = node_start([str(nodes[BROKER])], controllers=[str(each) for each in controllers]).releases
    assert sound[0].at_least("4.0")
    append_unknown_record(controllers)
    assert node_start([str(nodes[BROKER])], controllers=[str(each) for each in controllers]).releases == sound


@pytest.mark.parametrize(("release", "words"), [("3.7", "metadata version"), ("3.8", "feature level")])
def test_an_unknown_metadata_version_is_named_as_the_release_names_it(release: str, words: str) -> None:
    """KAFKA-15949, 3.8."""
    assert unknown_metadata_version(30, release_of(release)) == (
        "java.lang.IllegalArgumentException", f"No MetadataVersion with {words} 30"
    )  # fmt: skip


def test_4_1_ends_at_a_record_of_4_3_and_3_9_at_the_bootstrap_checkpoint(disks: list[Path]) -> None:
    """4.1.1: `Can't read version 4 of BrokerEndpoint`; 3.9.1: `BootstrapMetadata.fromRecords`."""
    root = disks[1]
    newer, older = answer(root, release="4.1"), answer(root, release="3.9")
    assert (newer.exception or "").endswith("MetadataParseException")
    assert (older.exception or "").endswith("IllegalArgumentException")
    assert older.message == "No MetadataVersion with feature level 30"
